/* SPDX-License-Identifier: Apache-2.0 */
/* A run from start to end; what the files of the train command share.
 *
 *   start.c     from the command line to a run that is ready
 *   shared.c    whether all ranks see the run folder
 *   resume.c    where a run goes on
 *   loop.c      steps, and what the ranks decide between them
 *   passes.c    forward and backward of a step
 *   trouble.c   steps that were not applied
 *   blame.c     who was first with a number that is none
 *   back.c      back to a checkpoint
 *   save.c      checkpoints; saver.c: beside the training
 *   export.c    export.at_end
 *   evaluate.c  validation loss
 *   pace.c      which rank computes more slowly than the others
 *   profile.c   profile.steps
 *   memory.c    planned, allocated, in use
 *   wishes.c    signals and files that ask for a save or a stop
 *   limit.c     train.time_limit, and REQUEUE
 *   stages.c    run.debug, run.tune */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "io/ckpt.h"
#include "io/lock.h"
#include "src/report/lines.h"
#include "src/report/metrics.h"
#include "src/report/runfolder.h"
#include "src/train/data.h"
#include "src/train/fit.h"
#include "src/train/groups.h"
#include "src/train/history.h"
#include "src/train/prefetch.h"
#include "src/train/setup.h"
#include "src/train/states.h"
#include "src/train/twice.h"
#include "src/train/weights.h"

/* Where a run's time goes, in seconds; the longest single ones tell what saving in time takes. */
typedef enum Spent { SPENT_START, SPENT_TRAINING, SPENT_EVALS, SPENT_SAVES, SPENTS } Spent;

/* How often a program is run until it is what it will be: it has run, has been captured, and has run captured. */
enum { PROGRAM_READY = 3 };

/* What a step's passes compute, on all ranks together. */
typedef struct Work {
  int64_t tokens, filled; /* filled: of these, no padding; with data.buckets, else all */
  Flops flops;
  bool fresh; /* a program of them is not ready: with data.buckets that may come at any step */
} Work;

typedef struct Paces Paces; /* pace.c */
typedef struct Saves Saves; /* save.c */

typedef struct Run {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Dev *dev;
  const Config *config;
  const char *config_text, *model_text; /* as checkpoints hold them */
  const char *environment;              /* what somebody set by hand */
  const char *kind;                     /* what device.kind: auto is here, and why; NULL: it was not auto */
  const char *fit;                      /* the same of memory.recompute: auto */
  ModelConfig model;
  const Members *members; /* its parameters */
  Batch batch;
  Data *data;
  const char *data_files; /* data_list, on the rank that speaks */
  Prefetch *prefetch;
  Tokenizer *tokenizer;   /* data.tokenizer, on the rank that speaks; NULL: none */
  int32_t *token_bytes;   /* vocab; NULL: not known yet */
  int64_t *val_bytes;     /* of the text of what is scored of each validation set; NULL, 0: not known yet */
  ModelFolder *from;      /* model.from, where weights are read from it, until they are */
  Weights *weights;       /* of it; NULL: none are read */
  const CkptText *papers; /* of the model that it began from and of data.tokenizer, for its checkpoints; rank 0's count */
  int n_papers;
  Ckpt *ckpt;                  /* to go on from, between finding and loading it; NULL: none */
  const char *source;          /* the folder in which it was found */
  const ConfigChange *changes; /* n_changes: of the run file, since it was saved */
  int n_changes;
  Engine *engine;
  Saves *saves;
  Paces *paces;              /* NULL: ranks are not compared */
  Prof *prof;                /* NULL: nothing is to be recorded in this attempt, or it has been */
  Lengths lengths;           /* that passes may have */
  Flops flops[LENGTHS_MOST]; /* a token of each */
  LrSchedule schedule;
  RunShape shape;

  Lines *lines;
  RunFolder *folder;
  Metrics *metrics; /* rank 0's, as the lock */
  Lock *lock;

  int64_t step;                   /* updates done or under way, skipped ones included */
  int64_t open;                   /* the step whose update is under way, its results not read yet; 0: none */
  double open_lr;                 /* its learning rate */
  Work work, open_work;           /* of the passes that were started last; of that step */
  int64_t saved_step;             /* of the last save; -1: none */
  int64_t compared_step;          /* the last behind which replicas were found alike; -1: none */
  int64_t retry_step, retry_wait; /* when a save that failed is tried again, and how many steps that is later; 0: none failed */
  double loss, eval_loss;         /* the last ones; NaN: none */
  bool told_empty;                /* that of a validation set nothing counts */
  History *history;
  Twice *twice;                /* run.debug: determinism; NULL: not asked for */
  int searches;                /* of who was first, in this attempt */
  int backs;                   /* how often it went back, in this attempt */
  int64_t back_to, back_times; /* the step that it last went back to, and how many times in a row */
  int64_t memory_before;       /* bytes: the process's peak right after MPI's start */
  int64_t concluded;           /* steps whose results were read in this attempt */
  double memory_beside;        /* GiB: the most that was seen on this rank's GPU beside what is allocated */
  double spent[SPENTS], longest[SPENTS];
  double ends;           /* rank 0's: when this job must be over, by clock_seconds; infinite: never */
  int32_t *ids, *labels; /* of a pass of an evaluation */
  int32_t *starts;       /* of documents, with data.packing; else NULL */
} Run;

/* --- start.c -------------------------------------------------------------------------------------------------------------- */

Run *run_open(int argc, char **argv);
void run_close(Run *run);
bool run_speaks(const Run *run); /* this rank does, for the job: rank 0 */
void run_spend(Run *run, Spent kind, double seconds);

/* --- shared.c ------------------------------------------------------------------------------------------------------------- */

/* All ranks, once rank 0 has made the run folder: an input error unless they all see what it makes there. */
void run_check_shared(Run *run);

/* --- resume.c ------------------------------------------------------------------------------------------------------------- */

/* Before the data are opened: finds the checkpoint to go on from, and refuses one of another model or other fixed keys. */
void run_find(Run *run);
/* After that: refuses one of other data, and sets step; without a checkpoint, the weights to start with. */
void run_take(Run *run);
/* After the engine's start: parameters and states of that checkpoint, of a model's folder, or fresh. */
void run_load(Run *run);
/* Once steps have been done, all ranks, the engine at rest: the newest checkpoint again; sets step and history.  False: there is
 * none. */
bool run_load_again(Run *run);

/* --- loop.c --------------------------------------------------------------------------------------------------------------- */

/* Trains to the end, to train.stop_after or until asked to stop. */
void run_steps(Run *run);

/* What all ranks do besides steps, for the lines and the watch (as comm_doing); "" is training.  Kept, not copied. */
void run_doing(Run *run, bool patient, const char *doing);

/* --- passes.c ------------------------------------------------------------------------------------------------------------- */

void run_passes(Run *run, int64_t step); /* of all of the step's sequences, started */
/* The same as if only those from first up to end counted: the others are padding. */
void run_passes_of(Run *run, int64_t step, int64_t first, int64_t end);
/* Of such a sequence: the rank that takes it, and which sample of the data it is (data_sample). */
int run_rank_of(const Run *run, int64_t number);
int64_t run_sample(const Run *run, int64_t step, int64_t number, const char **source);

/* --- trouble.c ------------------------------------------------------------------------------------------------------------ */

/* Why a step was skipped, in a word for metrics; NULL: it was applied. */
const char *run_skipped(const StepResult *result);
/* All ranks, behind a step that was not applied.  ahead: the next step's passes are under way.  True: the run has gone back, and
 * run->step with it. */
bool run_trouble(Run *run, int64_t step, const StepResult *result, bool ahead);

/* All ranks, with run->step done: replicas are compared, unless they were behind this step.  False: the run has gone back. */
bool run_compare(Run *run);

/* --- blame.c -------------------------------------------------------------------------------------------------------------- */

/* All ranks: what was first not finite in a step, as "inf first in … gradient, rank 1 (n002), sample 17".  redo: its gradients are
 * not there any more.  True: passes were run to find out, and their gradients are what is there. */
bool run_blame(Run *run, int64_t step, bool redo, char *text, size_t nbytes);

/* --- back.c --------------------------------------------------------------------------------------------------------------- */

/* All ranks: back to the newest checkpoint because of step `bad`, whose results were read; past: on from there behind that step's
 * data.  False: there is no checkpoint.  Ends the job when it has gone there too often. */
bool run_back(Run *run, int64_t bad, bool past, const char *why);

/* --- memory.c ------------------------------------------------------------------------------------------------------------- */

double run_planned(const Run *run);  /* GiB of this rank's arena; on a CPU with what is offloaded */
double run_memory(const Run *run);   /* GiB at the peak: on a CPU of the process, on a GPU of what is allocated */
DevMemory run_memory_look(Run *run); /* notes what is beside that */
void run_memory_tell(Run *run);      /* after the start, a line */
void run_memory_end(Run *run);       /* all ranks: the line that sets the peak beside the plan */

/* --- profile.c ------------------------------------------------------------------------------------------------------------ */

/* After the start.  An input error where the run ends before the steps that are to be recorded. */
void run_profile_open(Run *run);
/* All ranks, before and after each step. */
void run_profile_before(Run *run);
void run_profile_after(Run *run);
void run_profile_close(Run *run); /* the run ends: what was recorded is written */

/* --- pace.c --------------------------------------------------------------------------------------------------------------- */

/* All ranks: after the start; around what of the training is done at a time; after each step; once there is no other. */
void run_pace_open(Run *run);
void run_pace_begin(Run *run);
/* beside: seconds since then that were not computing: saves, ways back. */
void run_pace_end(Run *run, double beside);
void run_pace_after(Run *run);
void run_pace_close(Run *run);

/* --- save.c --------------------------------------------------------------------------------------------------------------- */

void run_check_room(const Run *run); /* for as many checkpoints as there will be at a time */
/* All ranks, all of these.  After run_load and before run_close. */
void run_save_open(Run *run);
void run_save_close(Run *run);
size_t run_save_copies(const Run *run); /* bytes of the host's memory for saves beside the training; 0: training waits for them */
/* Waits until run->step, which is done, is saved.  False: told, and the checkpoints before are as they were. */
bool run_save(Run *run);
/* The same beside the training where that can be: then run->step may be under way (run_saves_beside), and what comes of it is told
 * later. */
void run_save_due(Run *run);
bool run_saves_beside(Run *run);
/* Before the next update, once the one before is told: gives the seconds for which it was waited. */
double run_save_release(Run *run);
/* Before states are written as they are already. */
void run_save_copied(Run *run);
/* Words for and of the exchange between ranks: how many saves are over here, and everywhere; then the last is concluded. */
int64_t run_saves_over(const Run *run);
void run_save_look(Run *run, int64_t over);
bool run_save_under_way(const Run *run);
bool run_save_wait(Run *run);        /* for the one under way; false: it has failed */
bool run_save_wait_before(Run *run); /* the same before another that begins at once */
/* Before states are written by others than updates: one that waits for its step's results is not saved, any other is waited for. */
void run_save_leave(Run *run);

/* --- export.c ------------------------------------------------------------------------------------------------------------- */

/* Before anything is computed: the folder of export.at_end may not be there, unless the run is done. */
void run_check_export(const Run *run);
/* All ranks, of a run whose last checkpoint is on disk: makes the folder, if one is asked for and not there. */
void run_export(Run *run);

/* --- evaluate.c ----------------------------------------------------------------------------------------------------------- */

void run_evaluate(Run *run);

/* --- wishes.c ------------------------------------------------------------------------------------------------------------- */

/* WISH_PAUSE: stop, to be started again: a signal's number, or PAUSE_TIME. */
typedef enum Wish { WISH_STOP, WISH_SAVE, WISH_PAUSE, WISHES } Wish;
enum { PAUSE_TIME = 1000 };

void wishes_open(void);   /* SIGUSR1 is heard from here on: whenever it comes, the run saves and ends as soon as it can */
void wishes_listen(void); /* and now the others, which until then end a job that has nothing to save */
/* What this process has been asked for since it last looked; 0: nothing. */
void wishes_take(const Run *run, int64_t wanted[WISHES]);

/* --- limit.c -------------------------------------------------------------------------------------------------------------- */

/* Rank 0.  At the start: how long this job has.  It goes on from here: what an attempt before left for the job script is removed.
 */
void limit_open(Run *run);
void limit_tell(const Run *run);        /* the banner's line, if there is a limit */
bool limit_is_near(const Run *run);     /* after two more steps there might be no time left to save */
const char *limit_pause(int64_t pause); /* "SIGUSR1", "train.time_limit" */
/* The last checkpoint is there, and steps are left: run.folder/REQUEUE tells the job script to start the job again. */
void limit_requeue(Run *run, int64_t pause);

/* --- stages.c ------------------------------------------------------------------------------------------------------------- */

/* What run.debug asks for of the compiler, into the attempt's folder; NULL: nothing. */
const CompileWatch *stages_watch(const Run *run);
void stages_memory(const Run *run);
void stages_choices(const Run *run); /* those of run.tune, as choices.txt */

#endif
