/* SPDX-License-Identifier: Apache-2.0 */
/* How long a program takes on GPUs that are not there.  Pure.
 *
 * Each step's arithmetic and bytes at the rates of the machine, one step after another as the stream runs them; collectives
 * and transfers travel on their lanes meanwhile, gathers on one, reductions on another, each in its order.  What a step waits for
 * is exposed. NCCL's kernels and computing slow one another. */
#ifndef TRAIN_FORECAST_H
#define TRAIN_FORECAST_H

#include "src/comm/comm.h"
#include "src/dev/machine.h"
#include "src/exec/cost.h"

typedef struct ForecastSite {
  MachineRates rates;
  int extent[MESH_AXES];
  int per_node; /* GPUs; ranks are dealt node by node */
  bool copies;  /* gathers of states go by copy engines within a node */
} ForecastSite;

typedef enum Lane { LANE_GATHERS, LANE_REDUCTIONS, LANE_FETCHES, LANE_SENDS, LANES } Lane; /* the last two: memory.offload's */

typedef struct Forecast {
  double seconds;
  double spent[PROF_KINDS]; /* of them, by kind: what is exposed of gathers, reductions and copies; they add up to seconds */
  double busy[LANES], nbytes[LANES]; /* seconds under way, and bytes received */
  int64_t unknown;                   /* steps for which there is no rate: they count nothing */
} Forecast;

/* Adds `times` runs of the program. */
void forecast_add(Forecast *sum, const Program *program, const ForecastSite *site, double times);

#endif
