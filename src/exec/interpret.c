/* SPDX-License-Identifier: Apache-2.0 */
/* A program by the interpreter (cpu.compiler: none): Vars to double and back, collectives through float32. */
#include "src/exec/job.h"

/* The interpreter's collectives: through the type of the compiled program's. */
static void interpret_collective(void *self, const Node *node, const double *in, double *out) {
  Job *job = self;
  int64_t ranks = node->n[1], out_n = shape_size(&node->shape);
  int64_t in_n = node->op == OP_ALL_GATHER ? out_n / ranks : node->op == OP_REDUCE_SCATTER ? out_n * ranks : out_n;
  int64_t n = node->op == OP_REDUCE_SCATTER ? out_n : node->op == OP_ALL_TO_ALL ? in_n / ranks : in_n;
  CommKind kind = collective_kind(node->op);
  Arena *arena = arena_open();
  size_t size = dtype_size(node->dtype);
  void *from = arena_alloc(arena, size * (size_t)in_n), *to = arena_alloc(arena, size * (size_t)out_n);
  void *workspace = arena_alloc(arena, comm_workspace(kind, n, node->dtype, (int)ranks) + 64);
  for (int64_t i = 0; i < in_n; i++) dtype_store(node->dtype, from, i, in[i]);
  CommOp *op = comm_prepare(job->mesh, (MeshAxis)node->n[0], kind, from, to, n, node->dtype, workspace, op_table[node->op].name);
  comm_start(op);
  comm_wait(op);
  comm_release(op);
  for (int64_t i = 0; i < out_n; i++) out[i] = dtype_load(node->dtype, to, i);
  arena_close(arena);
}

void job_interpret(Job *job, const JobProgram *p) {
  const Graph *g = p->program->source;
  Arena *arena = arena_open();
  double **values = arena_array(arena, double *, g->vars.n);
  for (int pass = 0; pass < 2; pass++) {
    for (int v = 0; v < g->vars.n; v++) {
      const Var *var = &g->vars.at[v];
      int64_t n = shape_size(&var->shape);
      void *at = job_var(job, var->name, NULL);
      if (pass == 0) values[v] = arena_array(arena, double, n);
      for (int64_t i = 0; i < n; i++)
        if (pass == 0)
          values[v][i] = dtype_load(var->dtype, at, i);
        else
          dtype_store(var->dtype, at, i, values[v][i]);
    }
    if (pass == 0) graph_interpret(g, values, interpret_collective, job);
  }
  arena_close(arena);
}
