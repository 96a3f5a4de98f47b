/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU each rank of a node takes: one of its own, near the cores that its launcher bound it to.  A matching of ranks and
 * GPUs by augmenting paths (Kuhn), ranks in order and near GPUs first, so that all ranks work out the same one. */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/dev/dev.h"

/* --- dealing (arithmetic only) ------------------------------------------------------------------------------------------- */

enum { CARDS_MOST = 256 };

typedef struct Match {
  const DevSeat *seats;
  int n;                            /* ranks */
  const DevCard *cards[CARDS_MOST]; /* that any of them sees */
  int ncards, owner[CARDS_MOST];    /* rank; -1: free */
  bool tried[CARDS_MOST];
} Match;

static bool same_card(const DevCard *a, const DevCard *b) { return !memcmp(a->uuid, b->uuid, sizeof a->uuid); }

/* -1: more than there is room for, which no node has; such a card is nobody's. */
static int number_of(Match *m, const DevCard *card) {
  int i = 0;
  while (i < m->ncards && !same_card(m->cards[i], card)) i++;
  if (i == CARDS_MOST) return -1;
  if (i == m->ncards) {
    m->owner[i] = -1;
    m->cards[m->ncards++] = card;
  }
  return i;
}

static bool is_near(const DevSeat *seat, const DevCard *card) {
  return card->numa < 0 || card->numa > 63 || !seat->numa || (seat->numa >> card->numa & 1);
}

/* Rank r begins its search with its GPU number r: on a node that tells nothing, rank i takes GPU i. */
static bool try_take(Match *m, int r, bool far, bool may_move) {
  const DevSeat *seat = &m->seats[r];
  for (int step = 0; step < seat->n; step++) {
    const DevCard *card = &seat->cards[(r + step) % seat->n];
    int c = number_of(m, card);
    if (c < 0 || m->tried[c] || (!far && !is_near(seat, card)) || (!may_move && m->owner[c] >= 0)) continue;
    m->tried[c] = may_move;
    if (m->owner[c] >= 0 && !try_take(m, m->owner[c], far, true)) continue;
    m->owner[c] = r;
    return true;
  }
  return false;
}

static bool has_card(const Match *m, int r) {
  for (int c = 0; c < m->ncards; c++)
    if (m->owner[c] == r) return true;
  return false;
}

int seats_deal(const DevSeat *seats, int n, int me) {
  static const struct { bool far, may_move; } rounds[] = {{false, false}, {false, true}, {true, false}, {true, true}};
  Match m = {.seats = seats, .n = n};
  for (int r = 0; r < n; r++)
    for (int i = 0; i < seats[r].n; i++) number_of(&m, &seats[r].cards[i]);
  for (int round = 0; round < 4; round++)
    for (int r = 0; r < n; r++) {
      memset(m.tried, 0, sizeof m.tried);
      if (!has_card(&m, r) && !try_take(&m, r, rounds[round].far, rounds[round].may_move) && round == 3) return -1;
    }
  for (int i = 0; i < seats[me].n; i++) {
    int c = number_of(&m, &seats[me].cards[i]);
    if (c >= 0 && m.owner[c] == me) return i;
  }
  return -1;
}

int seats_cards(const DevSeat *seats, int n) {
  Match m = {.n = n};
  for (int r = 0; r < n; r++)
    for (int i = 0; i < seats[r].n; i++) number_of(&m, &seats[r].cards[i]);
  return m.ncards;
}

/* --- what the system says ------------------------------------------------------------------------------------------------- */

/* The CPUs of "0-15,64-79". */
static void list_read(const char *list, cpu_set_t *set) {
  CPU_ZERO(set);
  while (isdigit((unsigned char)*list)) {
    char *end;
    long from = strtol(list, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
    for (long cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++) CPU_SET((int)cpu, set);
    list = *end == ',' ? end + 1 : end;
  }
}

static bool node_read(int node, cpu_set_t *set) {
  char path[64];
  size_t n;
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
  char *list = file_read(path, &n);
  if (list) list_read(list, set);
  free(list);
  return list != NULL;
}

uint64_t seat_numa(void) {
  cpu_set_t mine, node, both;
  uint64_t nodes = 0;
  if (sched_getaffinity(0, sizeof mine, &mine)) return 0;
  for (int i = 0; i < 64; i++) {
    if (!node_read(i, &node)) continue;
    CPU_AND(&both, &mine, &node);
    if (CPU_COUNT(&both)) nodes |= (uint64_t)1 << i;
  }
  return nodes;
}

int seat_stay_near(int numa, int threads) {
  cpu_set_t mine, node;
  if (numa < 0 || sched_getaffinity(0, sizeof mine, &mine) || !node_read(numa, &node)) return threads;
  int before = CPU_COUNT(&mine);
  CPU_AND(&mine, &mine, &node);
  int after = CPU_COUNT(&mine);
  if (!after || after == before || sched_setaffinity(0, sizeof mine, &mine)) return threads;
  return threads * after / before > 1 ? threads * after / before : 1;
}
