/* SPDX-License-Identifier: Apache-2.0 */
#include "src/exec/cost.h"

#include "src/pass/pass.h"

static double arg_bytes(const StepArg *arg) { return (double)shape_size(&arg->shape) * (double)dtype_size(arg->dtype); }

/* Elements that are read or written, each once however often it is repeated. */
static double access_bytes(const Kernel *k, const KernelArg *a) {
  double n = (double)dtype_size(a->dtype);
  for (int i = 0; i < k->domain.rank; i++)
    if (a->stride[i]) n *= (double)k->domain.dim[i];
  return n;
}

static double kernel_bytes(const Kernel *k) {
  double nbytes = 0;
  for (int i = 0; i < k->ninputs; i++) nbytes += access_bytes(k, &k->inputs[i]);
  for (int i = 0; i < k->noutputs; i++)
    nbytes += access_bytes(k, &k->outputs[i]) * (k->values[k->outputs[i].value].level == LEVEL_COLUMN ? k->blocks : 1);
  return nbytes;
}

static bool is_product(Op op) { return op == OP_MATMUL || op == OP_GROUPED || op == OP_GROUPED_GRAD; }

/* Two products forward, five back, of which one is the first forward one again; where segments end is not known here. */
static double big_flops(const Step *s) {
  const int64_t *d = s->in[0].shape.dim;
  double products = s->op == OP_ATTENTION ? 2 : 5;
  if (is_product(s->op)) return 2 * (double)d[0] * (double)d[1] * (double)s->out[0].shape.dim[1];
  if (s->op != OP_ATTENTION && s->op != OP_ATTENTION_GRAD) return 0;
  return 2 * products * (double)d[0] * (double)d[2] * (double)d[3] * attention_pairs((double)d[1], (double)s->n[0]);
}

double program_flops(const Program *program, double *again) {
  double all = 0;
  *again = 0;
  for (int i = 0; i < program->nsteps; i++) {
    const Step *s = &program->steps[i];
    double flops = s->kind == STEP_BIG ? big_flops(s) : 0;
    all += flops;
    if (graph_node(program->graph, s->node)->phase == PHASE_RECOMPUTE) *again += flops;
  }
  return all;
}

static double big_bytes(const Step *s) {
  double nbytes = 0;
  for (int i = 0; i < s->nin; i++) nbytes += arg_bytes(&s->in[i]);
  for (int i = 0; i < s->nout; i++) nbytes += arg_bytes(&s->out[i]);
  if (s->op == OP_EMBEDDING) nbytes += arg_bytes(&s->out[0]) - arg_bytes(&s->in[0]); /* only rows that are looked up */
  if ((s->op == OP_MATMUL || s->op == OP_GROUPED_GRAD || s->op == OP_EMBEDDING_GRAD) && s->n[0])
    nbytes += arg_bytes(&s->out[0]); /* read, too */
  return nbytes;
}

/* What this rank receives: all parts of the whole but its own; a sum of the whole on all ranks is a scatter and a gather. */
static double collective_bytes(const Step *s) {
  double ranks = (double)s->n[1], whole = arg_bytes(s->op == OP_ALL_GATHER ? &s->out[0] : &s->in[0]);
  return whole * (ranks - 1) / ranks * (s->op == OP_ALL_REDUCE ? 2 : 1);
}

/* --- telling ---------------------------------------------------------------------------------------------------------------- */

static ProfKind big_kind(Op op) {
  static const ProfKind kinds[OP_COUNT] = {[OP_ATTENTION] = PROF_ATTENTION, [OP_ATTENTION_GRAD] = PROF_ATTENTION,
                                           [OP_EMBEDDING] = PROF_EMBEDDING, [OP_EMBEDDING_GRAD] = PROF_EMBEDDING,
                                           [OP_ROUTE] = PROF_ROUTING,       [OP_TAKE] = PROF_ROUTING};
  return kinds[op]; /* PROF_PRODUCTS is 0 */
}

StepCost step_cost(const Step *s, bool updates) {
  if (s->kind == STEP_KERNEL) return (StepCost){.kind = updates ? PROF_UPDATE : PROF_FUSED, .nbytes = kernel_bytes(s->kernel)};
  if (s->kind == STEP_TRANSFER_START) return (StepCost){.kind = PROF_COPIES, .nbytes = arg_bytes(&s->in[0])};
  if (s->kind == STEP_TRANSFER_WAIT) return (StepCost){.kind = PROF_COPIES};
  StepCost cost = {.kind = s->op == OP_ALL_GATHER ? PROF_GATHERS : PROF_REDUCTIONS, .narrow = dtype_size(s->in[0].dtype) == 2};
  if (s->kind == STEP_COLLECTIVE_START) cost.nbytes = collective_bytes(s);
  if (s->kind != STEP_BIG) return cost;
  cost.kind = big_kind(s->op);
  cost.flops = big_flops(s);
  cost.nbytes = big_bytes(s);
  return cost;
}

bool program_updates(const Program *p) {
  for (int i = 0; i < p->nsteps; i++)
    for (int o = 0; o < p->steps[i].nout; o++) {
      const Buffer *b = &p->buffers[p->steps[i].out[o].place.buffer];
      if (b->class == BUFFER_VAR && p->graph->vars.at[b->var].class == VAR_STATE) return true;
    }
  return false;
}
