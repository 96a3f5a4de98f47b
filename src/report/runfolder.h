/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run, run.folder:
 *
 *   run.yaml                resolved, of the newest attempt
 *   metrics.jsonl           and TensorBoard files: metrics.h
 *   log.txt error.txt       of all attempts
 *   logs/rank-00037.log
 *   checkpoints/
 *   profile/                rank-00037.json (a trace), rank-00037.tsv (a table)
 *   REQUEUE                 the run has ended to be started again: says why
 *   attempts/2/             banner.txt environment.txt run.yaml run.diff (against the attempt before) metrics-cut.jsonl
 *
 * The paths are known to every rank; rank 0 makes the folder.  Order at start: runfolder_make, the LOCK, runfolder_begin. */
#ifndef REPORT_RUNFOLDER_H
#define REPORT_RUNFOLDER_H

#include "src/base/arena.h"

typedef struct RunFolder {
  const char *path, *run, *log, *error, *requeue, *logs, *checkpoints, *profile, *attempts;
  int attempt;      /* 1 for the first; 0 before runfolder_begin */
  int changed;      /* lines of run.yaml that differ from the attempt before; -1: there was none */
  const char *here; /* attempts/N */
  const char *cut;  /* where metrics_open puts what a resume cuts off */
} RunFolder;

RunFolder *runfolder_paths(Arena *arena, const char *path);
void runfolder_make(const RunFolder *folder); /* folders that are missing, parents too; fails if one cannot be written to */

/* Counts this attempt and stores its environment and its resolved run file with what changed in it. */
void runfolder_begin(RunFolder *folder, Arena *arena, const char *run_yaml);
void runfolder_banner(const RunFolder *folder, const char *banner);

/* logs/rank-00037.log; profile/rank-00037.json and so on, by extension */
const char *runfolder_rank_log(const RunFolder *folder, Arena *arena, int rank);
const char *runfolder_rank_profile(const RunFolder *folder, Arena *arena, int rank, const char *extension);

#endif
