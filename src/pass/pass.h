/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: graph to graph, a file each, pure.  And the state table: who owns which bytes of what persists. */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "src/ir/ir.h"

/* --- state table ---------------------------------------------------------------------------------------------------------
 *
 * Parameters of one unit (a transformer block, the embedding, the head) lie side by side in one flat vector: matrices first,
 * then vectors, each in the order of declaration, then zeros up to equal shards.  Moments have the layout of what they
 * belong to.  Everything that persists is a row; checkpoint, planner and sharding read only this table. */

/* What a user may ask of single parameters; those of a block that differ in it make units of their own. */
typedef struct ParamTraits {
  bool frozen;         /* no gradient, no moments; of a split parameter the upper half alone */
  bool whole;          /* every rank holds all of it */
  double lr_factor;    /* times the learning rate */
  double weight_decay; /* of all its elements; negative: the run's, on matrices alone */
} ParamTraits;

typedef struct StateUnit {
  const char *name; /* the model's, and what sets its traits apart: "layers.0", "layers.0.frozen" */
  ParamTraits traits;
  int64_t n;       /* elements of its parameters */
  int64_t decayed; /* of these, the first are matrices: weight decay applies */
  int64_t padded;  /* a multiple of 64·ranks */
  int64_t part;    /* what a group of replicas holds between gathers over the shards: padded / shards */
  int64_t local;   /* what a rank holds and updates: part, or part / replicas where the update is shared out */
} StateUnit;

typedef struct StateParam {
  const char *name; /* the parameter's Hugging Face name */
  Shape shape;
  InitKind init;
  double std;
  int unit;
  int64_t offset; /* of its first element in the unit */
} StateParam;

/* Parameters are F32; or, split, PARAM holds their upper halves, which the micro-steps read, and LOWER the rest (OP_UPPER). */
typedef enum StateSlot { SLOT_PARAM, SLOT_M, SLOT_V, SLOT_LOWER, SLOT_SCALAR, STATE_SLOTS } StateSlot;

typedef struct StateRow {
  const char *name; /* the Var: "param/layers.0", "m/layers.0", "updates" */
  StateSlot slot;
  DType dtype;
  int unit;  /* -1: a scalar, the same on all ranks */
  int64_t n; /* elements on this rank */
} StateRow;

typedef struct StateTable {
  int shards;    /* ranks that together hold a copy of the parameters (mesh axis dp_shard) */
  int replicas;  /* such groups (dp_replicate) */
  bool across;   /* replicas share out the update: each holds and updates 1/replicas of its part */
  bool split;    /* parameters are in two halves of 16 bits */
  DType moments; /* of m and v: F32, or BF16, rounded by chance */
  bool scaled;   /* the loss is scaled: "loss_scale" and "scale_age", the updates since it last changed, are states */
  int nunits, nparams, nrows;
  StateUnit *units;
  StateParam *params;
  StateRow *rows;
  struct StateName *names; /* parameters by name: state_find_param's */
} StateTable;

enum { STATE_PAD = 64 };

/* From the VAR_PARAM Vars of a model's graph.  traits: by parameter, in the order of these Vars; NULL: plain ones. */
typedef struct StateOptions {
  int shards, replicas;
  bool across, split, scaled;
  DType moments;
  const ParamTraits *traits;
} StateOptions;
StateTable *state_table(Arena *arena, const Graph *model, const StateOptions *options);

/* A rank's place among those that hold states: its indices along dp_shard and dp_replicate. */
typedef struct StateRank {
  int shard, replica;
} StateRank;

const char *state_slot_name(StateSlot slot);                                 /* "param", "m", "v", "lower" */
const char *state_name(Arena *arena, StateSlot slot, const StateUnit *unit); /* "m/layers.0" */
DType state_slot_type(const StateTable *table, StateSlot slot);

int state_find_param(const StateTable *table, const char *name); /* -1: none */

/* Which of the equal shares (of `local` elements, in order) of units that are shared out a rank holds. */
int64_t state_share(const StateTable *table, StateRank rank);

/* The part of a parameter that lies in rank's share of its unit: count elements from element first of the parameter on, at
 * element `at` of the rank's local vector.  False: none of it. */
bool state_piece(const StateTable *table, int param, StateRank rank, int64_t *first, int64_t *count, int64_t *at);

/* How many ranks hold the same part of a parameter as rank, and which of them it is: all ranks, those of one shard, or it alone. */
typedef enum StateHolders { HELD_ALONE, HELD_BY_REPLICAS, HELD_BY_ALL } StateHolders;
StateHolders state_holders(const StateTable *table, int param, StateRank rank, int64_t *holders, int64_t *me);

/* The same where several ranks hold a part: cut up among them, so that all ranks together have each element once. */
bool state_piece_once(const StateTable *table, int param, StateRank rank, int64_t *first, int64_t *count, int64_t *at);

/* The names of what micro-steps leave for the update: "grad/UNIT", and what they add up whole before it is scattered. */
const char *state_grad(Arena *arena, const StateUnit *unit);
const char *state_gradsum(Arena *arena, const StateUnit *unit);

/* The name of the host's copy of a unit's upper halves, where the host's cores update: "upper/UNIT". */
const char *state_upper(Arena *arena, const StateUnit *unit);

/* The name of a unit's part, gathered over the replicas once a step, where they share out the update: "gathered/UNIT".  A rank's
 * own share of it is its state, in place, if both are of one type. */
const char *state_gathered(Arena *arena, const StateUnit *unit);
bool state_is_gathered(const char *var);

/* --- passes -------------------------------------------------------------------------------------------------------------- */

/* precision.c.  Needs: a simplified graph, all of whose floats are F32.  Parameters, operands and results of big ops and what
 * KEEP marks are rounded to `compute` by casts; all other arithmetic stays in F32.  A product whose value goes to a Var, through
 * views and sums alone, stays in F32.  Removes KEEP.  operand: the type that big ops take, `compute` or F32 (whose values are
 * rounded all the same: for devices whose rows know nothing else). */
typedef struct PrecisionOptions {
  DType compute, operand;
} PrecisionOptions;
Graph *pass_precision(const Graph *g, Arena *arena, const PrecisionOptions *options);

/* recompute.c.  Needs: a differentiated graph.  Values of a SCOPE_BLOCK that only the block's own backward still wants are
 * computed again there.  CHEAP: those that pointwise ops make, from what products, attention and KEEP give.  Levels above forget
 * more, a product or attention each (forget.c), up to BLOCKS: all of them, from the block's inputs.  spared: so many last blocks
 * forget a level less.  Keeps: values, bit for bit. */
typedef enum Forget { FORGET_NOTHING, FORGET_CHEAP, FORGET_BLOCKS = 1 << 16 /* or any level from levels' n - 1 on */ } Forget;
Graph *pass_recompute(const Graph *g, Arena *arena, Forget level, int spared);

/* forget.c.  Needs: a simplified, differentiated graph. */
enum { FORGET_LEVELS = 64 }; /* at most */
typedef struct ForgetLevels {
  int n;                           /* levels: FORGET_NOTHING, FORGET_CHEAP, … n - 1, at which all is forgotten */
  int *level;                      /* by node: from which level on it is forgotten; 0: never */
  int blocks, *block;              /* how many; by scope: which, -1: none */
  const char *name[FORGET_LEVELS]; /* what a level computes again that those below do not, for people */
} ForgetLevels;
ForgetLevels *forget_levels(const Graph *g, Arena *arena);
/* Of keys that queries see, themselves and those before, in a sequence without segments; window 0: none. */
double attention_pairs(double positions, double window);

/* shard.c.  Needs: parameters as VAR_PARAM loads, gradients as stores to "grad/PARAMETER".  Replaces both by units: loads
 * (with another `compute` than F32: casts of loads, alone) become views of a unit's vector, cast and gathered: over the replicas
 * that share out the update in the first micro-step of a step, over the shards before its first use in each phase, but for the
 * units_alive units that forward needs last, which stay for the backward.  Gradients become one vector a unit, accumulated over
 * micro-steps and reduced over ranks. */
typedef struct ShardOptions {
  DType compute, reduce; /* what units are cast to before they are gathered; what gradients are cast to while they are reduced */
  int shard, replicate;  /* axes of the mesh */
  bool exchange[2];      /* over shards, over replicas: ranks send one another their parts, and each adds up its own in F32 */
  bool whole;       /* accumulate gradients before they are scattered, and do so in the last micro-step (parallel.accumulate) */
  bool first, last; /* micro-step of its step: store instead of adding; reduce what is reduced once */
  int units_alive;
} ShardOptions;
Graph *pass_shard(const Graph *g, Arena *arena, const StateTable *table, const ShardOptions *options);

/* accumulate.c.  Needs: a simplified graph.  Turns ADD(LOAD of a carried vector, CONCAT of pieces) into pieces that are each
 * added where they are produced, so that a matrix product can add into the carried vector itself. */
Graph *pass_accumulate(const Graph *g, Arena *arena);

/* offload.c.  Needs: units, gradients added where they are made.  Gives Vars their homes, fetches them where they are read and
 * sends them where they are written. */
enum { OFFLOAD_MOMENTS = 1, OFFLOAD_MASTERS = 2, OFFLOAD_GRADIENTS = 4, OFFLOAD_INPUTS = 8 };
typedef struct OffloadOptions {
  int what;        /* bits: OFFLOAD_… */
  VarHome moments; /* HOME_HOST or HOME_FILE; all else goes to the host's memory */
} OffloadOptions;
Graph *pass_offload(const Graph *g, Arena *arena, const StateTable *table, const OffloadOptions *options);

/* prefetch.c.  Needs: a scheduled graph.  Starts fetches ahead of their use, of one scope at a time. */
Graph *pass_prefetch(const Graph *g, Arena *arena);

/* schedule.c.  Puts the nodes in the order in which they run: a chunk's backward right after its forward; a gather as early as
 * at most `units_alive` units are alive; what waits for a reduction behind the start of the next. */
Graph *pass_schedule(const Graph *g, Arena *arena, int units_alive);

#endif
