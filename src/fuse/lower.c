/* SPDX-License-Identifier: Apache-2.0 */
/* From grouped nodes to steps over buffers.  Nodes are emitted in order, what they need before them; a kernel comes where its
 * last member stands, or earlier if somebody needs it. */
#include "src/fuse/lower.h"

#include <string.h>

int lower_buffer(Lower *l, BufferClass class, int var, size_t nbytes, const char *name) {
  Buffer b = {.class = class,
              .var = var,
              .nbytes = (nbytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN,
              .first = -1,
              .last = -1,
              .name = name};
  vec_push(l->arena, &l->buffers, b);
  return l->buffers.n - 1;
}

static size_t node_bytes(const Node *x) { return (size_t)shape_size(&x->shape) * dtype_size(x->dtype); }

static int var_buffer(Lower *l, const char *name) {
  int v = graph_find_var(l->g, name);
  const Var *var = &l->g->vars.at[v];
  if (l->var_buffer[v] < 0)
    l->var_buffer[v] = lower_buffer(l, BUFFER_VAR, v, (size_t)shape_size(&var->shape) * dtype_size(var->dtype), var->name);
  return l->var_buffer[v];
}

/* The buffer of a node that is a root of its own. */
static int own_buffer(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  if (x->op == OP_LOAD || x->op == OP_STORE) return var_buffer(l, x->name);
  BufferClass class = x->op == OP_TABLE ? BUFFER_TABLE : x->op == OP_SEND ? BUFFER_HOST : BUFFER_TRANSIENT;
  if (l->own[node] < 0) l->own[node] = lower_buffer(l, class, node, node_bytes(x), op_table[x->op].name);
  return l->own[node];
}

Place lower_place(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  Place p = {0};
  if (is_view(x)) {
    Place from = lower_place(l, x->in[0]);
    Layout layout = {.offset = from.offset}, out;
    memcpy(layout.stride, from.stride, sizeof layout.stride);
    bool ok = layout_view(l->g, x, &layout, &out);
    CHECK(ok); /* legalise saw to it */
    p.buffer = from.buffer;
    p.offset = out.offset;
    memcpy(p.stride, out.stride, sizeof p.stride);
    return p;
  }
  const Target *t = &l->targets[node];
  p.buffer = own_buffer(l, t->root >= 0 ? t->root : node);
  if (t->root >= 0) {
    p.offset = t->offset;
    memcpy(p.stride, t->stride, sizeof p.stride);
  } else {
    strides_dense(&x->shape, p.stride);
  }
  return p;
}

static void touch(Lower *l, int buffer, int step) {
  if (buffer < 0) return;
  Buffer *b = &l->buffers.at[buffer];
  if (b->first < 0) b->first = step;
  b->last = step;
}

void lower_step(Lower *l, Step step) {
  int at = l->steps.n;
  for (int i = 0; i < step.nin; i++) touch(l, step.in[i].place.buffer, at);
  for (int i = 0; i < step.nout; i++) touch(l, step.out[i].place.buffer, at);
  touch(l, step.workspace, at);
  vec_push(l->arena, &l->steps, step);
}

void lower_readers(Lower *l, int node, int group) {
  for (const Hazard *h = l->hazards[node]; h; h = h->next)
    if (l->live[h->reader] && (group < 0 || l->grouping->group[h->reader] != group)) lower_require(l, h->reader);
}

static StepArg arg_of(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  return (StepArg){lower_place(l, node), x->shape, x->dtype};
}

static void swap(int64_t *a, int64_t *b) {
  int64_t t = *a;
  *a = *b;
  *b = t;
}

static void transpose(StepArg *arg) {
  swap(&arg->shape.dim[0], &arg->shape.dim[1]);
  swap(&arg->place.stride[0], &arg->place.stride[1]);
}

static void add_workspace(Lower *l, Step *step) {
  size_t nbytes = l->options->workspace ? l->options->workspace(l->options->self, step, l->g) : 0;
  step->workspace = nbytes ? lower_buffer(l, BUFFER_TRANSIENT, -1, nbytes, "workspace") : -1;
}

static Shape result_shape(const Graph *g, const Node *x, int i) {
  if (x->op == OP_ATTENTION_GRAD) return graph_node(g, x->in[1 + i])->shape;
  return i == 0 ? x->shape : SHAPE(x->shape.dim[0], x->shape.dim[2], x->shape.dim[1]);
}

/* Results of a big op: one, or those that RESULT nodes name; an unnamed one still needs a place. */
static void big_results(Lower *l, int node, Step *step) {
  const Node *x = graph_node(l->g, node);
  int results = x->op == OP_ATTENTION ? 2 : x->op == OP_ATTENTION_GRAD ? 3 : 1;
  step->nout = results;
  step->out = arena_array(l->arena, StepArg, results);
  if (results == 1) {
    step->out[0] = arg_of(l, l->absorber[node] >= 0 ? l->absorber[node] : node);
    return;
  }
  for (int r = l->result[node]; r >= 0; r = l->next_result[r]) {
    StepArg *out = &step->out[graph_node(l->g, r)->n[0]];
    CHECK(!out->shape.rank); /* equal nodes have been made one */
    *out = arg_of(l, r);
  }
  for (int i = 0; i < results; i++) {
    if (step->out[i].shape.rank) continue;
    Shape s = result_shape(l->g, x, i); /* such as lse in evaluation */
    DType dtype = x->op == OP_ATTENTION && i == 1 ? DT_F32 : x->dtype;
    size_t nbytes = (size_t)shape_size(&s) * dtype_size(dtype);
    step->out[i] = (StepArg){{.buffer = lower_buffer(l, BUFFER_TRANSIENT, -1, nbytes, "unread")}, s, dtype};
    strides_dense(&s, step->out[i].place.stride);
  }
}

static void emit_big(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  int nin = x->nin - fuse_omits(l->g, x, x->nin - 1, l->options);
  for (int k = 0; k < nin; k++) lower_require(l, x->in[k]);
  lower_readers(l, node, -1);
  Step step = {.kind = STEP_BIG, .node = node, .op = x->op, .f = x->f, .nin = nin, .workspace = -1, .collective = -1};
  step.in = arena_array(l->arena, StepArg, nin);
  for (int k = 0; k < nin; k++) step.in[k] = arg_of(l, x->in[k]);
  if (x->op == OP_MATMUL)
    for (int k = 0; k < 2; k++)
      if (x->n[k]) transpose(&step.in[k]);
  if (x->op == OP_ATTENTION || x->op == OP_ATTENTION_GRAD)
    step.n[0] = x->n[0];
  else
    step.n[0] = l->absorber[node] >= 0; /* accumulate */
  if (x->op == OP_ROUTE || x->op == OP_TAKE || x->op == OP_GROUPED) step.n[1] = x->n[0];
  big_results(l, node, &step);
  add_workspace(l, &step);
  lower_step(l, step);
}

static void wait_for(Lower *l, int node) {
  if (l->waited[node]) return;
  l->waited[node] = true;
  for (int i = l->steps.n - 1; i >= 0; i--) {
    Step step = l->steps.at[i];
    if (step.node != node || (step.kind != STEP_COLLECTIVE_START && step.kind != STEP_TRANSFER_START)) continue;
    step.kind = step.kind == STEP_COLLECTIVE_START ? STEP_COLLECTIVE_WAIT : STEP_TRANSFER_WAIT;
    lower_step(l, step);
    return;
  }
  CHECK(!"something that was started");
}

/* A SEND keeps the device's memory of what it sends until it is over.  Nobody need ever ask for it, so it is waited for when the
 * next is started: the device computes meanwhile what that one sends.  Those that are started side by side (the states of a unit)
 * count as one. */
static void follow_sends(Lower *l, int node) {
  const Step *last = l->steps.n ? &l->steps.at[l->steps.n - 1] : NULL;
  bool beside = last && last->kind == STEP_TRANSFER_START && last->op == OP_SEND;
  for (int i = 0; i < l->sending.n && !beside; i++) wait_for(l, l->sending.at[i]);
  if (!beside) l->sending.n = 0;
  vec_push(l->arena, &l->sending, node);
}

static void emit_travel(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  StepKind kind = op_table[x->op].kind == KIND_TRANSFER ? STEP_TRANSFER_START : STEP_COLLECTIVE_START;
  lower_require(l, x->in[0]);
  lower_readers(l, node, -1);
  if (x->op == OP_SEND) follow_sends(l, node);
  l->collective[node] = l->ncollectives++;
  Step step = {.kind = kind, .node = node, .op = x->op, .n = {x->n[0], x->n[1]}, .nin = 1, .nout = 1, .workspace = -1};
  step.collective = l->collective[node];
  step.in = arena_array(l->arena, StepArg, 1);
  step.out = arena_array(l->arena, StepArg, 1);
  step.in[0] = arg_of(l, x->in[0]);
  step.out[0] = arg_of(l, node);
  if (kind == STEP_COLLECTIVE_START) add_workspace(l, &step);
  lower_step(l, step);
}

static void emit(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  int kernel = l->grouping->group[node];
  CHECK(kernel < 0 || l->group_state[kernel] != GROUP_EMITTING); /* else a kernel needs itself */
  if (l->emitted[node]) return;
  l->emitted[node] = true;
  OpKind kind = op_table[x->op].kind;
  if (l->targets[node].absorbed) {
    lower_require(l, x->in[0]);
    lower_readers(l, node, -1);
    emit(l, x->in[1]);
  } else if (kernel >= 0) {
    if (l->group_state[kernel] == GROUP_EMITTED) return;
    l->group_state[kernel] = GROUP_EMITTING;
    lower_kernel(l, kernel);
    l->group_state[kernel] = GROUP_EMITTED;
  } else if (kind == KIND_BIG) {
    emit_big(l, node);
  } else if (op_travels(x->op)) {
    emit_travel(l, node);
  } else if (kind == KIND_STORE && graph_node(l->g, x->in[0])->op == OP_SEND) {
    emit(l, x->in[0]);
  } else if (kind == KIND_STORE) {
    lower_require(l, x->in[0]); /* the schedule put it where a collective has had time: its input need not live on */
  } else {
    for (int k = 0; k < x->nin; k++) emit(l, x->in[k]); /* views, results: nothing of their own */
  }
}

void lower_require(Lower *l, int node) {
  const Node *x = graph_node(l->g, node);
  emit(l, node);
  if (op_travels(x->op)) wait_for(l, node);
  if (op_table[x->op].kind == KIND_VIEW)
    for (int k = 0; k < x->nin; k++) lower_require(l, x->in[k]);
}

static void find_live(Lower *l) {
  for (int i = l->g->nodes.n - 1; i >= 0; i--) {
    const Node *x = graph_node(l->g, i);
    if (x->op == OP_STORE) l->live[i] = true;
    if (x->op == OP_RESULT && l->live[i]) {
      l->next_result[i] = l->result[x->in[0]];
      l->result[x->in[0]] = i;
    }
    for (int k = 0; k < x->nin && l->live[i]; k++) l->live[x->in[k]] = true;
  }
}

/* Which values of kernels somebody wants from memory: users outside the kernel, and inside through views. */
static void find_in_memory(Lower *l) {
  for (int i = 0; i < l->g->nodes.n; i++) {
    const Node *x = graph_node(l->g, i);
    if (!l->live[i] || is_view(x)) continue; /* a view's own users count */
    int group = l->grouping->group[i];
    if (group >= 0) vec_push(l->arena, &l->members[group], i);
    for (int k = 0; k < x->nin; k++) {
      int from = x->in[k], inner = group >= 0 ? inner_operand(l->g, x, k) : -1;
      if (inner >= 0 && l->grouping->group[inner] == group) continue;
      while (is_view(graph_node(l->g, from))) from = graph_node(l->g, from)->in[0];
      l->in_memory[from] = true;
    }
  }
}

/* --- checks: in-place writes to Vars must not be seen by whoever wants the old value ----------------------------------------- */

static void extent(const StepArg *arg, int64_t *lo, int64_t *hi) {
  *lo = *hi = arg->place.offset;
  for (int i = 0; i < arg->shape.rank; i++) *hi += (arg->shape.dim[i] - 1) * arg->place.stride[i];
}

static bool overlap(const StepArg *a, const StepArg *b) {
  int64_t alo, ahi, blo, bhi;
  if (a->place.buffer != b->place.buffer) return false;
  extent(a, &alo, &ahi);
  extent(b, &blo, &bhi);
  return alo <= bhi && blo <= ahi;
}

static void check_hazards(const Lower *l) {
  const bool *loaded = count_uses(l->g, l->arena).loaded;
  for (int w = 0; w < l->steps.n; w++) {
    const Step *writer = &l->steps.at[w];
    for (int o = 0; o < writer->nout; o++) {
      const Buffer *b = &l->buffers.at[writer->out[o].place.buffer];
      if (b->class != BUFFER_VAR || writer->kind == STEP_COLLECTIVE_WAIT) continue;
      if (!loaded[b->var]) continue; /* all readers want what is new */
      for (int r = w + 1; r <= b->last; r++)
        for (int i = 0; i < l->steps.at[r].nin; i++)
          if (l->steps.at[r].kind != STEP_COLLECTIVE_START && l->steps.at[r].kind != STEP_COLLECTIVE_WAIT)
            CHECK(!overlap(&writer->out[o], &l->steps.at[r].in[i]));
    }
  }
}

Program *fuse_lower(const Graph *g, Arena *arena, const Target *targets, Hazard *const *hazards, const Grouping *grouping,
                    const FuseOptions *options) {
  int n = g->nodes.n;
  Lower l = {.g = g, .arena = arena, .targets = targets, .hazards = hazards, .grouping = grouping, .options = options};
  l.live = arena_array(arena, bool, n);
  l.emitted = arena_array(arena, bool, n);
  l.waited = arena_array(arena, bool, n);
  l.in_memory = arena_array(arena, bool, n);
  l.group_state = arena_array(arena, GroupState, grouping->n);
  l.members = arena_array(arena, Ints, grouping->n);
  l.value = arena_ints(arena, n, -1);
  l.own = arena_ints(arena, n, -1);
  l.absorber = fuse_absorbers(g, arena, targets);
  l.result = arena_ints(arena, n, -1);
  l.next_result = arena_ints(arena, n, -1);
  l.collective = arena_ints(arena, n, -1);
  l.var_buffer = arena_ints(arena, g->vars.n, -1);
  find_live(&l);
  find_in_memory(&l);
  for (int i = 0; i < n; i++) {
    int group = grouping->group[i];
    bool later = (group >= 0 && l.members[group].n && i != l.members[group].at[l.members[group].n - 1]) || l.absorber[i] >= 0;
    if (l.live[i] && !later) emit(&l, i);
  }
  for (int i = 0; i < n; i++)
    if (l.collective[i] >= 0) wait_for(&l, i);
  check_hazards(&l);
  Program *p = arena_new(arena, Program);
  *p = (Program){.arena = arena, .graph = g, .nsteps = l.steps.n, .nbuffers = l.buffers.n, .ncollectives = l.ncollectives};
  p->steps = l.steps.at;
  p->buffers = l.buffers.at;
  return p;
}

Program *fuse_program(Arena *arena, const Graph *g, const FuseOptions *options) {
  bool *copied = arena_array(arena, bool, g->vars.n), again;
  const Graph *legal;
  const Target *targets;
  Hazard **hazards;
  do {
    legal = fuse_legalise(g, arena, copied, options);
    targets = fuse_targets(legal, arena);
    hazards = fuse_hazards(legal, arena, targets, copied, &again);
  } while (again);
  Grouping grouping = fuse_group(legal, arena, targets, hazards, options->unfused);
  if (!options->unfused) {
    legal = fuse_rematerialise(legal, arena, &grouping);
    targets = fuse_targets(legal, arena);
    hazards = fuse_hazards(legal, arena, targets, copied, &again);
    CHECK(!again);
    grouping = fuse_group(legal, arena, targets, hazards, false);
  }
  Program *p = fuse_lower(legal, arena, targets, hazards, &grouping, options);
  if (!options->unfused) fuse_share(p);
  plan_memory(p);
  return p;
}
