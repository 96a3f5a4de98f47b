/* SPDX-License-Identifier: Apache-2.0 */
/* A job from the inside: shared by job.c (memory and the loop), bind.c (addresses and functions), tune.c, interpret.c and
 * profile.c.  Private to them. */
#ifndef EXEC_JOB_H
#define EXEC_JOB_H

#include "src/exec/files.h"
#include "src/exec/gathers.h"
#include "src/exec/private.h"

typedef struct Product Product; /* tune.c */
typedef struct GpuUse GpuUse;   /* gpu.h */

/* A step with everything bound: what the loop needs. */
typedef struct Bound {
  StepKind kind;
  void *kernel;    /* function of the device */
  void **pointers; /* kernels: inputs, then outputs */
  int npointers;
  DevLaunch launch;
  BigRun *big;
  BigCall call;
  CommOp *op;
  struct Transfer *transfer;
  const BigImpl *row;
  const struct GpuImpl *gpu; /* instead of row and big, on a GPU */
  void *plan;                /* gpu's */
  GpuUse *use;               /* where both come from */
  void *host_in, *host_out;  /* a collective's ends, where it cannot have them in the device's memory; else NULL */
  size_t in_bytes, out_bytes;
  const char *symbol; /* of generated code */
  Product *product;   /* a matrix product that is chosen by measurement or by record; NULL: by the fixed rule */
} Bound;

typedef struct JobVar {
  const Var *var;
  size_t offset, nbytes; /* in the arena, in Job.far or in the file */
  void *mirror;          /* of inputs and outputs the host's copy, where memory is not the host's; NULL until asked for */
  bool touched;          /* an input's copy may have changed since it was sent */
  bool borrowed;         /* it is the lender's */
  bool placed;           /* offset is known: all but those within another, until that one is there */
  bool open;             /* other ranks may read it */
} JobVar;

/* host.c's */
enum { PARTS = 2, NOTES = 4, NOTE_BYTES = 256 };

typedef struct HostCopy {
  char *at;
  DevEvent *over; /* the device's last use of it */
} HostCopy;

/* transfer.c's: memory between the device and a file, and a FETCH or SEND, which is a move or has a file. */
typedef struct Stage {
  HostCopy copy;
  bool taken; /* while a program is bound: by a transfer that is under way */
} Stage;

typedef struct Transfer {
  DevMove *move;
  FileMove *file;
  Stage *stage; /* NULL: the file's threads touch the device's memory */
  void *device;
  size_t nbytes;
  bool fetch;
} Transfer;

typedef struct JobHost {
  HostCopy parts[PARTS], notes[NOTES];
  int64_t noted, looked; /* notes taken, and looked at */
} JobHost;

typedef struct JobProgram {
  const Program *program;
  const char *name;
  int *var;      /* of the program's graph -> of the job */
  size_t *table; /* by buffer: offset of a BUFFER_TABLE's constants */
  Bound *steps;
  int64_t runs;
  DevGraph *captured; /* all steps; NULL: not yet, or never */
  int profiled;       /* number in the profile */
  int in_flight;      /* transfers from and to files, at most; 0: it has none */
} JobProgram;

typedef struct Inputs Inputs; /* inputs.c */

struct Job {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  const Choices *choices;
  bool interpreted;
  const Job *lender; /* whose Vars in the host's memory are ours, too; NULL: none */
  VEC(JobVar) vars;
  VEC(JobProgram) programs;
  JobMemory memory;
  size_t nbytes; /* of the arena */
  size_t split;  /* from here on other ranks may read it; nbytes: nowhere */
  char *base;    /* of what lies before */
  char *open;    /* of the rest; NULL: there is none */
  size_t sent;   /* the most that a program has sent off and not fetched at a time */
  int in_flight; /* the most of all programs */
  size_t far_bytes;
  char *far; /* Vars in the host's memory, then what programs have sent there; NULL: none */
  DevModule *module;
  VEC(Product *) products;
  VEC(GpuUse *) uses;
  Text notes;        /* for people, a line each */
  const char *tuned; /* what job_choices gives */
  Inputs *inputs;    /* NULL: the host writes to the device's memory itself */
  JobHost host;
  Files *files; /* what is kept in files; NULL: nothing */
  VEC(Stage *) stages;
  size_t stage_bytes; /* of each: the largest Var in a file */
  bool device_collectives;
  bool copies[MESH_AXES]; /* gathers of states over this axis go by comm_copies */
  bool shared, ran;       /* other ranks may read states; a program has been started */
  Prof *prof;             /* NULL: none */
};

int job_find_var(const Job *job, const char *name); /* -1: none */
char *job_at(const Job *job, size_t offset);        /* in the arena */
char *job_address(const Job *job, const JobVar *v);

/* transfer.c: how many transfers from and to files a program has under way at a time; binding, in the order of steps, until the
 * unbind of its wait, which is the host's while it is bound; one run. */
int transfers_in_flight(const Program *program);
void transfer_bind(Job *job, const Program *p, const Step *step, void *to, void *from, Bound *bound);
void transfer_unbind(Bound *bound);
void transfer_start(Job *job, Transfer *transfer);
void transfer_wait(Job *job, Transfer *transfer);
void transfer_close(Transfer *transfer);
void stages_close(Job *job);

/* bind.c: places to addresses, steps to functions (once the arena is there); symbols (once the code is loaded). */
void job_bind(Job *job, JobProgram *p, Code *code);
void job_resolve(Job *job, JobProgram *p);
/* Ends the job when a product that was just built does not multiply. */
void job_check_products(Job *job, JobProgram *p);
void job_fill_tables(const Job *job, const JobProgram *p);

/* inputs.c: what the host writes between runs, on its way to the device. */
Inputs *job_inputs_open(Job *job);
void job_inputs_send(Job *job);
void job_inputs_close(Job *job);

/* host.c: gives back what it took of the host's memory. */
void job_host_close(Job *job);

/* gpu_fill.c: n floats of device memory. */
/* at: n floats, or where halves the upper ones, whose lower ones (NULL: none) are at lower. */
void gpu_fill_floats(Job *job, void *at, void *lower, bool halves, int64_t n, const JobFill *fill);

/* gpu.c: notes a bound big op; prepares what needs no compiled code (while that is being built), then the rest (all ranks);
 * gives the step its row and plan. */
void gpu_add(Job *job, const Step *step, Bound *bound, size_t workspace);
void gpu_prepare(Job *job);
void gpu_settle(Job *job);
void gpu_bind(Bound *bound);
void gpu_run(Job *job, Bound *bound);
const char *gpu_told(const Bound *bound); /* row and plan, for people and for ranks to compare */
void gpu_release(Job *job);               /* all plans */

/* tune.c: notes a bound product, with all rows that can do it; chooses between them (all ranks) once the code is loaded. */
void job_tune_add(Job *job, const Step *step, Bound *bound, Code *code);
void job_tune(Job *job);

/* interpret.c: one run of a program, node by node in double. */
void job_interpret(Job *job, const JobProgram *p);

#endif
