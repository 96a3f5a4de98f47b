/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of hpctrain plan share.  Private to them.
 *
 *   plan.c          the command: from its words to a prospect
 *   plan_print.c    what is said of it
 *   plan_trials.c   other settings, each compiled in a process of its own
 *   plan_snapshot.c a step's memory as a picture
 *   plan_choose.c   which ones: suggestions where the run does not fit, and --sweep */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include "src/report/human.h"
#include "src/train/prospect.h"

/* What was asked for. */
typedef struct PlanWords {
  int argc; /* run file and keys: argv[1] … */
  char **argv;
  int ranks, per_node;    /* per_node 0: not said */
  const Machine *machine; /* NULL: not known */
  double allowed;         /* bytes, as in ProspectSite */
} PlanWords;

/* plan.c: ends the process where this cannot be.  kind, may be NULL: what device.kind: auto is here, and why. */
Config *plan_config(Arena *arena, const PlanWords *words, const char **kind);
/* The same without what has no use beside the rest (config_load_usable). */
Config *plan_config_usable(Arena *arena, const PlanWords *words, const char **left_out);
Prospect *plan_prospect(Arena *arena, const Config *config, const PlanWords *words, Text *warnings);

/* plan_print.c */
void plan_print(const Prospect *p, const char *kind);
void plan_print_run(const Prospect *p, int64_t steps);        /* how long it takes; nothing where nobody knows */
const char *plan_amount(char out[HUMAN_TEXT], double nbytes); /* "77.4 GiB", "3.1 MiB" */

/* plan_snapshot.c: --memory-snapshot */
void plan_snapshot(const Engine *engine, const char *path);

/* --- plan_trials.c ----------------------------------------------------------------------------------------------------------- */

enum { TRIAL_WORDS = 5 };

typedef struct Trial {
  const char *words[TRIAL_WORDS]; /* keys that are set otherwise than the run says; NULL behind the last */
  int ranks;                      /* 0: as many as the run has */
  bool known;                     /* it was compiled; else it cannot be, or the chain had ended before */
  int64_t micro;
  double nbytes, missing, tokens; /* of a rank; what it is short of; a second and rank, NaN where nobody knows */
  const char *left_out;           /* keys of the run that have no use beside the trial's words, with spaces between; "" */
  const char *why;                /* it cannot be; NULL */
} Trial;

/* One after another, up to one that does not fit (a larger one would not either) or cannot be. */
typedef struct TrialChain {
  Trial *at;
  int n;
} TrialChain;

/* The run's words but for those that the trial sets, then the trial's. */
PlanWords trial_words(Arena *arena, const PlanWords *run, const Trial *trial);

/* Chains side by side, as many as there are cores. */
void trials_run(Arena *arena, const PlanWords *words, TrialChain *chains, int n);

/* --- plan_choose.c ----------------------------------------------------------------------------------------------------------- */

/* p, of these words, does not fit.  asked: the run's own, which differ where memory.recompute: auto has given way to block. */
void plan_suggest(const Prospect *p, const PlanWords *words, const PlanWords *asked);
void plan_sweep(const Prospect *p, const PlanWords *words);

#endif
