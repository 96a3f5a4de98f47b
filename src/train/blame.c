/* SPDX-License-Identifier: Apache-2.0 */
/* Who was first where a step's loss or gradient is not finite: a parameter already, or else one of the sequences, found by halves
 * with the others left out, whose loss or whose gradient went wrong first.  Gradients are made from the head down to the
 * embedding, the other way round than parameters are declared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/train/run.h"

/* In an attempt.  A search takes the time of some ten steps; where all steps go wrong, a look at what is there must do. */
enum { SEARCHES = 4 };

/* What one rank finds among the numbers of its parameters or gradients. */
typedef struct Find {
  int param;   /* which holds one that is not finite; -1: none */
  bool nan;    /* what it is */
  int largest; /* the parameter with the largest number of those that are */
  double largest_is;
} Find;

static void scan(void *self, int64_t first, int64_t n, const void *from) {
  (void)first;
  Find *f = self;
  const float *x = from;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) {
      f->nan = isnan(x[i]);
      f->param = 0;
      return;
    }
    f->largest_is = fmax(f->largest_is, fabs((double)x[i]));
  }
}

typedef enum Where { IN_PARAMETERS, IN_GRADIENTS } Where;

static void look_at(const Run *run, Where where, int p, Find *f) {
  const StateTable *states = engine_states(run->engine);
  int64_t first, n, at;
  int unit = states->params[p].unit;
  if (where == IN_GRADIENTS && states->units[unit].traits.frozen) return;
  if (!state_piece(states, p, engine_rank(run->engine), &first, &n, &at)) return;
  Find here = {.param = -1};
  if (where == IN_PARAMETERS)
    engine_get(run->engine, SLOT_PARAM, unit, at, n, scan, &here);
  else
    engine_get_grad(run->engine, unit, at, n, scan, &here);
  if (here.param >= 0) f->param = p, f->nan = here.nan;
  if (here.largest_is > f->largest_is) f->largest = p, f->largest_is = here.largest_is;
}

/* Of all ranks: the first in the order in which they are made, and of the ranks that have it the lowest. */
static Find look(const Run *run, Where where, int *rank) {
  int n = engine_states(run->engine)->nparams;
  Find mine = {.param = -1, .largest = -1}, *all = xmalloc(sizeof *all * (size_t)comm_size(run->comm)), found;
  for (int i = 0; i < n && mine.param < 0; i++) look_at(run, where, where == IN_GRADIENTS ? n - 1 - i : i, &mine);
  comm_gather(run->comm, &mine, sizeof mine, all);
  found = all[ *rank = 0];
  for (int r = 1; r < comm_size(run->comm); r++) {
    const Find *f = &all[r];
    bool before = where == IN_GRADIENTS ? f->param > found.param : f->param < found.param;
    if (f->param >= 0 && (found.param < 0 || before)) found.param = f->param, found.nan = f->nan, *rank = r;
    if (f->largest_is > found.largest_is) found.largest = f->largest, found.largest_is = f->largest_is;
  }
  free(all);
  return found;
}

/* The step's loss and norm with these sequences alone. */
static StepResult try_with(Run *run, int64_t step, int64_t first, int64_t end) {
  run_passes_of(run, step, first, end);
  return engine_look(run->engine, step);
}

static bool is_bad(const StepResult *r) { return r->tokens > 0 && !(isfinite(r->loss) && isfinite(r->grad_norm)); }

/* One that is bad by itself; -1: none is, only several together.  *alone: what it gives; its gradients are there. */
static int64_t find_sequence(Run *run, int64_t step, StepResult *alone) {
  int64_t first = 0, end = run->batch.sequences;
  while (end - first > 1) {
    int64_t middle = first + (end - first) / 2;
    StepResult half = try_with(run, step, first, middle);
    *(is_bad(&half) ? &end : &first) = middle;
  }
  *alone = try_with(run, step, first, end);
  return is_bad(alone) ? first : -1;
}

/* What a rank is called, in its own words, on all ranks. */
static const char *rank_name(const Run *run, int rank, char text[128]) {
  snprintf(text, 128, "rank %d (%s)", rank, comm_node(run->comm));
  comm_any_reason(run->comm, comm_rank(run->comm) == rank, text, 128);
  return text;
}

static const char *kind(bool nan) { return nan ? "nan" : "inf"; }

/* Behind passes of this sequence (-1: of all). */
static void tell_gradient(Run *run, int64_t sequence, const char *sample, char *text, size_t nbytes) {
  char name[128];
  int rank;
  Find f = look(run, IN_GRADIENTS, &rank);
  if (sequence >= 0) rank = run_rank_of(run, sequence);
  if (f.param < 0)
    snprintf(text, nbytes, "the gradient's norm overflows%s, largest number: %.3g in %s", sample, f.largest_is,
             f.largest < 0 ? "none" : engine_states(run->engine)->params[f.largest].name);
  else
    snprintf(text, nbytes, "%s first in %s gradient, %s%s%s", kind(f.nan), engine_states(run->engine)->params[f.param].name,
             sequence < 0 ? "seen by " : "", rank_name(run, rank, name), sample);
}

/* Large parameters are what makes a loss infinite. */
static void tell_loss(Run *run, int64_t sequence, const StepResult *alone, const Find *params, const char *sample, char *text,
                      size_t nbytes) {
  char name[128];
  const char *largest = params->largest < 0 ? "" : engine_states(run->engine)->params[params->largest].name;
  snprintf(text, nbytes, "%s first in the loss, %s%s; largest parameter: %.3g in %s", kind(isnan(alone->loss)),
           rank_name(run, run_rank_of(run, sequence), name), sample, params->largest_is, largest);
}

bool run_blame(Run *run, int64_t step, bool redo, char *text, size_t nbytes) {
  run_save_copied(run); /* looks write what is there again */
  char name[128], sample[256] = "";
  int rank;
  Find params = look(run, IN_PARAMETERS, &rank);
  if (params.param >= 0) {
    snprintf(text, nbytes, "%s in %s itself, %s", kind(params.nan), engine_states(run->engine)->params[params.param].name,
             rank_name(run, rank, name));
    return false;
  }
  StepResult alone;
  bool search = run->searches++ < SEARCHES;
  int64_t sequence = search ? find_sequence(run, step, &alone) : -1;
  if (sequence >= 0) {
    const char *source;
    int64_t which = run_sample(run, step, sequence, &source);
    snprintf(sample, sizeof sample, ", sample %lld%s%s", (long long)which, source ? " of " : "", source ? source : "");
  }
  if (sequence >= 0 && !isfinite(alone.loss)) {
    tell_loss(run, sequence, &alone, &params, sample, text, nbytes);
    return true;
  }
  if (sequence < 0 && (redo || search)) run_passes(run, step);
  tell_gradient(run, sequence, sample, text, nbytes);
  return redo || search;
}
