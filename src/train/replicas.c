/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 8 }; /* ranks, in a message */

/* One value a rank, of those ranks that should have it alike. */
typedef struct Votes {
  const uint32_t *value;
  const bool *takes_part;
  int n;
} Votes;

/* What most ranks have; of values that as many have, the lowest rank's. */
static uint32_t majority(const Votes *v) {
  uint32_t best = 0;
  int most = 0;
  for (int r = 0; r < v->n; r++) {
    int votes = 0;
    for (int q = 0; q < v->n && v->takes_part[r]; q++) votes += v->takes_part[q] && v->value[q] == v->value[r];
    if (votes > most) most = votes, best = v->value[r];
  }
  return best;
}

/* How many ranks have something else than most, and which, in their order. */
static int dissent(const Votes *v, int *ranks) {
  int n = 0, first = 0, same = 0, part = 0;
  while (first < v->n && !v->takes_part[first]) first++;
  for (int r = first; r < v->n; r++) part += v->takes_part[r], same += v->takes_part[r] && v->value[r] == v->value[first];
  if (same == part) return 0;
  uint32_t right = majority(v);
  for (int r = 0; r < v->n; r++)
    if (v->takes_part[r] && v->value[r] != right) ranks[n++] = r;
  return n;
}

typedef struct Ranks {
  Engine *engine;
  Comm *comm;
  Arena *arena;
  const StateTable *states;
  const int *shard; /* by rank */
  int n;
} Ranks;

/* Those that hold what `by` says together with the ranks of a shard. */
static const bool *holders(const Ranks *r, StateHolders by, int shard) {
  bool *part = arena_array(r->arena, bool, r->n);
  for (int i = 0; i < r->n; i++) part[i] = by == HELD_BY_ALL || r->shard[i] == shard;
  return part;
}

/* Ranks whose values of a row, one a rank, are not their holders' majority's. */
static int find_dissent(const Ranks *r, StateHolders by, const uint32_t *value, int *ranks) {
  int n = 0, groups = by == HELD_BY_ALL ? 1 : r->states->shards;
  for (int s = 0; s < groups; s++) n += dissent(&(Votes){value, holders(r, by, s), r->n}, ranks + n);
  return n;
}

/* A row is a unit's: the first of its parameters that is not the same; NULL, with ranks as they were: only the padding is not. */
static const char *find_param(const Ranks *r, const ReplicaRow *row, int *ranks, int *n) {
  uint32_t *all = arena_array(r->arena, uint32_t, r->n);
  int *who = arena_array(r->arena, int, r->n);
  for (int p = 0; p < r->states->nparams; p++) {
    if (r->states->params[p].unit != row->row->unit) continue;
    uint32_t mine = engine_crc(r->engine, row->row->slot, p);
    comm_gather(r->comm, &mine, sizeof mine, all);
    int differ = find_dissent(r, row->by, all, who);
    if (!differ) continue;
    memcpy(ranks, who, sizeof *who * (size_t)(*n = differ));
    return r->states->params[p].name;
  }
  return NULL;
}

static void tell_ranks(const Ranks *r, const int *ranks, int n, Text *told) {
  for (int i = 0; i < n && i < NAMED; i++) {
    char name[128];
    snprintf(name, sizeof name, "%d (%s)", ranks[i], comm_node(r->comm));
    comm_any_reason(r->comm, comm_rank(r->comm) == ranks[i], name, sizeof name);
    text_printf(told, "%s%s", i ? ", " : n > 1 ? "ranks " : "rank ", name);
  }
  if (n > NAMED) text_printf(told, " and %d more", n - NAMED);
}

static void tell(const Ranks *r, const ReplicaRow *row, int *ranks, int n, int rows, Text *told) {
  static const char *const of[STATE_SLOTS] = {[SLOT_M] = "the first moment of ", [SLOT_V] = "the second moment of "};
  const char *slot = of[row->row->slot] ? of[row->row->slot] : "", *name = row->row->name;
  const char *param = row->row->unit < 0 ? NULL : find_param(r, row, ranks, &n);
  int held = row->by == HELD_BY_ALL ? r->n : r->states->replicas;
  tell_ranks(r, ranks, n, told);
  if (held == 2)
    text_printf(told, " and %s replica do not hold the same: ", n == 1 ? "its" : "their");
  else
    text_printf(told, " do%s not hold what most of %d replicas do: ", n == 1 ? "es" : "", held);
  text_printf(told, "%s%s", param ? slot : "", param ? param : name);
  if (rows > 1) text_printf(told, ", and more in %d other place%s", rows - 1, rows == 2 ? "" : "s");
}

bool replicas_agree(Engine *engine, Comm *comm, Text *told) {
  const uint32_t *mine = (const uint32_t *)engine_hashes(engine);
  if (!mine) return true;
  Arena *arena = arena_open();
  ReplicaRow *rows;
  int R = comm_size(comm), n = graph_replicated(engine_states(engine), arena, &rows), bad = 0, first = -1;
  int *shard = arena_array(arena, int, R), *ranks = arena_array(arena, int, R), *found = arena_array(arena, int, R), n_found = 0;
  uint32_t *all = arena_array(arena, uint32_t, n * R), *column = arena_array(arena, uint32_t, R);
  comm_gather(comm, mine, sizeof *mine * (size_t)n, all);
  comm_gather(comm, &(int){engine_rank(engine).shard}, sizeof *shard, shard);
  Ranks r = {engine, comm, arena, engine_states(engine), shard, R};
  for (int i = 0; i < n; i++) {
    for (int q = 0; q < R; q++) column[q] = all[q * n + i];
    int here = find_dissent(&r, rows[i].by, column, ranks);
    if (here && !bad++) first = i, n_found = here, memcpy(found, ranks, sizeof *found * (size_t)here);
  }
  if (bad) tell(&r, &rows[first], found, n_found, bad, told);
  arena_close(arena);
  return !bad;
}
