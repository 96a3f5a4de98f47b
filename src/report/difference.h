/* SPDX-License-Identifier: Apache-2.0 */
/* What changed between two texts of a few hundred lines. */
#ifndef REPORT_DIFFERENCE_H
#define REPORT_DIFFERENCE_H

#include "src/base/text.h"

/* Adds "- line" for each that went and "+ line" for each that came, in order, and returns how many that are. */
int difference_lines(const char *before, const char *after, Text *out);

#endif
