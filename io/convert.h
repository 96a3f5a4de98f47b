/* SPDX-License-Identifier: Apache-2.0 */
/* Weights from one type into another. */
#ifndef IO_CONVERT_H
#define IO_CONVERT_H

#include <stdint.h>

#include "src/base/dtype.h"

/* n elements of a type as another, both floats or the same (in and out may then be one), rounded to nearest even.  Gives the first
 * that is no finite number, or becomes none, or is no truth value where those are meant, and its value; -1: none is. */
int64_t convert_weights(DType from, const void *in, int64_t n, DType as, void *out, double *value);

#endif
