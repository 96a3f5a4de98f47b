/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of an allocation are sick: from what each of them has measured.  What is slow is slow beside the median, since nobody
 * knows of every machine how fast it should be. */
#ifndef TRAIN_CHECKUP_H
#define TRAIN_CHECKUP_H

#include "src/base/text.h"
#include "src/dev/dev.h"

typedef enum CheckRate {
  CHECK_PRODUCTS, /* FLOP/s */
  CHECK_MEMORY,   /* bytes a second, as all that follow: the device's memory */
  CHECK_TO_GPU,
  CHECK_FROM_GPU,
  CHECK_HOST, /* the host's memory */
  CHECK_WRITE,
  CHECK_READ, /* files */
  CHECK_RATES
} CheckRate;

enum { CHECK_ROUNDS = 24 };

/* A rank's. */
typedef struct Checkup {
  double rates[CHECK_RATES];  /* 0: not measured */
  double links[CHECK_ROUNDS]; /* comm_pair_rate of each round; 0: no partner */
  DevSensors sensors;
  char node[64];
} Checkup;

/* n ranks, that have met in so many rounds.  bound: of the median; who is below it is slow (files vary more: half of that).
 * Lines: the rates, a line each. */
void checkup_print(const Checkup *all, int n, int rounds, Text *out);
/* Lines: a rank each that is sick, then pairs of ranks whose link is slow without one of the two being so with all.  nodes: where
 * they are, with commas between.  Returns how many lines there are. */
int checkup_judge(const Checkup *all, int n, int rounds, double bound, Text *out, Text *nodes);

#endif
