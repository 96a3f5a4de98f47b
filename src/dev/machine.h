/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as plans know them: what data sheets promise, and what of that was seen to come. */
#ifndef DEV_MACHINE_H
#define DEV_MACHINE_H

#include <stdbool.h>

typedef struct Machine {
  const char *name;           /* "h200" */
  const char *card;           /* part of the name that its driver gives */
  double memory;              /* bytes, as its driver counts them */
  double narrow, wide;        /* FLOP/s of dense products with bf16 and with float32 operands (no TF32), summed in float32 */
  double bytes;               /* a second, of its memory */
  double link, network, host; /* bytes a second each way: to another GPU of its node, its share of the network, its host */
} Machine;

extern const Machine machines[];
extern const int nmachines;
const Machine *machine_find(const char *name);    /* NULL: unknown */
const Machine *machine_of_card(const char *card); /* by the driver's name; NULL: unknown */

/* Ways for bytes between GPUs. */
typedef enum MachineWay { WAY_GATHER, WAY_SCATTER, WAY_ALL_REDUCE, WAY_COPY, WAYS } MachineWay; /* all but copies by NCCL */

/* What is sustained in training, where power is the limit and not the clock. */
typedef struct MachineRates {
  double narrow, wide;      /* FLOP/s of products */
  double attention[2][2];   /* FLOP/s, counting what causality leaves: heads of at most 64, larger ones; forward, gradient */
  double bytes;             /* a second, read and written, by kernels that only move them */
  double fused, update;     /* the same of fused kernels and of the optimiser's */
  double way[WAYS];         /* bytes a second that a rank receives within a node */
  double network, host;     /* the same between nodes, a GPU; between a GPU and its host's memory */
  double products_slowed;   /* NCCL's kernels take multiprocessors: how many times as long computing takes beside them */
  double way_slowed;        /* and they beside it */
  double kernel_gap, start; /* seconds between kernels of a captured graph; and until a collective moves its first byte */
} MachineRates;
MachineRates machine_rates(const Machine *machine);

/* Bytes of a GPU's memory that are not the program's: the driver's context, libraries, and with other ranks NCCL's. */
double machine_reserve(bool alone);

/* Bytes of a GPU's memory that a program may plan: without the reserve, and without a hundredth, since plans were seen to be within
 * 0.6 % of runs; what plan calls fitting and recompute: auto takes. */
double machine_room(double memory, bool alone);

/* The same of a rank's share of a node's memory: a process's code, MPI and tables, and the system, want some. */
double machine_host_room(double memory, int ranks);

#endif
