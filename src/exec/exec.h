/* SPDX-License-Identifier: Apache-2.0 */
/* From graphs to running programs.
 *
 *   compile   pure: (graph, choices) -> Program.  Runs every pass; needs no device and no other ranks.
 *   Job       the programs of a run over one arena: Vars at fixed addresses, constants, and a transient part that is as
 *             large as the largest program's.
 *
 *   job_open, job_add…, job_start (allocates, builds the kernels once for the whole job, loads them), job_run…, job_close */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "src/comm/comm.h"
#include "src/dev/dev.h"
#include "src/fuse/fuse.h"
#include "src/pass/pass.h"
#include "src/prof/prof.h"

/* --- compile -------------------------------------------------------------------------------------------------------------- */

typedef struct Choices {
  Forget forget;         /* memory.recompute */
  DType compute;         /* precision.compute: of parameters, operands of big ops and what is kept of activations */
  DType reduce;          /* precision.reduce: of gradients between ranks */
  bool whole;            /* parallel.accumulate: whole */
  int units_alive;       /* >= 1 */
  bool unfused;          /* every node a kernel of its own */
  const char *matmul;    /* cpu.matmul: "auto" or a row's name */
  int threads;           /* of a rank */
  bool cuda;             /* programs are for a GPU */
  const char *attention; /* gpu.attention: "auto" (or NULL) or a row's name */
  bool graph;            /* gpu.graph: each is captured once and launched as one */
  bool sync;             /* run.debug: sync: each step is waited for */
  bool tune;             /* run.tune: products that tuned does not name are measured */
  const char *tuned;     /* what job_choices gave before; NULL: nothing */
} Choices;

/* Called with the graph (or at the end, the program) after each stage; for printing. */
typedef struct CompileWatch {
  void (*graph)(void *self, const char *program, const char *stage, const Graph *g);
  void (*program)(void *self, const char *program, const char *stage, const Program *lowered);
  void *self;
} CompileWatch;

extern const char *const compile_stages[]; /* in order; NULL at the end */

/* g: a differentiated graph of a micro-step, or a graph without gradients; parameters and their gradients are still VAR_PARAM
 * loads and stores to "grad/NAME" (pass.h).  first, last: which micro-step of a step this is.  name is for people.  watch may
 * be NULL. */
Program *compile(Arena *arena, const Graph *g, const StateTable *table, const Choices *choices, const char *name, bool first,
                 bool last, const CompileWatch *watch);

/* --- job ------------------------------------------------------------------------------------------------------------------ */

typedef struct Job Job;

typedef struct JobStart {
  int kernels, cached; /* distinct kernels; whether the image was in the cache (0 or all) */
  double seconds;
} JobStart;

/* interpreted: programs are evaluated node by node in double instead (cpu.compiler: none). */
Job *job_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const Choices *choices, bool interpreted);
void job_close(Job *job);

/* Takes part in the job's plan from here on; returns the program's number.  Vars of one name are one. */
int job_add(Job *job, const Program *program, const char *name);

/* Bytes by lifetime, before anything is allocated. */
typedef struct JobMemory {
  size_t vars, tables, transient; /* their sum is the arena */
  size_t states, carried, inputs; /* parts of vars */
} JobMemory;
JobMemory job_memory(const Job *job);
const Program *job_program(const Job *job, int program);

JobStart job_start(Job *job);

/* After job_start: how products are computed (on GPUs attention too), a line each, where that was measured or recorded; else "". */
const char *job_choices(const Job *job);
/* After job_start: what people should know of it, a line each, or "". */
const char *job_notes(const Job *job);

/* The host's view of a Var (after job_start); n: its elements.  NULL when no program has it.  On a CPU it is the Var itself;
 * elsewhere it is a copy of now, at an address that stays.  What the host changes counts: for inputs and step scalars in the
 * next run; for states and carried values from job_written on. */
void *job_var(Job *job, const char *name, int64_t *n);
void job_written(Job *job, const char *name);

void job_run(Job *job, int program);

/* After job_start, once: runs are told to this profile, which must outlive the job.  While it records, every step is started on
 * its own. */
void job_profile(Job *job, Prof *prof);
/* What a step is called there: "matmul 2048x256x688 f32, onednn", "kernel 2048x256 mul sum rsqrt". */
const char *job_step_name(Arena *arena, const Job *job, int program, int step);

#endif
