/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by lines.c (where a line goes) and steps.c (what the steps' lines say and when). */
#ifndef REPORT_PRIVATE_H
#define REPORT_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "src/base/text.h"
#include "src/report/append.h"
#include "src/report/lines.h"

/* Steps since the last line. */
typedef struct Sum {
  int64_t steps, finite, tokens;
  double loss, seconds, flops;
  StepEvent last;
} Sum;

struct Lines {
  pthread_mutex_t lock;
  int rank, out, err;
  bool out_terminal, err_terminal, colour; /* terminal: one that understands more than text */
  double (*clock)(void);
  Append *log;
  Text banner;

  RunShape shape;
  bool running, ran; /* now; now or before */
  const char *doing;
  Sum sum;
  int64_t first_step; /* of this attempt; 0: none yet */
  double first_at;    /* when it ended */
  double printed_at;  /* the last step line */
  int since_header;   /* lines; -1: no header yet */
  double alive_at, note_at, step_seconds;

  char bar[160]; /* what is on the redrawn line; "" is none */
  double bar_at;

  pthread_t heart;
  pthread_cond_t stop;
  bool beating;
};

/* All three with the lock held. */
void lines_emit(Lines *lines, const char *line); /* progress: a whole line without its \n, on stdout */
void lines_emit_warn(Lines *lines, const char *line);
void lines_bar(Lines *lines, const char *bar);

#endif
