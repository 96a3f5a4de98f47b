/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/phases.h"

#include "src/base/clock.h"
#include "src/base/fail.h"

Phases phases_begin(void) { return (Phases){.since = clock_seconds()}; }

static void add(Phases *phases, const char *name, double seconds) {
  CHECK(phases->n < PHASES_MOST);
  phases->at[phases->n].name = name;
  phases->at[phases->n++].seconds = seconds;
}

double phase_end(Phases *phases, const char *name) {
  double now = clock_seconds(), seconds = now - phases->since;
  phases->since = now;
  add(phases, name, seconds);
  return seconds;
}

void phases_add(Phases *phases, const Phases *more) {
  for (int i = 0; i < more->n; i++) add(phases, more->at[i].name, more->at[i].seconds);
  phases->since = more->since;
}
