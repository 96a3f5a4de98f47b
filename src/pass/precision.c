/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision as casts.  Micikevicius et al., "Mixed Precision Training", ICLR 2018; Kalamkar et al., "A Study of BFLOAT16
 * for Deep Learning Training", 2019.
 *
 * A value has up to two forms: whole (F32) and short (rounded to the compute type).  Each is made when something asks for it, by
 * a cast of the other.  A view has the forms of what it is a view of, so that a cast sits where a kernel makes the value and
 * the view costs nothing. */
#include "src/pass/pass.h"

typedef struct Precision {
  const Graph *g;
  Graph *out;
  DType compute, operand;
  int *whole, *brief; /* by node of g: its forms in out; -1: not yet */
  bool *rounded;      /* by node of g: made in the short form */
  bool *to_var;       /* by node of g: only views and sums lie between it and the Vars that take it */
} Precision;

static int whole(Precision *p, int node);
static int brief(Precision *p, int node);

static bool is_float(const Precision *p, int node) { return graph_node(p->g, node)->dtype == DT_F32; }

static int copy(Precision *p, int node, int (*form)(Precision *, int)) {
  Node x = *graph_node(p->g, node);
  int *in = arena_array(p->out->arena, int, x.nin);
  for (int k = 0; k < x.nin; k++) in[k] = is_float(p, x.in[k]) ? form(p, x.in[k]) : p->whole[x.in[k]];
  return graph_copy(p->out, &x, in);
}

/* Casts belong to where the value is made. */
static int cast(Precision *p, int node, DType dtype, int x) {
  const Node *at = graph_node(p->g, node);
  Node to = {.op = OP_CAST, .dtype = dtype, .nin = 1, .scope = at->scope, .phase = at->phase};
  return graph_copy(p->out, &to, &x);
}

static int whole(Precision *p, int node) {
  if (p->whole[node] >= 0) return p->whole[node];
  if (p->rounded[node]) return p->whole[node] = cast(p, node, DT_F32, brief(p, node));
  CHECK(op_table[graph_node(p->g, node)->op].kind == KIND_VIEW); /* all else is made in order */
  return p->whole[node] = copy(p, node, whole);
}

static int brief(Precision *p, int node) {
  if (p->brief[node] >= 0) return p->brief[node];
  if (op_table[graph_node(p->g, node)->op].kind == KIND_VIEW) return p->brief[node] = copy(p, node, brief);
  return p->brief[node] = cast(p, node, p->compute, p->whole[node]);
}

/* What a big op reads. */
static int operand(Precision *p, int node) {
  return p->operand == p->compute ? brief(p, node) : cast(p, node, DT_F32, brief(p, node));
}

/* lse and what else the op makes in F32 whatever its operands. */
static bool is_lse(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return x->op == OP_RESULT && graph_node(g, x->in[0])->op == OP_ATTENTION && x->n[0] == 1;
}

/* What a big op has made in the type of its operands, or in F32. */
static void take_made(Precision *p, int node, int made, bool rounded) {
  p->rounded[node] = rounded;
  if (!rounded)
    p->whole[node] = made;
  else
    p->brief[node] = p->operand == p->compute ? made : cast(p, node, p->compute, made);
}

static void make_big(Precision *p, int node) {
  Node x = *graph_node(p->g, node);
  int *in = arena_array(p->out->arena, int, x.nin);
  for (int k = 0; k < x.nin; k++)
    in[k] = !is_float(p, x.in[k]) ? p->whole[x.in[k]] : is_lse(p->g, x.in[k]) ? whole(p, x.in[k]) : operand(p, x.in[k]);
  bool sum = p->to_var[node] && (x.op == OP_MATMUL || x.op == OP_EMBEDDING_GRAD || x.op == OP_GROUPED_GRAD);
  bool several = x.op == OP_ATTENTION || x.op == OP_ATTENTION_GRAD; /* RESULTs carry the values */
  x.dtype = sum ? DT_F32 : p->operand;
  take_made(p, node, graph_copy(p->out, &x, in), !several && !sum);
}

static void make_result(Precision *p, int node) {
  const Node *x = graph_node(p->g, node);
  take_made(p, node, graph_copy(p->out, x, &p->whole[x->in[0]]), !is_lse(p->g, node));
}

/* A view is short where all that it shows is.  A gradient is made here, not when its Var asks for it at the end: its unit is
 * reduced, and let go, as soon as all are there. */
static void make_view(Precision *p, int node) {
  const Node *x = graph_node(p->g, node);
  p->rounded[node] = true;
  for (int k = 0; k < x->nin; k++) p->rounded[node] &= p->rounded[x->in[k]];
  if (p->to_var[node]) whole(p, node);
}

static bool is_param(const Graph *g, const Node *x) {
  return x->op == OP_LOAD && g->vars.at[graph_find_var(g, x->name)].class == VAR_PARAM;
}

static void make(Precision *p, int node) {
  const Node *x = graph_node(p->g, node);
  OpKind kind = op_table[x->op].kind;
  bool one_a_row = x->op == OP_TAKE && x->shape.dim[1] == 1; /* weights of rows, which are no operands */
  bool short_form = p->compute != DT_F32 && x->dtype == DT_F32 && !one_a_row;
  if (x->op == OP_KEEP && !short_form) {
    p->whole[node] = p->whole[x->in[0]];
  } else if (x->op == OP_KEEP) {
    p->rounded[node] = true;
    p->brief[node] = brief(p, x->in[0]);
  } else if (short_form && kind == KIND_BIG) {
    make_big(p, node);
  } else if (short_form && kind == KIND_RESULT) {
    make_result(p, node);
  } else if (short_form && kind == KIND_VIEW) {
    make_view(p, node);
  } else if (short_form && is_param(p->g, x)) {
    p->rounded[node] = true;
    p->brief[node] = cast(p, node, p->compute, copy(p, node, whole));
  } else {
    p->whole[node] = copy(p, node, whole);
  }
}

/* What has a user that leads elsewhere than to a Var needs no more digits than that user takes. */
static void find_to_var(Precision *p) {
  int n = p->g->nodes.n;
  bool *elsewhere = arena_array(p->out->arena, bool, n);
  for (int i = n - 1; i >= 0; i--) { /* users first */
    const Node *x = graph_node(p->g, i);
    bool hands_on = x->op == OP_ADD || op_table[x->op].kind == KIND_VIEW;
    bool leads = x->op == OP_STORE || (hands_on && p->to_var[i] && !elsewhere[i]);
    p->to_var[i] &= !elsewhere[i];
    for (int k = 0; k < x->nin; k++) *(leads ? &p->to_var[x->in[k]] : &elsewhere[x->in[k]]) = true;
  }
}

Graph *pass_precision(const Graph *g, Arena *arena, const PrecisionOptions *options) {
  int n = g->nodes.n;
  Precision p = {.g = g, .out = graph_open_like(g, arena), .compute = options->compute, .operand = options->operand};
  CHECK(p.operand == p.compute || p.operand == DT_F32);
  p.whole = arena_ints(arena, n, -1);
  p.brief = arena_ints(arena, n, -1);
  p.rounded = arena_array(arena, bool, n);
  p.to_var = arena_array(arena, bool, n);
  find_to_var(&p);
  for (int i = 0; i < n; i++) make(&p, i);
  return p.out;
}
