/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs on a real device against the interpreter: many in one job, since one compilation of a hundred graphs takes little
 * longer than that of one. */
#ifndef TEST_UNIT_DEVICE_CASES_H
#define TEST_UNIT_DEVICE_CASES_H

#include "src/exec/exec.h"

typedef struct DeviceCase {
  const char *label;  /* for messages: how to make it again */
  const Graph *graph; /* as given, but its Vars have a prefix of their own */
  double **before;    /* by var */
  double **after;     /* by var, by the interpreter: what should be there */
  const char *text;   /* the graph, printed */
} DeviceCase;

typedef struct DeviceCases {
  Arena *arena;
  VEC(DeviceCase) cases;
} DeviceCases;

DeviceCases *device_cases_open(void);
void device_cases_close(DeviceCases *cases);

/* values: by var of g, what each holds before. */
void device_cases_add(DeviceCases *cases, const Graph *g, double *const *values, const char *label);
/* The graph from text, values random: zero where numbers are integers. */
void device_cases_add_text(DeviceCases *cases, const char *text, const char *label);

/* What each case left in memory, by case and var, as the Var's type. */
typedef struct DeviceResults {
  void ***var;
} DeviceResults;

/* Compiles all cases into one job, each as a program, and runs each. */
DeviceResults device_cases_run(const DeviceCases *cases, const Choices *choices);

/* "" or what is wrong: the first Var that is further from the interpreter's than `tolerance`, relative to its own norm (and
 * exactly equal where it holds no floats); the first that differs in bits.  Valid until the next call. */
const char *device_compare(const DeviceCases *cases, const DeviceResults *results, double tolerance);
const char *device_same_bits(const DeviceCases *cases, const DeviceResults *a, const DeviceResults *b);

#endif
