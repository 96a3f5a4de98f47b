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

#include "src/base/phases.h"
#include "src/base/rng.h"
#include "src/comm/comm.h"
#include "src/dev/dev.h"
#include "src/fuse/fuse.h"
#include "src/pass/pass.h"
#include "src/prof/prof.h"

/* --- compile -------------------------------------------------------------------------------------------------------------- */

typedef struct Choices {
  Forget forget;            /* memory.recompute */
  int spared;               /* so many last blocks forget a level less */
  DType compute;            /* precision.compute: of parameters, operands of big ops and what is kept of activations */
  DType reduce;             /* precision.reduce: of gradients between ranks */
  bool whole;               /* parallel.accumulate: whole */
  int units_alive;          /* >= 1 */
  bool unfused;             /* every node a kernel of its own */
  const char *matmul;       /* cpu.matmul: "auto" or a row's name */
  int threads;              /* of a rank */
  bool cuda;                /* programs are for a GPU */
  const char *attention;    /* gpu.attention: "auto" (or NULL) or a row's name */
  bool graph;               /* gpu.graph: each is captured once and launched as one */
  bool copies;              /* gpu.gathers: copy */
  bool exchange[MESH_AXES]; /* gpu.reductions: copy, where the ranks of this axis are few and of one node */
  bool sync;                /* run.debug: sync: each step is waited for */
  bool tune;                /* run.tune: products that tuned does not name are measured */
  const char *tuned;        /* what job_choices gave before; NULL: nothing */

  OffloadOptions offload;     /* memory.offload */
  const char *offload_folder; /* of what is kept in files */
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
  bool copies;   /* gathers of states go by copy engines */
  Phases phases; /* of seconds */
} JobStart;

/* interpreted: programs are evaluated node by node in double instead (cpu.compiler: none).  mesh NULL: no program has a collective.
 */
Job *job_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const Choices *choices, bool interpreted);
void job_close(Job *job);

/* Takes part in the job's plan from here on; returns the program's number.  Vars of one name are one; of an input a program may
 * have the beginning alone, if one that was added before has it whole. */
int job_add(Job *job, const Program *program, const char *name);

/* Before job_start.  A Var that is there though no program of this job has it. */
void job_keep(Job *job, const Var *var);
/* Before job_add.  Vars that lender keeps in the host's memory are this job's, too, under the same names.  This job's device is the
 * host's; it is started after lender and closed before. */
void job_borrow(Job *job, const Job *lender);

/* Bytes by lifetime, before anything is allocated. */
typedef struct JobMemory {
  size_t vars, tables, transient;           /* their sum is the arena */
  size_t states, gathered, carried, inputs; /* parts of vars; a state that lies within what is gathered of it counts there */
  size_t host, host_vars;                   /* what is offloaded to the host's memory, with stages of files; of that, Vars */
  size_t files;                             /* what is offloaded to files */
} JobMemory;
JobMemory job_memory(const Job *job);
int job_programs(const Job *job); /* how many were added */
const Program *job_program(const Job *job, int program);
const char *job_program_name(const Job *job, int program);

JobStart job_start(Job *job);

/* After job_start: how products are computed (on GPUs attention too), a line each, where that was measured or recorded; else "". */
const char *job_choices(const Job *job);
/* After job_start: what people should know of it, a line each, or "". */
const char *job_notes(const Job *job);

/* --- the host's side of Vars, after job_start ----------------------------------------------------------------------------- */

int64_t job_size(const Job *job, const char *name); /* elements; -1: no program has it (also before job_start) */

/* The host's view of a Var; n (may be NULL): its elements.  NULL when no program has it.  On a CPU it is the Var itself.
 * Elsewhere inputs and step scalars have one: what is written there before the next run counts from then on; ask again to write
 * again.  And outputs have one: a copy of what all has computed that was started. */
void *job_var(Job *job, const char *name, int64_t *n);

/* Elements first … first + n - 1 of what persists or is carried, out of the device's memory and into it. */
void job_read(Job *job, const char *name, int64_t first, int64_t n, void *to);
void job_write(Job *job, const char *name, int64_t first, int64_t n, const void *from);

/* Copies one Var over another of the same size, one of them in the host's memory, behind what was started before, and without
 * waiting. */
void job_copy(Job *job, const char *to, const char *from);

/* The same in parts, one after the other, for what the host has no room for: make fills part `first` … of the n elements (0 is
 * the first of these), use looks at it.  On a CPU all is one part, in place. */
typedef void JobMake(void *self, int64_t first, int64_t n, void *to);
typedef void JobUse(void *self, int64_t first, int64_t n, const void *from);
void job_put(Job *job, const char *name, int64_t first, int64_t n, JobMake *make, void *self);
void job_get(Job *job, const char *name, int64_t first, int64_t n, JobUse *use, void *self);

/* The same of F32s whose halves two Vars hold (OP_UPPER); a job without the lower ones keeps and gives the upper. */
void job_put_halves(Job *job, const char *upper, const char *lower, int64_t first, int64_t n, JobMake *make, void *self);
void job_get_halves(Job *job, const char *upper, const char *lower, int64_t first, int64_t n, JobUse *use, void *self);

/* The same of F32s that a Var holds as BF16s: rounded to nearest as they are put there. */
void job_put_bf16(Job *job, const char *name, int64_t first, int64_t n, JobMake *make, void *self);
void job_get_bf16(Job *job, const char *name, int64_t first, int64_t n, JobUse *use, void *self);

/* Values by a rule, made where they are kept: std times rng_normal of element, element + 1, …; or a constant.  A GPU's
 * logarithm, sine and cosine may differ from the host's in the last bit of a double, so that about one value in 2^27 is
 * another float, the next one. */
typedef struct JobFill {
  const Rng *normal; /* NULL: constant */
  uint64_t element;
  double std;
  float constant;
} JobFill;
/* lower: the Var of lower halves, where name is that of upper ones; else NULL. */
void job_fill(Job *job, const char *name, const char *lower, int64_t first, int64_t n, const JobFill *fill);

/* Copies a small output (at most 256 bytes) aside as it stands behind all that has been started, without waiting; job_noted
 * waits for the oldest of at most 4 such notes that was not looked at, and gives it, until the next job_note. */
void job_note(Job *job, const char *name);
const void *job_noted(Job *job);

/* --- running -------------------------------------------------------------------------------------------------------------- */

void job_run(Job *job, int program);

/* All ranks: what they have started is over everywhere.  States may be written as before the first run; all ranks meet between the
 * last such write and the next run. */
void job_rest(Job *job);

/* After job_start, once: runs are told to this profile, which must outlive the job.  While it records, every step is started on
 * its own. */
void job_profile(Job *job, Prof *prof);
/* What a step is called there: "matmul 2048x256x688 f32, onednn", "kernel 2048x256 mul sum rsqrt". */
const char *job_step_name(Arena *arena, const Job *job, int program, int step);

#endif
