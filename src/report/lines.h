/* SPDX-License-Identifier: Apache-2.0 */
/* What a run says.  A fact a line, whose first word is its type (step eval ckpt note warn …, so that `grep ^eval` works);
 * progress on stdout, warnings on stderr, everything in log.txt too, in the same words.  A line is one write().
 *
 * Rank 0 speaks for the job.  Another rank's notes and warnings go to its own log alone, which exists once there is one;
 * its step, eval and ckpt lines are dropped.
 *
 * In a batch log (stdout is no terminal): no \r, no colour.  A terminal gets colour, unless NO_COLOR is set, and a last line
 * that is redrawn.  All functions may be called from any thread. */
#ifndef REPORT_LINES_H
#define REPORT_LINES_H

#include <stdint.h>

#include "src/report/events.h"
#include "src/report/flops.h"

typedef struct Lines Lines;

Lines *lines_open(int rank);
/* The same to these file descriptors and with this clock in seconds, for tests. */
Lines *lines_open_to(int rank, int out, int err, double (*clock)(void));
/* Lines said so far and from now on go to this file as well: log.txt, or logs/rank-….log. */
void lines_log(Lines *lines, const char *path);
void lines_close(Lines *lines); /* NULL is fine; takes the redrawn line away */

/* Everything said before lines_run, for the attempt's folder.  Valid until lines_close. */
const char *lines_banner_text(Lines *lines);

#define LINES_FORMAT(n) __attribute__((format(printf, n, n + 1)))
void lines_banner(Lines *lines, const char *label, const char *format, ...) LINES_FORMAT(3); /* "mpi      64 ranks": 8 columns */
void lines_end(Lines *lines, const char *label, const char *format, ...) LINES_FORMAT(3);    /* "done   …", "time", "next" */
void lines_note(Lines *lines, const char *format, ...) LINES_FORMAT(2);
void lines_warn(Lines *lines, int64_t step, const char *format, ...) LINES_FORMAT(3); /* step 0: of no step */

typedef struct RunShape {
  int64_t total_steps; /* of the run; time left counts to here */
  int64_t last_step;   /* where this attempt ends on its own (train.stop_after); its line is always printed */
  int64_t save_every;  /* 0: never */
  int64_t every; /* log.every: a line each so many steps.  0: chosen here, a line per 10 s in a log, per second in a terminal */
  Speed speed;
} RunShape;

/* Steps follow.  Starts the heartbeat: after 60 s without a step, and each 60 s more, "note  no step for 60 s: DOING". */
void lines_run(Lines *lines, const RunShape *shape);
/* What goes on besides steps, such as "writing checkpoint"; "" is training.  Kept, not copied. */
void lines_doing(Lines *lines, const char *doing);
/* To be called with every step; prints those that are due.  loss is averaged and tok/s taken over the steps since the last
 * line; steps without a finite loss count only if there are no others. */
void lines_step(Lines *lines, const StepEvent *event);
/* Steps go on from an earlier one: what was averaged and timed so far counts no more. */
void lines_again(Lines *lines);
void lines_eval(Lines *lines, const EvalEvent *event);
void lines_save(Lines *lines, const SaveEvent *event);
/* The steps are over: prints the last one if it was not, and ends the heartbeat. */
void lines_run_end(Lines *lines);

/* The heartbeat's look at the clock; its own thread calls it each second. */
void lines_tick(Lines *lines);

#endif
