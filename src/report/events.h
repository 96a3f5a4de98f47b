/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in a run and is told twice: as a line (lines.h) and as a metrics object (metrics.h). */
#ifndef REPORT_EVENTS_H
#define REPORT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/phases.h"
#include "src/report/flops.h"

/* A run has been made ready; seconds and its parts are those of the banner. */
typedef struct StartEvent {
  int64_t step; /* done before this attempt */
  int attempt, ranks, kernels;
  bool cached;    /* no kernel had to be compiled */
  double seconds; /* since the process's start */
  double mpi, plan, kernel, load;
  const Phases *phases;                       /* all of them, finer: of each the most of all ranks; NULL: nobody knows */
  double memory_gib;                          /* planned, a rank */
  double allocated_gib, beside_gib, free_gib; /* of this rank's device; beside: see StepEvent */
} StartEvent;

/* Step N: N updates are done, in this run's whole life.  NaN, or 0 for what is never 0, is unknown. */
typedef struct StepEvent {
  int64_t step;
  int64_t tokens;      /* consumed by the run so far, this step's included */
  int64_t step_tokens; /* positions that this step computed, whole job */
  Flops per_token;     /* of those; 0: as the run's Speed has it */
  double padding;      /* share of those, with data.buckets; else 0 */
  double loss;         /* mean over the step's tokens, nats */
  double grad_norm;    /* before clipping */
  double lr;
  double z_loss;      /* a token; 0: there is none */
  double router_loss; /* the same */
  double seconds;     /* wall time of this step */
  double memory_gib;  /* peak so far of one rank's device; on a CPU the process's VmHWM less what it was after MPI_Init */
  double connect,
      connect_waited;  /* seconds that communicators of GPUs took since the start, and the job waited; 0: not in this step */
  const char *skipped; /* why nothing was changed, in a word; NULL: it was applied */
  double beside_gib;   /* what the driver of a GPU says that the process holds beside that: context, NCCL, libraries */
} StepEvent;

/* The run has gone back: step is the first that is done anew. */
typedef struct BackEvent {
  int64_t step, from;     /* from: the last that was done before */
  int64_t first, batches; /* of the data, that are left out: first counts from 1 */
  const char *why;
} BackEvent;

typedef struct EvalEvent {
  int64_t step;
  const char *name; /* of the data set */
  double loss;      /* nats a token */
  double bits_per_byte;
  int64_t tokens;
  double seconds;
} EvalEvent;

typedef struct SaveEvent {
  int64_t step;
  double bytes, seconds;
  double stalled; /* seconds for which training stood still */
} SaveEvent;

/* A rank has begun to compute more slowly than the others, or is as fast again (over). */
typedef struct StragglerEvent {
  int64_t step;
  int rank, gpu; /* gpu: -1: none, or unknown */
  const char *node, *slowed;
  double slower;        /* than the median, as a share of it */
  double mhz, mhz_most; /* its clock; 0: unknown */
  bool over;
} StragglerEvent;

#endif
