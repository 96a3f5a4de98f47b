/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a kernel: the values of a group's nodes, the accesses to what they read and leave. */
#include <string.h>

#include "src/fuse/lower.h"

enum { ROW_BLOCKS = 64, CPU_COLUMN_BLOCKS = 32, CPU_COLUMN_BLOCK_ROWS = 16 };

typedef struct Build {
  Lower *l;
  int group;
  Shape domain;
  VEC(KernelValue) values;
  VEC(KernelArg) inputs, outputs;
  VEC(StepArg) in, out;
  int blocks;
} Build;

static int64_t columns(const Shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }

static int add_value(Build *b, KernelValue v) {
  vec_push(b->l->arena, &b->values, v);
  return b->values.n - 1;
}

/* An access along the domain's axes; extents of 1 do not move. */
static KernelArg access_of(const Build *b, const StepArg *arg, int value) {
  KernelArg a = {.dtype = arg->dtype, .value = value};
  for (int i = 0; i < arg->shape.rank; i++)
    if (arg->shape.dim[i] != 1) a.stride[i] = arg->place.stride[i];
  CHECK(arg->shape.rank == b->domain.rank || arg->shape.rank == 0);
  return a;
}

static bool same_access(const KernelArg *a, const StepArg *x, const KernelArg *b, const StepArg *y) {
  return x->place.buffer == y->place.buffer && x->place.offset == y->place.offset && a->dtype == b->dtype &&
         !memcmp(a->stride, b->stride, sizeof a->stride);
}

static int read_value(Build *b, int node, bool whole) {
  const Node *x = graph_node(b->l->g, node);
  StepArg arg = {lower_place(b->l, node), x->shape, x->dtype};
  KernelArg access = access_of(b, &arg, -1);
  bool moves = access.stride[b->domain.rank - 1] != 0 || columns(&b->domain) == 1;
  Level level = (moves || whole) && columns(&x->shape) == columns(&b->domain) ? LEVEL_FULL : LEVEL_ROW;
  for (int i = 0; i < b->values.n; i++) { /* read once */
    const KernelValue *v = &b->values.at[i];
    if (v->kop == K_INPUT && v->level == level && same_access(&b->inputs.at[v->input], &b->in.at[v->input], &access, &arg))
      return i;
  }
  vec_push(b->l->arena, &b->inputs, access);
  vec_push(b->l->arena, &b->in, arg);
  return add_value(b, (KernelValue){.kop = K_INPUT, .dtype = x->dtype, .level = level, .input = b->inputs.n - 1});
}

static int operand(Build *b, const Node *x, int k) {
  const Graph *g = b->l->g;
  bool reduce = op_table[x->op].kind == KIND_REDUCE;
  const Node *constant = constant_of(g, x->in[k]);
  int inner = inner_operand(g, x, k), value;
  if (constant && !reduce)
    return add_value(b, (KernelValue){.kop = K_CONST, .dtype = constant->dtype, .level = LEVEL_CONST, .f = constant->f});
  if (constant)
    value = add_value(b, (KernelValue){.kop = K_CONST, .dtype = DT_F32, .level = LEVEL_CONST, .f = constant->f});
  else if (inner >= 0 && b->l->grouping->group[inner] == b->group)
    value = b->l->value[inner];
  else
    value = read_value(b, x->in[k], reduce);
  bool whole = columns(&graph_node(g, x->in[k])->shape) == columns(&b->domain);
  if (reduce && whole && b->values.at[value].level != LEVEL_FULL) { /* what is summed is there once a column */
    KernelValue copy = {.kop = K_POINTWISE, .op = OP_COPY, .dtype = DT_F32, .level = LEVEL_FULL, .in = {value}, .nin = 1};
    value = add_value(b, copy);
  }
  return value;
}

static void add_member(Build *b, int node) {
  const Graph *g = b->l->g;
  const Node *x = graph_node(g, node);
  Level level = columns(&x->shape) == columns(&b->domain) ? LEVEL_FULL : LEVEL_ROW;
  KernelValue v = {.kop = K_POINTWISE, .op = x->op, .dtype = x->dtype, .level = level, .nin = x->nin};
  CHECK(x->nin <= 3);
  for (int k = 0; k < x->nin; k++) v.in[k] = operand(b, x, k);
  if (x->op == OP_IOTA && x->shape.dim[x->n[0]] == 1) { /* the domain may have more columns than this row value */
    v.kop = K_CONST;
    v.level = LEVEL_CONST;
  } else if (x->op == OP_IOTA) {
    v.kop = K_IOTA;
    v.axis = (int)x->n[0];
  } else if (op_table[x->op].kind == KIND_REDUCE) {
    v.kop = is_column(g, x) ? K_COLUMN_SUM : x->op == OP_SUM ? K_SUM : K_MAXIMUM;
    v.level = v.kop == K_COLUMN_SUM ? LEVEL_COLUMN : LEVEL_ROW;
  }
  b->l->value[node] = add_value(b, v);
}

static const char *describe(const Build *b) {
  Text text = {0};
  for (int i = 0; i < b->values.n; i++) {
    const KernelValue *v = &b->values.at[i];
    static const char *const kinds[] = {"input", "const", "iota", "", "sum", "maximum", "column_sum"};
    static const char *const levels[] = {"const", "row", "full", "column"};
    char number[NUM_TEXT];
    text_printf(&text, "v%d = %s", i, v->kop == K_POINTWISE ? op_table[v->op].name : kinds[v->kop]);
    if (v->kop == K_INPUT) text_printf(&text, " %d", v->input);
    if (v->kop == K_CONST) text_printf(&text, " %s", num_double(v->f, number));
    for (int k = 0; k < v->nin; k++) text_printf(&text, " v%d", v->in[k]);
    text_printf(&text, " : %s %s\n", dtype_name(v->dtype), levels[v->level]);
  }
  const char *copy = arena_strdup(b->l->arena, text.n ? text.at : "");
  text_close(&text);
  return copy;
}

static void finish(Build *b, int node) {
  CHECK(b->in.n + b->out.n <= STEP_ARGS);
  Kernel *k = arena_new(b->l->arena, Kernel);
  *k = (Kernel){.domain = b->domain, .blocks = b->blocks, .nvalues = b->values.n, .ninputs = b->inputs.n, .noutputs = b->outputs.n};
  k->values = b->values.at;
  k->inputs = b->inputs.at;
  k->outputs = b->outputs.at;
  k->comment = describe(b);
  Step step = {.kind = STEP_KERNEL, .node = node, .kernel = k, .workspace = -1, .collective = -1, .nin = b->in.n, .nout = b->out.n};
  step.in = b->in.at;
  step.out = b->out.at;
  lower_step(b->l, step);
}

static void write_value(Build *b, int value, StepArg arg) {
  vec_push(b->l->arena, &b->outputs, access_of(b, &arg, value));
  vec_push(b->l->arena, &b->out, arg);
}

/* Adds up (blocks, n) partials in block order, as the rows of a kernel of their own. */
static void finish_column(Lower *l, int node, StepArg partials, int blocks) {
  const Node *x = graph_node(l->g, node);
  int64_t n = shape_size(&x->shape);
  Build b = {.l = l, .domain = SHAPE(n, blocks)};
  b.blocks = (int)(n < ROW_BLOCKS ? n : ROW_BLOCKS);
  partials.shape = b.domain;
  partials.place.stride[0] = 1;
  partials.place.stride[1] = n;
  vec_push(l->arena, &b.inputs, access_of(&b, &partials, -1));
  vec_push(l->arena, &b.in, partials);
  int value = add_value(&b, (KernelValue){.kop = K_INPUT, .dtype = DT_F32, .level = LEVEL_FULL});
  int sum = add_value(&b, (KernelValue){.kop = K_SUM, .dtype = DT_F32, .level = LEVEL_ROW, .in = {value}, .nin = 1});
  StepArg out = {lower_place(l, node), SHAPE(n, 1), DT_F32};
  out.place.stride[0] = out.place.stride[x->shape.rank - 1]; /* (1,n): along its columns */
  write_value(&b, sum, out);
  finish(&b, node);
}

static int count_blocks(const FuseOptions *o, const Shape *domain, bool column) {
  int64_t rows = shape_size(domain) / columns(domain);
  int64_t each = o->column_block_rows ? o->column_block_rows : CPU_COLUMN_BLOCK_ROWS;
  int64_t most = o->column_blocks ? o->column_blocks : CPU_COLUMN_BLOCKS;
  int64_t blocks = column ? (rows + each - 1) / each : rows;
  for (int times = 1; times < 4 && columns(domain) * times * 2 <= o->column_block_width; times *= 2) most *= 2;
  if (!column) most = ROW_BLOCKS;
  return (int)(blocks < most ? blocks : most);
}

void lower_kernel(Lower *l, int group) {
  const Ints *members = &l->members[group];
  Build b = {.l = l, .group = group, .domain = domain_of(l->g, graph_node(l->g, members->at[0]))};
  bool column = false;
  for (int m = 0; m < members->n; m++) {
    const Node *x = graph_node(l->g, members->at[m]);
    Shape s = domain_of(l->g, x);
    if (columns(&s) > columns(&b.domain)) b.domain = s;
    column |= is_column(l->g, x);
    lower_readers(l, members->at[m], group);
    for (int k = 0; k < x->nin; k++) {
      int inner = inner_operand(l->g, x, k);
      bool mine = inner >= 0 && l->grouping->group[inner] == group;
      if (!mine && !constant_of(l->g, x->in[k])) lower_require(l, x->in[k]);
    }
  }
  b.blocks = count_blocks(l->options, &b.domain, column);
  for (int m = 0; m < members->n; m++) add_member(&b, members->at[m]);
  Ints partial = {0};
  VEC(StepArg) partials = {0};
  for (int m = 0; m < members->n; m++) {
    int node = members->at[m], value = l->value[node];
    const Node *x = graph_node(l->g, node);
    if (!l->in_memory[node]) continue;
    StepArg arg = {{0}, x->shape, x->dtype};
    if (b.values.at[value].level == LEVEL_COLUMN && b.blocks > 1) {
      arg.place.buffer =
          lower_buffer(l, BUFFER_TRANSIENT, -1, (size_t)b.blocks * (size_t)shape_size(&x->shape) * 4, "partial sums");
      strides_dense(&x->shape, arg.place.stride);
      vec_push(l->arena, &partial, node);
      vec_push(l->arena, &partials, arg);
    } else {
      arg.place = lower_place(l, node);
    }
    write_value(&b, value, arg);
  }
  finish(&b, members->at[members->n - 1]);
  for (int i = 0; i < partial.n; i++) finish_column(l, partial.at[i], partials.at[i], b.blocks);
}
