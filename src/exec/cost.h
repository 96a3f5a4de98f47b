/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of a program costs at the least, by arithmetic alone: for the floors of profiles and for forecasts. */
#ifndef EXEC_COST_H
#define EXEC_COST_H

#include "src/fuse/fuse.h"
#include "src/prof/prof.h"

/* nbytes: read and written, or what a collective lets this rank receive; the latter's wait costs nothing by itself. */
typedef struct StepCost {
  ProfKind kind;
  double flops, nbytes;
  bool narrow; /* operands of 16 bits */
} StepCost;
StepCost step_cost(const Step *step, bool updates);

/* Arithmetic of the program's products and attention; *again: that part of it which is done a second time to save memory. */
double program_flops(const Program *program, double *again);

bool program_updates(const Program *program); /* whether it writes states */

#endif
