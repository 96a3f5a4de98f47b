/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a device is, measured: by programs of the kind that a run has, so that a device which is slow in a run is slow here. */
#ifndef EXEC_RATES_H
#define EXEC_RATES_H

#include "src/exec/exec.h"

typedef struct DeviceRates {
  double products; /* FLOP/s of large matrix products: on GPUs of bf16, on CPUs of float32 */
  double bytes;    /* a second that a kernel reads and writes of the device's memory */
  DevSensors busy; /* while products run */
} DeviceRates;

/* Each is measured for about so many seconds (all ranks call; they begin together).  choices: cuda, threads, matmul. */
DeviceRates device_rates(Dev *dev, Comm *comm, const Choices *choices, double seconds);

/* What it runs: draws two matrices, multiplies them, reads a vector and writes another. */
enum { RATE_DRAWS, RATE_PRODUCT, RATE_COPY, RATE_PROGRAMS };
void device_rate_programs(Arena *arena, const Choices *choices, const Program *programs[RATE_PROGRAMS]);

#endif
