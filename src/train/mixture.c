/* SPDX-License-Identifier: Apache-2.0 */
/* Turn j of a source with a turns in a period of Q must come from number jQ/a (rounded down) on and before (j+1)Q/a (rounded up).
 * Of those that may come the one that must come soonest is taken.  That all can be kept is the theorem of Baruah, Cohen, Plaxton
 * and Varvel, "Proportionate progress: a notion of fairness in resource allocation", Algorithmica 15 (1996); that taking the
 * soonest keeps them, for one turn at a time, is Horn's (1974). */
#include "src/train/mixture.h"

#include <math.h>

#include "src/base/fail.h"

/* --- shares ------------------------------------------------------------------------------------------------------------- */

static double total(const double *weights, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += weights[i];
  return sum;
}

/* So near to whole that what is left is the weights' own rounding. */
static bool is_whole(double turns) { return turns > 0.5 && fabs(turns - nearbyint(turns)) < 1e-9; }

static int32_t find_period(const double *weights, int n, double sum) {
  for (int32_t Q = 1; Q < MIXTURE_PERIOD; Q++) {
    int i = 0;
    while (i < n && is_whole(weights[i] / sum * Q)) i++;
    if (i == n) return Q;
  }
  return MIXTURE_PERIOD;
}

/* Rounded, but nobody goes without; what the sum then has too much or too little goes, a turn each, to those whom it brings nearest
 * to their weight. */
static void share_out(const double *weights, int n, double sum, int32_t Q, int32_t *share) {
  int64_t left = Q;
  for (int i = 0; i < n; i++) left -= share[i] = (int32_t)fmax(1, nearbyint(weights[i] / sum * Q));
  for (int step = left > 0 ? 1 : -1; left; left -= step) {
    int best = -1;
    for (int i = 0; i < n; i++) {
      double lacks = step * (weights[i] / sum * Q - share[i]);
      if (share[i] + step > 0 && (best < 0 || lacks > step * (weights[best] / sum * Q - share[best]))) best = i;
    }
    share[best] += step;
  }
}

/* --- turns -------------------------------------------------------------------------------------------------------------- */

/* A source's next turn. */
typedef struct Next {
  int64_t from, before;
  int32_t turn;
} Next;

static Next next_of(int32_t turn, int32_t share, int32_t Q) {
  int64_t j = turn;
  return (Next){j * Q / share, ((j + 1) * Q + share - 1) / share, turn};
}

static MixtureTurn *take_turns(Arena *arena, const int32_t *share, int n, int32_t Q) {
  MixtureTurn *turns = arena_array(arena, MixtureTurn, Q);
  Next *next = arena_array(arena, Next, n);
  for (int i = 0; i < n; i++) next[i] = next_of(0, share[i], Q);
  for (int32_t t = 0; t < Q; t++) {
    int best = -1;
    for (int i = 0; i < n; i++)
      if (next[i].from <= t && (best < 0 || next[i].before < next[best].before)) best = i;
    CHECK(best >= 0 && t < next[best].before);
    turns[t] = (MixtureTurn){best, next[best].turn};
    next[best] = next_of(next[best].turn + 1, share[best], Q);
  }
  return turns;
}

bool try_mixture_make(Arena *arena, const double *weights, int n, Mixture *m, int *small) {
  CHECK(n > 0);
  double sum = total(weights, n);
  for (*small = 0; *small < n; ++*small)
    if (!(weights[*small] / sum * MIXTURE_PERIOD >= 0.5)) return false;
  int32_t Q = find_period(weights, n, sum), *share = arena_array(arena, int32_t, n);
  share_out(weights, n, sum, Q, share);
  *m = (Mixture){n, Q, share, take_turns(arena, share, n, Q)};
  return true;
}

/* --- numbers ------------------------------------------------------------------------------------------------------------ */

int mixture_source(const Mixture *m, int64_t number, int64_t *own) {
  const MixtureTurn *turn = &m->turn[number % m->period];
  *own = number / m->period * m->share[turn->source] + turn->before;
  return turn->source;
}

int64_t mixture_number(const Mixture *m, int source, int64_t own) {
  int64_t before = own % m->share[source];
  int32_t t = 0;
  while (m->turn[t].source != source || m->turn[t].before != before) t++;
  return own / m->share[source] * m->period + t;
}
