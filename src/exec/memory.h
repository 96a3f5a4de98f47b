/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a rank's memory: known from the plan alone, before anything is allocated and without a device.
 *
 * Everything in the arena has a name: a Var its own ("param/layers.3"), what lives for some steps of a program that of the op
 * which makes it.  Gaps are what the plan leaves between buffers at its peak. */
#ifndef EXEC_MEMORY_H
#define EXEC_MEMORY_H

#include "src/exec/exec.h"

typedef enum MemoryClass {
  MEMORY_ACTIVATIONS, /* and their gradients */
  MEMORY_GATHERED,    /* parameters of other ranks, on their way and there */
  MEMORY_WORKSPACE,   /* of big ops and collectives */
  MEMORY_GRADIENTS,   /* of parameters: summed over passes, and what is being reduced */
  MEMORY_PARAMETERS,
  MEMORY_MOMENTS,
  MEMORY_INPUTS, /* batches, results, scalars */
  MEMORY_CONSTANTS,
  MEMORY_GAPS,
  MEMORY_CLASSES
} MemoryClass;
extern const char *const memory_class_names[MEMORY_CLASSES];

typedef struct MemoryHolder {
  const char *name; /* "param/layers.3 202383360 f32", "matmul 8192x4096 bf16, forward of layers.3" */
  MemoryClass class;
  size_t nbytes, at; /* where in the arena */
  int program;       /* -1: for the whole job */
  int first, last;   /* steps of that program */
} MemoryHolder;

/* At the peak: the hungriest program's step at which most is alive.  The classes' bytes add up to nbytes, the arena. */
typedef struct MemoryReport {
  size_t nbytes, by_class[MEMORY_CLASSES];
  size_t host, host_by_class[MEMORY_CLASSES]; /* what memory.offload keeps in the host's memory, of all programs the most */
  int program, step;                          /* program -1: there is none, or programs are interpreted */
  const char *place;                          /* "backward of layers.31, matmul, in micro.last" */
  int n;                                      /* all holders then, the largest first */
  MemoryHolder *at;
} MemoryReport;
MemoryReport *memory_report(Arena *arena, const Job *job);

/* Holders that differ in the number of their unit alone ("param/layers.* 202383360 f32"), those that have most first. */
typedef struct MemoryKin {
  const char *name; /* with * for the number */
  MemoryClass class;
  size_t each; /* bytes */
  int n;
  const MemoryHolder *one;
} MemoryKin;
MemoryKin *memory_kin(Arena *arena, const MemoryReport *report, int *n);

/* For people: the classes, the peak's place and the `most` largest holders, those of a kind (a layer each) in one line; lines that
 * begin with three blanks. */
void memory_report_print(const MemoryReport *report, int most, Text *out);

/* "backward of layers.31, matmul"; of the update, "update, fused kernel". */
const char *memory_place(Arena *arena, const Program *program, const char *name, int step);

MemoryClass memory_var_class(const Var *var);
const char *memory_var_name(Arena *arena, const Var *var);
const char *memory_buffer_name(Arena *arena, const Job *job, int program, int buffer);

/* The class of each buffer of a program; those of Vars and constants too. */
MemoryClass *memory_classes(Arena *arena, const Program *program);

/* Bytes by class at each step of a program: alive[step * MEMORY_CLASSES + class].  What the job holds for good (Vars and
 * constants of all its programs) is included; gaps are none, since they belong to no step. */
size_t *memory_timeline(Arena *arena, const Job *job, int program);

/* --- snapshot.c ----------------------------------------------------------------------------------------------------------- */

/* A step of a program, and when it began. */
typedef struct MemoryMoment {
  int program, step;
  int64_t micros;
} MemoryMoment;
/* The steps of these programs in a row, as if each took a microsecond. */
MemoryMoment *memory_order(Arena *arena, const Job *job, const int *programs, int n, int *count);

/* Those of the first recorded step of the job's profile, as they were started. */
MemoryMoment *memory_recorded(Arena *arena, const Job *job, int *count);

/* A file for PyTorch's memory viewer: n moments, of whole runs of programs. */
void memory_snapshot(const Job *job, const MemoryMoment *at, int n, Text *out);

#endif
