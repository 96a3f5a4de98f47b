/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism as inserted nodes.  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 *
 * A parameter's load becomes a view of its unit's vector: the state itself, or a cast of it, where it is whole, an all-gather of
 * that where it is sharded (one for the forward pass, one for recomputation and backward; a chunk's backward shares its
 * forward's).  A unit's
 * gradients are joined into one vector as soon as the last of them is known, and reduced. */
#include <string.h>

#include "src/pass/pass.h"

enum { FORWARD, BACKWARD, TURNS };

typedef struct Shard {
  const Graph *g;
  Graph *out;
  const StateTable *table;
  const ShardOptions *options;
  int *map;
  bool once;        /* a unit's vector is the state itself: the same for both turns */
  int *param_of;    /* by node of g: the parameter that a LOAD, or a cast of it, is; -1 */
  int *unit[TURNS]; /* by unit: its whole vector in out; -1: not yet */
  int *view[TURNS]; /* by parameter; -1 */
  int *again;       /* by node of g: in out, a view of parameters for the backward turn; -1 */
  int *grad;        /* by parameter: the gradient's node in g; -1: none */
  int *ready;       /* by node of g: the unit whose last gradient it is; -1 */
} Shard;

static int find_param(const StateTable *table, const char *name) {
  for (int i = 0; i < table->nparams; i++)
    if (table->params[i].name == name || !strcmp(table->params[i].name, name)) return i;
  return -1;
}

static int collective(Graph *g, Op op, int x, const Shard *s) {
  return graph_push(g, (Node){.op = op, .n = {s->options->axis, s->table->ranks}, .nin = 1, .in = (int[]){x}});
}

static int cast(Graph *g, DType dtype, int x) { return graph_node(g, x)->dtype == dtype ? x : ir_cast(g, dtype, x); }

/* A sum over ranks, in the type that travels. */
static int reduce(Graph *g, Op op, int x, const Shard *s) {
  return cast(g, DT_F32, collective(g, op, cast(g, s->options->reduce, x), s));
}

static int unit_vector(Shard *s, int unit, int turn) {
  if (s->once) turn = FORWARD;
  if (s->unit[turn][unit] >= 0) return s->unit[turn][unit];
  int x = ir_load(s->out, arena_printf(s->out->arena, "param/%s", s->table->units[unit].name));
  x = cast(s->out, s->options->compute, x);
  if (s->table->sharded) x = collective(s->out, OP_ALL_GATHER, x, s);
  return s->unit[turn][unit] = x;
}

static int param_view(Shard *s, int param, int turn) {
  const StateParam *p = &s->table->params[param];
  if (s->once) turn = FORWARD;
  if (s->view[turn][param] >= 0) return s->view[turn][param];
  int whole = unit_vector(s, p->unit, turn);
  int flat = ir_slice(s->out, whole, 0, p->offset, p->offset + shape_size(&p->shape));
  return s->view[turn][param] = ir_reshape(s->out, flat, p->shape);
}

/* The unit's gradients in the layout of its vector, zeros where there is none. */
static int unit_gradient(Shard *s, int unit) {
  const StateTable *t = s->table;
  Graph *g = s->out;
  int *pieces = arena_array(g->arena, int, t->nparams + 1), n = 0;
  int64_t at = 0;
  while (at < t->units[unit].n) /* parameters in the order of their offsets */
    for (int p = 0; p < t->nparams; p++) {
      if (t->params[p].unit != unit || t->params[p].offset != at) continue;
      int64_t size = shape_size(&t->params[p].shape);
      pieces[n++] =
          s->grad[p] >= 0 ? ir_reshape(g, s->map[s->grad[p]], SHAPE(size)) : ir_broadcast(g, ir_const(g, DT_F32, 0), SHAPE(size));
      at += size;
    }
  int64_t padding = t->units[unit].padded - at;
  if (padding) pieces[n++] = ir_broadcast(g, ir_const(g, DT_F32, 0), SHAPE(padding));
  return ir_concat(g, pieces, n, 0);
}

static void carry(Graph *g, const char *name, int64_t n) {
  if (graph_find_var(g, name) < 0) graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = SHAPE(n)});
}

static void reduce_unit(Shard *s, int unit) {
  const StateUnit *u = &s->table->units[unit];
  const ShardOptions *o = s->options;
  Graph *g = s->out;
  const char *sum = state_gradsum(g->arena, u), *grad = state_grad(g->arena, u);
  bool scatter = s->table->sharded, whole = !scatter || o->whole;
  const char *kept = scatter && whole ? sum : grad; /* where whole gradients add up */
  int x = unit_gradient(s, unit);
  if (whole && !(o->first && o->last)) carry(g, kept, u->padded);
  if (whole && !o->first) x = ir_add(g, ir_load(g, kept), x);
  carry(g, grad, u->local);
  if (scatter && (!whole || o->last)) {
    x = reduce(g, OP_REDUCE_SCATTER, x, s);
    if (!whole && !o->first) x = ir_add(g, ir_load(g, grad), x);
    kept = grad;
  } else if (!scatter && o->last && s->table->ranks > 1) {
    x = reduce(g, OP_ALL_REDUCE, x, s);
  }
  ir_store(g, kept, x);
}

/* Which node completes which unit. */
static void find_gradients(Shard *s) {
  int *last = arena_ints(s->out->arena, s->table->nunits, -1);
  for (int i = 0; i < s->g->nodes.n; i++) {
    const Node *x = graph_node(s->g, i);
    if (x->op != OP_STORE || strncmp(x->name, "grad/", 5)) continue;
    int p = find_param(s->table, x->name + 5);
    CHECK(p >= 0);
    s->grad[p] = x->in[0];
    int *unit_last = &last[s->table->params[p].unit];
    if (x->in[0] > *unit_last) *unit_last = x->in[0];
  }
  for (int u = 0; u < s->table->nunits; u++)
    if (last[u] >= 0) {
      CHECK(s->ready[last[u]] < 0); /* two units do not end on one node: a gradient belongs to one parameter */
      s->ready[last[u]] = u;
    }
}

/* Whether a node is parameters, views of them and those in another type alone, such as several weights side by side. */
static bool is_param_view(const Shard *s, int node) {
  const Node *x = graph_node(s->g, node);
  if (s->param_of[node] >= 0) return true;
  for (int k = 0; k < x->nin; k++)
    if (!is_param_view(s, x->in[k])) return false;
  return op_table[x->op].kind == KIND_VIEW || x->op == OP_CAST;
}

/* A node of g as something of this turn reads it: what was gathered for the forward pass does not stay for the backward. */
static int operand(Shard *s, int node, int turn) {
  int param = s->param_of[node];
  if (param >= 0) return param_view(s, param, turn);
  if (turn == FORWARD || s->once || graph_node(s->g, node)->phase != PHASE_FORWARD || !is_param_view(s, node)) return s->map[node];
  if (s->again[node] >= 0) return s->again[node];
  Node x = *graph_node(s->g, node);
  int *in = arena_array(s->out->arena, int, x.nin);
  for (int k = 0; k < x.nin; k++) in[k] = operand(s, x.in[k], turn);
  x.phase = s->out->phase;
  return s->again[node] = graph_copy(s->out, &x, in);
}

static int copy_node(Shard *s, const Node *x) {
  int *in = arena_array(s->out->arena, int, x->nin);
  bool chunk = s->g->scopes.at[x->scope].kind == SCOPE_CHUNK;
  int turn = x->phase == PHASE_FORWARD || chunk ? FORWARD : BACKWARD;
  s->out->scope = x->scope; /* of what is inserted for this node */
  s->out->phase = x->phase;
  for (int k = 0; k < x->nin; k++) in[k] = operand(s, x->in[k], turn);
  return graph_copy(s->out, x, in);
}

Graph *pass_shard(const Graph *g, Arena *arena, const StateTable *table, const ShardOptions *options) {
  Graph *out = graph_open(arena);
  for (int i = 0; i < g->vars.n; i++) { /* parameters and their gradients give way to units */
    const Var *v = &g->vars.at[i];
    if (v->class != VAR_PARAM && !(v->class == VAR_CARRY && !strncmp(v->name, "grad/", 5))) graph_var(out, *v);
  }
  for (int i = 0; i < table->nrows; i++)
    if (table->rows[i].slot == SLOT_PARAM)
      graph_var(
          out,
          (Var){.name = table->rows[i].name, .class = VAR_STATE, .dtype = table->rows[i].dtype, .shape = SHAPE(table->rows[i].n)});
  out->scopes.n = 0;
  for (int i = 0; i < g->scopes.n; i++) vec_push(arena, &out->scopes, g->scopes.at[i]);
  Shard s = {.g = g, .out = out, .table = table, .options = options, .map = arena_ints(arena, g->nodes.n, -1)};
  s.once = !table->sharded && options->compute == state_slot_type(table, SLOT_PARAM);
  s.param_of = arena_ints(arena, g->nodes.n, -1);
  s.ready = arena_ints(arena, g->nodes.n, -1);
  s.again = arena_ints(arena, g->nodes.n, -1);
  s.grad = arena_ints(arena, table->nparams, -1);
  for (int turn = 0; turn < TURNS; turn++) {
    s.unit[turn] = arena_ints(arena, table->nunits, -1);
    s.view[turn] = arena_ints(arena, table->nparams, -1);
  }
  find_gradients(&s);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    if (x->op == OP_LOAD && graph_find_var(out, x->name) < 0) {
      s.param_of[i] = find_param(table, x->name);
      CHECK(s.param_of[i] >= 0);
    } else if (x->op == OP_CAST && x->dtype == options->compute && s.param_of[x->in[0]] >= 0) {
      s.param_of[i] = s.param_of[x->in[0]];
    } else if (!(x->op == OP_STORE && !strncmp(x->name, "grad/", 5))) {
      s.map[i] = copy_node(&s, x);
    }
    if (s.ready[i] >= 0) reduce_unit(&s, s.ready[i]);
  }
  return out;
}
