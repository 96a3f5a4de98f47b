/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that can change how a run goes: MPI's, OpenMP's, NCCL's, Slurm's, CUDA's and their kin. */
#ifndef REPORT_ENVIRONMENT_H
#define REPORT_ENVIRONMENT_H

#include "src/base/text.h"

void environment_print(Text *out); /* NAME=VALUE a line, sorted; what looks like a secret without its value */
void environment_brief(Text *out); /* those that somebody set by hand, on one line, for the banner; "" if none */

#endif
