/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/twice.h"

#include <stdio.h>
#include <string.h>

struct Twice {
  Engine *engine;
  Comm *comm;
  uint32_t *before, *now; /* of this rank's part of each gradient */
  int *ranks;             /* a word of each */
  int64_t equal, steps;
};

Twice *twice_open(Arena *arena, Engine *engine, Comm *comm) {
  Twice *t = arena_new(arena, Twice);
  int n = engine_states(engine)->nparams;
  *t = (Twice){.engine = engine, .comm = comm};
  t->before = arena_array(arena, uint32_t, n);
  t->now = arena_array(arena, uint32_t, n);
  t->ranks = arena_array(arena, int, comm_size(comm));
  return t;
}

static StepResult look(Twice *t, int64_t step, uint32_t *hash) {
  StepResult result = engine_look(t->engine, step);
  for (int p = 0; p < engine_states(t->engine)->nparams; p++) hash[p] = engine_grad_crc(t->engine, p);
  return result;
}

/* The first gradient that differs, in the order in which they are made, and the lowest rank that has it; -1: none does. */
static int find_gradient(const Twice *t, int *rank) {
  int mine = engine_states(t->engine)->nparams - 1, found = -1, *all = t->ranks;
  while (mine >= 0 && t->before[mine] == t->now[mine]) mine--;
  comm_gather(t->comm, &mine, sizeof mine, all);
  for (int r = 0; r < comm_size(t->comm); r++)
    if (all[r] > found) found = all[ *rank = r];
  return found;
}

static bool same(double a, double b) { return !memcmp(&a, &b, sizeof a); }

static void tell_number(const char *what, double a, double b, Text *told) {
  char first[NUM_TEXT], second[NUM_TEXT];
  if (!same(a, b)) text_printf(told, "%s%s %s, then %s", told->n ? "; " : "", what, num_double(a, first), num_double(b, second));
}

bool twice_step(Twice *t, int64_t step, void (*passes)(void *self), void *self, Text *told) {
  int rank = 0;
  passes(self);
  StepResult a = look(t, step, t->before);
  passes(self);
  StepResult b = look(t, step, t->now);
  int param = find_gradient(t, &rank);
  tell_number("loss", a.loss, b.loss, told);
  tell_number("gradient norm", a.grad_norm, b.grad_norm, told);
  char where[128];
  snprintf(where, sizeof where, "rank %d (%s)", rank, comm_node(t->comm));
  comm_any_reason(t->comm, comm_rank(t->comm) == rank, where, sizeof where);
  if (param >= 0)
    text_printf(told, "%sgradients differ first in %s, %s", told->n ? "; " : "", engine_states(t->engine)->params[param].name,
                where);
  t->steps++;
  t->equal += !told->n;
  return !told->n;
}

void twice_count(const Twice *t, int64_t *equal, int64_t *steps) {
  *equal = t->equal;
  *steps = t->steps;
}
