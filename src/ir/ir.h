/* SPDX-License-Identifier: Apache-2.0 */
/* The graph that a training step is compiled from.
 *
 * A Graph is a list of nodes in topological order; a node names its inputs by their index, which is smaller than its own.
 * A node has one result, a dense row-major tensor of 0 to 5 dimensions (attention has several: RESULT nodes name them).
 * Whatever crosses the border of a program is a Var: LOAD reads its value from before the program, STORE sets its value from
 * after it.  Nodes without a path to a STORE are dead.
 *
 * Everything here is pure: no device, no ranks.  Passes read one graph and write another. */
#ifndef IR_IR_H
#define IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/dtype.h"
#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/base/vec.h"

enum { IR_RANK = 5, IR_NUMBERS = 5 };

/* --- ops -------------------------------------------------------------------------------------------------------------- */

typedef enum Op {
  /* leaves */
  OP_CONST, /* f: a scalar; ints and PRED too */
  OP_TABLE, /* table: n[0] constants, a vector */
  OP_IOTA,  /* shape given; the index along axis n[0]; I32 or I64 */
  OP_LOAD,  /* name: the Var's value before the program */
  /* pointwise: all inputs of one shape */
  OP_COPY, /* the same value again, in a place of its own */
  OP_STOP, /* the same value, without a gradient */
  OP_KEEP, /* the same value, which is worth keeping for the backward pass: in the format of operands, as is its gradient */
  OP_NEG,
  OP_EXP,
  OP_EXPM1,
  OP_LOG,
  OP_SQRT,
  OP_RSQRT, /* 1 / sqrt(x) */
  OP_SIN,
  OP_COS,
  OP_TANH,
  OP_SIGMOID,
  OP_FINITE, /* PRED: neither infinite nor NaN */
  OP_CAST,   /* to the node's dtype; float to int truncates, to PRED: != 0 */
  OP_UPPER,  /* BF16: f32_upper of an F32 (base/dtype.h) */
  OP_LOWER,  /* I16: f32_lower */
  OP_BITS,   /* I32: the bits of an F32 */
  OP_JOIN,   /* F32 of a BF16 and an I16: f32_join */
  OP_RANDOM, /* I32 of an I64 key, 0 to 2^53 - 1, and an I64 counter: rng_bits (base/rng.h) */
  OP_SHIFT,  /* I32 by an I32, to the right: in[0] / 2^(in[1] mod 32), rounded down */
  OP_DITHER, /* BF16 of an F32 and an I32, whose low 16 bits are the draw: bf16_dither (base/dtype.h) */
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_DIV,
  OP_MAX, /* NaN if either is */
  OP_MIN,
  OP_LT, /* PRED */
  OP_LE,
  OP_EQ,
  OP_AND,    /* of two PREDs */
  OP_SELECT, /* in[0] ? in[1] : in[2], without looking at the other */
  OP_FMA,    /* in[0]·in[1] + in[2], rounded once */
  /* views: no arithmetic */
  OP_RESHAPE,   /* shape given */
  OP_PERMUTE,   /* n: output axis i is input axis n[i] */
  OP_SLICE,     /* axis n[0], from n[1] up to but not n[2] */
  OP_BROADCAST, /* shape given: same rank; extents of 1 are repeated */
  OP_CONCAT,    /* along axis n[0]; any number of inputs */
  /* reductions: along axis n[0], which stays with extent 1 */
  OP_SUM,
  OP_MAXIMUM,
  /* big ops: kernels/big.h says what they compute */
  OP_MATMUL,    /* (M,K)·(K,N), + (N) if there is a third input: rounded once; n[0], n[1]: in[0], in[1] is given transposed; to
                   the operands' type or to F32 */
  OP_ATTENTION, /* q k v start; f: scale; n[0]: window; results o, lse */
  OP_ATTENTION_GRAD, /* do q k v o lse start; results dq dk dv */
  OP_EMBEDDING,      /* table ids */
  OP_EMBEDDING_GRAD, /* dout ids order; n[0]: V; to dout's type or to F32 */
  OP_ROUTE,          /* scores (T,E) of F32; n[0]: k; I32 (3·T·k + E + 1): ir_route names its parts */
  OP_TAKE,           /* x (T,C), index and inverse (T·n[0]): row index[i] / n[0] of x in row i */
  OP_GROUPED,        /* x (R,K) w (E·N,K) offsets (E+1): each group of rows times its expert's wᵀ; n[0]: w is (E·K,N), and not
                        transposed */
  OP_GROUPED_GRAD,   /* a (R,M) b (R,N) offsets (E+1): aᵀ·b of each group, (E·M,N); to the operands' type or to F32 */
  OP_RESULT,         /* result n[0] of an attention node */
  /* collectives over mesh axis n[0] of n[1] ranks, on vectors */
  OP_ALL_GATHER,     /* (N) -> (N·R) */
  OP_REDUCE_SCATTER, /* (N·R) -> (N) */
  OP_ALL_TO_ALL,     /* (N·R) -> (N·R): each rank's part for this one, by rank */
  OP_ALL_REDUCE,     /* (N) -> (N), sums */
  /* transfers between the device's memory and what lies elsewhere (VarHome): the same value */
  OP_FETCH, /* of a LOAD of such a Var, or of a SEND: onto the device */
  OP_SEND,  /* off it: for a STORE to such a Var, or for a FETCH later in the program */
  /* roots */
  OP_STORE, /* name: the Var takes in[0]'s value */
  OP_COUNT
} Op;

typedef enum OpKind {
  KIND_LEAF,
  KIND_POINTWISE,
  KIND_VIEW,
  KIND_REDUCE,
  KIND_BIG,
  KIND_RESULT,
  KIND_COLLECTIVE,
  KIND_TRANSFER,
  KIND_STORE
} OpKind;

typedef struct Shape {
  int rank;
  int64_t dim[IR_RANK];
} Shape;

/* When a node runs.  RECOMPUTE: a forward value computed again for the backward pass. */
typedef enum Phase { PHASE_FORWARD, PHASE_RECOMPUTE, PHASE_BACKWARD, PHASE_COUNT } Phase;

typedef struct Node {
  Op op;
  DType dtype;
  Shape shape;
  int nin;
  int *in;               /* in the graph's arena */
  int64_t n[IR_NUMBERS]; /* by op */
  double f;
  const char *name; /* LOAD, STORE: the Var's */
  const double *table;
  int scope;
  Phase phase;
} Node;

typedef struct Graph Graph;

/* One row an op.  infer sets dtype and shape from the inputs (where the op does not give them) or returns false with a
 * reason; it is both the builder's shape inference and the checker's rule. */
typedef struct OpRow {
  const char *name;
  OpKind kind;
  int nin;             /* -1: any number >= 1 */
  const char *numbers; /* names of n[0], n[1]…, blank between: "axis lo hi"; "*" as many as the rank */
  bool has_f, has_name, gives_shape, gives_dtype;
  bool (*infer)(const Graph *g, Node *node, Why *why);
} OpRow;

extern const OpRow op_table[OP_COUNT];

/* Collectives and transfers: they are started, and waited for by who wants the result. */
static inline bool op_travels(Op op) { return op_table[op].kind == KIND_COLLECTIVE || op_table[op].kind == KIND_TRANSFER; }

/* --- vars and scopes -------------------------------------------------------------------------------------------------- */

typedef enum VarClass {
  VAR_INPUT,  /* copied in before the program runs: ids, labels */
  VAR_STEP,   /* scalars that change from step to step: lr */
  VAR_PARAM,  /* a model parameter, before sharding has laid it out in a unit */
  VAR_STATE,  /* persistent and in checkpoints: a unit's parameters or moments, a counter */
  VAR_CARRY,  /* passes from program to program within a step: accumulated gradients */
  VAR_OUTPUT, /* read by the host after the program: a metric, logits for verify */
  VAR_CLASSES
} VarClass;

typedef enum InitKind { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_KINDS } InitKind;

/* Where a Var is kept between programs and in them; states and what is carried alone may be elsewhere than on the device. */
typedef enum VarHome { HOME_DEVICE, HOME_HOST, HOME_FILE, VAR_HOMES } VarHome;

typedef struct Var {
  const char *name;
  VarClass class;
  DType dtype;
  Shape shape;
  VarHome home;
  /* VAR_PARAM alone: */
  const char *unit; /* parameters with the same unit are gathered and reduced together */
  InitKind init;
  double std;
  /* VAR_STATE alone: where it lies in another Var, as the rank's part along an axis of the mesh; NULL: in a place of its own.  A
   * program writes at most one of the two, or the same bits to both. */
  const char *within;
  int axis;
} Var;

/* A named stretch of the model.  A gradient node has the scope of the node whose gradient it is. */
typedef enum ScopeKind {
  SCOPE_PLAIN,
  SCOPE_BLOCK, /* a transformer block: what recompute forgets, what sharding gathers */
  SCOPE_CHUNK, /* its backward runs right after its forward, before the next scope's (DESIGN: head and loss) */
  SCOPE_KINDS
} ScopeKind;

typedef struct Scope {
  const char *name;
  ScopeKind kind;
} Scope;

struct Graph {
  Arena *arena;
  VEC(Node) nodes;
  VEC(Var) vars;
  VEC(Scope) scopes; /* 0 is the whole program */
  int scope;         /* of the nodes added now */
  Phase phase;
  int *var_slot; /* var indexes by hashed name, -1 where free; build.c's */
  int var_slots; /* 0 or a power of 2 */
};

/* --- building --------------------------------------------------------------------------------------------------------- */

Graph *graph_open(Arena *arena);
Graph *graph_open_like(const Graph *g, Arena *arena); /* with the vars and scopes of g, and no nodes */
Graph *graph_open_own(const Graph *g, Arena *arena);  /* the same, with names of its own: it outlives g */
Graph *graph_clone(const Graph *g, Arena *arena);     /* all of it, names and tables too: it outlives g */

/* Adds a node whose shape and dtype follow from its inputs; a node that cannot be is our mistake (CHECK with the reason).
 * Returns its index. */
int graph_push(Graph *g, Node node);
/* The same from text or another program: false and the reason. */
bool graph_try_push(Graph *g, Node node, int *index, Why *why);
/* What graph_try_push asks of a node whose inputs must lie below limit; sets its shape and dtype, adds nothing. */
bool graph_try_infer(const Graph *g, int limit, Node *node, Why *why);
/* A copy of node (of any graph) with inputs in g, keeping its phase and scope index. */
int graph_copy(Graph *g, const Node *node, const int *in);

int graph_var(Graph *g, Var var);                            /* declares; a name once */
int graph_find_var(const Graph *g, const char *name);        /* -1: none */
bool graph_is_far(const Graph *g, int node);                 /* its value is not on the device: a SEND, a LOAD of a Var elsewhere */
int graph_enter(Graph *g, const char *name, ScopeKind kind); /* opens a scope, makes it current, returns the one before */

static inline const Node *graph_node(const Graph *g, int i) {
  CHECK(i >= 0 && i < g->nodes.n);
  return &g->nodes.at[i];
}

int64_t shape_size(const Shape *s);
bool shape_equal(const Shape *a, const Shape *b);
bool shape_sane(const Shape *s); /* rank and extents are possible, and the size in bytes does not overflow */
Shape shape_of(int rank, const int64_t *dim);
#define SHAPE(...) shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
static inline Shape shape_scalar(void) { return (Shape){0}; }

/* Constructors.  The binary ones broadcast: a scalar to any shape; extents of 1 to the other's; a shorter shape is first
 * given leading extents of 1. */
int ir_const(Graph *g, DType dtype, double value);
int ir_table(Graph *g, const double *values, int64_t n);
int ir_iota(Graph *g, DType dtype, Shape shape, int axis);
int ir_load(Graph *g, const char *var);
int ir_store(Graph *g, const char *var, int value);
int ir_unary(Graph *g, Op op, int x);
int ir_binary(Graph *g, Op op, int a, int b);
int ir_select(Graph *g, int p, int a, int b);
int ir_cast(Graph *g, DType dtype, int x);
int ir_reshape(Graph *g, int x, Shape shape);
int ir_permute(Graph *g, int x, const int *axes);
int ir_transpose(Graph *g, int x); /* of a matrix */
int ir_slice(Graph *g, int x, int axis, int64_t lo, int64_t hi);
int ir_broadcast(Graph *g, int x, Shape shape); /* with leading extents of 1 added as the constructors above do */
int ir_concat(Graph *g, const int *xs, int n, int axis);
int ir_reduce(Graph *g, Op op, int x, int axis);
int ir_sum_all(Graph *g, int x); /* to a scalar */
int ir_matmul(Graph *g, int a, bool ta, int b, bool tb);
int ir_matmul_bias(Graph *g, int a, bool ta, int b, bool tb, int bias); /* bias -1: none */
int ir_result(Graph *g, int x, int i);
/* The node with both its results right behind it (differentiation finds lse there); returns o. */
int ir_attention(Graph *g, int q, int k, int v, int start, double scale, int64_t window);
/* A row's k largest scores choose its experts, ties to the lower one; the T·k pairs (row, choice), each a number, are then sorted
 * stably by expert.  All I32, without a gradient. */
typedef struct Route {
  int expert;  /* (T,k) */
  int order;   /* (T·k): which pair comes at each place of the sorted ones */
  int inverse; /* (T·k): the place of each pair */
  int offsets; /* (E+1): the first place of each expert's; the last is T·k */
} Route;
Route ir_route(Graph *g, int scores, int64_t k);
/* Rows of x (T,C), each so many times, by a permutation and its inverse (T·times); the gradient is the same the other way. */
int ir_take(Graph *g, int x, int index, int inverse, int64_t times);
/* (R,K)·(E·N,K)ᵀ in groups, or (R,K)·(E·K,N) where w is not transposed: rows offsets[e] up to but not offsets[e+1] by expert e. */
int ir_grouped(Graph *g, int x, int w, bool tw, int offsets);
static inline int ir_add(Graph *g, int a, int b) { return ir_binary(g, OP_ADD, a, b); }
static inline int ir_sub(Graph *g, int a, int b) { return ir_binary(g, OP_SUB, a, b); }
static inline int ir_mul(Graph *g, int a, int b) { return ir_binary(g, OP_MUL, a, b); }
static inline int ir_div(Graph *g, int a, int b) { return ir_binary(g, OP_DIV, a, b); }
static inline int ir_scale(Graph *g, int a, double f) { return ir_mul(g, a, ir_const(g, DT_F32, f)); }

/* --- the rest of the room --------------------------------------------------------------------------------------------- */

/* check.c: every node's inputs, shape, dtype, names and scope; CHECKs with the node's text and the pass's name. */
void graph_check(const Graph *g, const char *after);
bool graph_try_check(const Graph *g, Why *why);

/* text.c: one line a node; graph_try_parse, into an empty graph, reads what graph_print wrote, which prints the same again.
 * Parse errors give the line. */
void graph_print(const Graph *g, Text *text);
void graph_print_node(const Graph *g, int i, Text *text); /* without a newline; also of a node that is wrong */

/* parse.c */
bool graph_try_parse(Graph *g, const char *text, Why *why);

/* The words of the text. */
extern const char *const phase_names[PHASE_COUNT];
extern const char *const var_class_names[VAR_CLASSES];
extern const char *const var_home_names[VAR_HOMES]; /* behind an @, but for the device's */
extern const char *const scope_kind_names[SCOPE_KINDS];
extern const char *const init_names[INIT_KINDS];
uint64_t graph_hash(const Graph *g); /* of the printed text */

/* simplify.c: the same function with less work: constants folded, views merged and cancelled, equal nodes made one (within a
 * phase), dead nodes dropped.  Keeps casts, reductions and the order of floating-point arithmetic: results have the same
 * bits.  Keeps the order of the nodes. */
Graph *graph_simplify(const Graph *g, Arena *arena);

/* diff.c: adds to g, in PHASE_BACKWARD, the gradient of the scalar node loss times seed (a scalar node) with respect to each
 * node of wrt; grads[i] is -1 where loss does not depend on wrt[i].  order: the node holding the permutation that sorts the
 * embedding's ids (big.h), or -1 when the graph has no embedding. */
void graph_differentiate(Graph *g, int loss, int seed, const int *wrt, int n, int order, int *grads);

/* interp.c: evaluates node by node in double.  var[i] is the value of Var i: read by LOAD, written by STORE after all nodes
 * have been evaluated; dense, caller's.  collective is called for the collectives (NULL: one rank, they copy). */
typedef void InterpCollective(void *self, const Node *node, const double *in, double *out);
void graph_interpret(const Graph *g, double *const *var, InterpCollective *collective, void *self);

#endif
