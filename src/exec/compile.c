/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline from a graph to a program: one place, in order.  Pure. */
#include <string.h>

#include "kernels/cuda/gpu.h"
#include "kernels/kernels.h"
#include "src/exec/exec.h"
#include "src/exec/private.h"

const char *const compile_stages[] = {"model",      "recompute", "precision", "shard", "simplify",
                                      "accumulate", "offload",   "schedule",  "fuse",  NULL};

static int big_type(DType dtype) {
  static const int types[DT_COUNT] = {[DT_F32] = BIG_F32, [DT_BF16] = BIG_BF16, [DT_F16] = BIG_F16, [DT_I32] = BIG_I32};
  CHECK(dtype == DT_I32 || dtype_is_float(dtype));
  return types[dtype];
}

BigCall big_call(const Step *step, int threads) {
  BigCall call = {.n = {step->n[0], step->n[1]}, .f = step->f, .threads = threads};
  for (int i = 0; i < step->nin + step->nout; i++) {
    const StepArg *arg = i < step->nin ? &step->in[i] : &step->out[i - step->nin];
    BigView *view = i < step->nin ? &call.in[i] : &call.out[i - step->nin];
    view->rank = arg->shape.rank;
    view->type = big_type(arg->dtype);
    memcpy(view->dim, arg->shape.dim, sizeof view->dim);
    memcpy(view->stride, arg->place.stride, sizeof view->stride);
  }
  return call;
}

/* The only row allowed; NULL: any. */
static const char *only_row(const Step *step, const Choices *choices) { return step->op == OP_MATMUL ? choices->matmul : NULL; }

const BigImpl *big_choose(const Step *step, const BigCall *call, const Choices *choices) {
  return kernels_choose(op_table[step->op].name, call, only_row(step, choices));
}

CommKind collective_kind(Op op) {
  static const int kinds[OP_COUNT] = {[OP_ALL_GATHER] = COMM_ALL_GATHER + 1,
                                      [OP_REDUCE_SCATTER] = COMM_REDUCE_SCATTER + 1,
                                      [OP_ALL_REDUCE] = COMM_ALL_REDUCE + 1,
                                      [OP_ALL_TO_ALL] = COMM_ALL_TO_ALL + 1};
  CHECK(kinds[op]);
  return (CommKind)(kinds[op] - 1);
}

/* comm.h counts a rank's part for gathers and scatters. */
int64_t collective_count(const Step *step) {
  if (step->op == OP_ALL_TO_ALL) return shape_size(&step->in[0].shape) / step->n[1];
  return shape_size(step->op == OP_REDUCE_SCATTER ? &step->out[0].shape : &step->in[0].shape);
}

static size_t workspace(void *self, const Step *step, const Graph *g) {
  (void)g;
  const Choices *choices = self;
  if (step->kind == STEP_COLLECTIVE_START)
    return choices->cuda ? 0
                         : comm_workspace(collective_kind(step->op), collective_count(step), step->in[0].dtype, (int)step->n[1]);
  BigCall call = big_call(step, choices->threads);
  if (choices->cuda) return gpu_workspace(step, &call, choices);
  return kernels_workspace(op_table[step->op].name, &call, only_row(step, choices));
}

/* The update works on units already. */
static bool has_parameters(const Graph *g) {
  for (int i = 0; i < g->vars.n; i++)
    if (g->vars.at[i].class == VAR_PARAM) return true;
  return false;
}

typedef struct Stages {
  const char *program;
  const CompileWatch *watch;
} Stages;

static const Graph *stage(const Stages *s, const char *name, const Graph *g) {
  graph_check(g, name);
  if (s->watch && s->watch->graph) s->watch->graph(s->watch->self, s->program, name, g);
  return g;
}

/* What is done to programs that run the model. */
static const Graph *micro_passes(const Stages *s, const Graph *g, Arena *scratch, const StateTable *table, const Choices *choices,
                                 bool first, bool last) {
  PrecisionOptions precision = {choices->compute, choices->cuda ? choices->compute : DT_F32};
  ShardOptions shard = {.compute = choices->compute,
                        .reduce = choices->reduce,
                        .shard = MESH_DP_SHARD,
                        .replicate = MESH_DP_REPLICATE,
                        .exchange = {choices->exchange[MESH_DP_SHARD], choices->exchange[MESH_DP_REPLICATE]},
                        .whole = choices->whole,
                        .first = first,
                        .last = last,
                        .units_alive = choices->units_alive};
  g = stage(s, "precision", pass_precision(g, scratch, &precision));
  return pass_shard(g, scratch, table, &shard);
}

Program *compile(Arena *arena, const Graph *g, const StateTable *table, const Choices *choices, const char *name, bool first,
                 bool last, const CompileWatch *watch) {
  Stages s = {name, watch};
  Arena *scratch = arena_open(); /* of all that lies between the graph and the program */
  stage(&s, "model", g);
  g = graph_simplify(g, scratch);
  if (choices->forget != FORGET_NOTHING) g = pass_recompute(g, scratch, choices->forget, choices->spared);
  stage(&s, "recompute", g);
  if (has_parameters(g)) g = micro_passes(&s, g, scratch, table, choices, first, last);
  stage(&s, "shard", g);
  g = stage(&s, "simplify", graph_simplify(g, scratch));
  g = stage(&s, "accumulate", pass_accumulate(g, scratch));
  if (choices->offload.what) g = pass_offload(g, scratch, table, &choices->offload);
  stage(&s, "offload", g);
  g = pass_schedule(g, scratch, choices->units_alive);
  g = stage(&s, "schedule", choices->offload.what ? pass_prefetch(g, scratch) : g);
  FuseOptions fuse = {.unfused = choices->unfused, .workspace = workspace, .self = (void *)choices};
  if (choices->cuda) {
    fuse.no_start = true;
    fuse.biases = gpu_adds_bias();
    fuse.column_blocks = GPU_COLUMN_BLOCKS;
    fuse.column_block_rows = GPU_COLUMN_BLOCK_ROWS;
    fuse.column_block_width = GPU_COLUMN_BLOCK_WIDTH;
  }
  Program *program = fuse_program(scratch, g, &fuse);
  program->source = g;
  stage(&s, "fuse", program->graph);
  if (watch && watch->program) watch->program(watch->self, name, "fuse", program);
  program = program_copy(arena, program);
  arena_close(scratch);
  return program;
}
