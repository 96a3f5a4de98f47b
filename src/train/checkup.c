/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/checkup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/comm/comm.h"
#include "src/report/human.h"

/* share: of the bound, where even well ranks differ; shared: ranks have it together. */
static const struct {
  const char *name;
  bool flops, shared;
  double share;
} rows[CHECK_RATES] = {[CHECK_PRODUCTS] = {"products", true, false, 1},    [CHECK_MEMORY] = {"memory", false, false, 1},
                       [CHECK_TO_GPU] = {"host to GPU", false, false, 1},  [CHECK_FROM_GPU] = {"GPU to host", false, false, 1},
                       [CHECK_HOST] = {"host memory", false, false, 1},    [CHECK_WRITE] = {"files, writing", false, true, 0.5},
                       [CHECK_READ] = {"files, reading", false, true, 0.5}};

/* Ranks of one node, or of two. */
enum { NEAR, FAR, WAYS };
static const char *const link_names[WAYS] = {"pairs on a node", "pairs of nodes"};

/* --- values ------------------------------------------------------------------------------------------------------------------- */

typedef struct Values {
  double *at; /* of all ranks' (and rounds'); what was not measured is left out */
  int n;
} Values;

static Values values_open(int most) { return (Values){.at = xmalloc(sizeof(double) * (size_t)(most > 0 ? most : 1))}; }

static void values_add(Values *v, double value) {
  if (value > 0) v->at[v->n++] = value;
}

static int compare(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* 0: there are none. */
static double median_take(Values *v) {
  qsort(v->at, (size_t)v->n, sizeof *v->at, compare);
  double median = v->n ? v->at[v->n / 2] : 0;
  free(v->at);
  return median;
}

static double rate_median(const Checkup *all, int n, CheckRate rate) {
  Values v = values_open(n);
  for (int r = 0; r < n; r++) values_add(&v, all[r].rates[rate]);
  return median_take(&v);
}

/* NEAR or FAR; -1: no partner. */
static int way_of(const Checkup *all, int n, int r, int round) {
  int partner = comm_partner(n, r, round);
  return partner < 0 ? -1 : strcmp(all[r].node, all[partner].node) ? FAR : NEAR;
}

/* round -1: of all rounds. */
static double link_median(const Checkup *all, int n, int rounds, int round, int way) {
  Values v = values_open(n * rounds);
  for (int k = 0; k < rounds; k++)
    for (int r = 0; r < n && (round < 0 || k == round); r++)
      if (way_of(all, n, r, k) == way) values_add(&v, all[r].links[k]);
  return median_take(&v);
}

/* --- the table ---------------------------------------------------------------------------------------------------------------- */

static const char *tell_rate(bool flops, double rate, char out[HUMAN_TEXT + 8]) {
  char text[HUMAN_TEXT];
  snprintf(out, HUMAN_TEXT + 8, "%s%s", flops ? human_rate(rate, text) : human_bytes(rate, text), flops ? " FLOP/s" : "/s");
  return out;
}

static void print_who(const Checkup *all, int r, Text *out) {
  text_printf(out, "rank %d (%s", r, all[r].node);
  if (all[r].sensors.gpu >= 0) text_printf(out, " GPU %d", all[r].sensors.gpu);
  text_printf(out, ")");
}

/* The median and the least; of a rank alone what there is. */
static void print_row(const Checkup *all, int n, const char *name, bool flops, double median, double least, int who, Text *out) {
  char text[HUMAN_TEXT + 8];
  text_printf(out, "rate   %-16s %14s", name, tell_rate(flops, median, text));
  if (n > 1) {
    text_printf(out, " median, %14s least: ", tell_rate(flops, least, text));
    print_who(all, who, out);
  }
}

static void print_rate(const Checkup *all, int n, CheckRate rate, Text *out) {
  char text[HUMAN_TEXT + 8];
  double total = 0;
  int who = -1;
  for (int r = 0; r < n; r++) {
    double x = all[r].rates[rate];
    total += x;
    if (x > 0 && (who < 0 || x < all[who].rates[rate])) who = r;
  }
  if (who < 0) return;
  print_row(all, n, rows[rate].name, rows[rate].flops, rate_median(all, n, rate), all[who].rates[rate], who, out);
  if (rows[rate].shared && n > 1) text_printf(out, "; %s together", tell_rate(false, total, text));
  text_printf(out, "\n");
}

static void print_links(const Checkup *all, int n, int rounds, int way, Text *out) {
  int who = -1, when = 0;
  for (int k = 0; k < rounds; k++)
    for (int r = 0; r < n; r++) {
      if (way_of(all, n, r, k) != way || (who >= 0 && all[r].links[k] >= all[who].links[when])) continue;
      who = r;
      when = k;
    }
  if (who < 0) return;
  print_row(all, n, link_names[way], false, link_median(all, n, rounds, -1, way), all[who].links[when], who, out);
  text_printf(out, "\n");
}

static void print_sensors(const Checkup *all, int n, Text *out) {
  double least = 0, most = 0;
  int64_t corrected = -1, uncorrected = -1;
  for (int r = 0; r < n; r++) {
    const DevSensors *s = &all[r].sensors;
    if (s->mhz > 0 && (!least || s->mhz < least)) least = s->mhz;
    most = s->mhz > most ? s->mhz : most;
    if (s->corrected >= 0) corrected = (corrected < 0 ? 0 : corrected) + s->corrected;
    if (s->uncorrected >= 0) uncorrected = (uncorrected < 0 ? 0 : uncorrected) + s->uncorrected;
  }
  if (most > 0) text_printf(out, "clock  %.0f", least);
  if (most > least) text_printf(out, " to %.0f", most);
  if (most > 0) text_printf(out, " MHz at work\n");
  if (corrected >= 0 && uncorrected >= 0)
    text_printf(out, "ecc    %lld errors of memory corrected, %lld not\n", (long long)corrected, (long long)uncorrected);
}

void checkup_print(const Checkup *all, int n, int rounds, Text *out) {
  for (int i = 0; i < CHECK_RATES; i++) print_rate(all, n, (CheckRate)i, out);
  for (int way = 0; way < WAYS; way++) print_links(all, n, rounds, way, out);
  print_sensors(all, n, out);
}

/* --- who is sick -------------------------------------------------------------------------------------------------------------- */

typedef struct Case {
  const Checkup *all;
  int n, rounds;
  double bound, rates[CHECK_RATES], links[CHECK_ROUNDS][WAYS]; /* below these a rank is slow */
} Case;

static bool is_slow(const Case *c, int r, int round) {
  int way = way_of(c->all, c->n, r, round);
  return way >= 0 && c->all[r].links[round] < c->links[round][way];
}

/* With all its partners: it is the rank that is slow, not they. */
static bool is_slow_with_all(const Case *c, int r) {
  int met = 0, slow = 0;
  for (int k = 0; k < c->rounds; k++) {
    met += comm_partner(c->n, r, k) >= 0;
    slow += is_slow(c, r, k);
  }
  return met > 1 && slow == met;
}

static void add_share(Text *out, const char *name, bool flops, double value, double median) {
  char text[HUMAN_TEXT + 8];
  text_printf(out, "%s%s %s, %.0f %% of the median", out->n ? "; " : "", name, tell_rate(flops, value, text), 100 * value / median);
}

static void add_links(const Case *c, int r, Text *out) {
  for (int way = 0; way < WAYS; way++) {
    int worst = -1;
    for (int k = 0; k < c->rounds; k++)
      if (way_of(c->all, c->n, r, k) == way && (worst < 0 || c->all[r].links[k] < c->all[r].links[worst])) worst = k;
    if (worst >= 0) add_share(out, link_names[way], false, c->all[r].links[worst], c->links[worst][way] / c->bound);
  }
}

/* What a rank has; "" when it is well. */
static void find_ills(const Case *c, int r, Text *out) {
  const Checkup *me = &c->all[r];
  const DevSensors *s = &me->sensors;
  for (int i = 0; i < CHECK_RATES; i++)
    if (me->rates[i] > 0 && me->rates[i] < c->rates[i])
      add_share(out, rows[i].name, rows[i].flops, me->rates[i], c->rates[i] / (c->bound * rows[i].share));
  if (is_slow_with_all(c, r)) add_links(c, r, out);
  if (s->uncorrected > 0)
    text_printf(out, "%s%lld errors of its memory that could not be corrected", out->n ? "; " : "", (long long)s->uncorrected);
  if (s->worn) text_printf(out, "%srows of its memory wait to be replaced, or could not be", out->n ? "; " : "");
  if (!out->n) return;
  if (s->mhz > 0) text_printf(out, "; clock %.0f", s->mhz);
  if (s->mhz > 0 && s->mhz_most > 0) text_printf(out, " of %.0f", s->mhz_most);
  if (s->mhz > 0) text_printf(out, " MHz");
  if (*s->slowed) text_printf(out, ", held down by %s", s->slowed);
}

static void add_node(Text *nodes, const char *node) {
  size_t n = strlen(node);
  for (const char *at = nodes->n ? nodes->at : ""; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == n && !strncmp(at, node, n)) return;
  text_printf(nodes, "%s%s", nodes->n ? "," : "", node);
}

static int judge_ranks(const Case *c, Text *out, Text *nodes) {
  int sick = 0;
  for (int r = 0; r < c->n; r++) {
    Text ills = {0};
    find_ills(c, r, &ills);
    if (ills.n) {
      sick++;
      print_who(c->all, r, out);
      text_printf(out, ": %s\n", ills.at);
      add_node(nodes, c->all[r].node);
    }
    text_close(&ills);
  }
  return sick;
}

static int judge_pairs(const Case *c, Text *out, Text *nodes) {
  int sick = 0;
  for (int k = 0; k < c->rounds; k++)
    for (int r = 0; r < c->n; r++) {
      int partner = comm_partner(c->n, r, k);
      if (partner < r || !is_slow(c, r, k) || is_slow_with_all(c, r) || is_slow_with_all(c, partner)) continue;
      Text share = {0};
      int way = way_of(c->all, c->n, r, k);
      add_share(&share, link_names[way], false, c->all[r].links[k], c->links[k][way] / c->bound);
      sick++;
      print_who(c->all, r, out);
      text_printf(out, " and ");
      print_who(c->all, partner, out);
      text_printf(out, ": %s\n", share.at);
      add_node(nodes, c->all[r].node);
      add_node(nodes, c->all[partner].node);
      text_close(&share);
    }
  return sick;
}

int checkup_judge(const Checkup *all, int n, int rounds, double bound, Text *out, Text *nodes) {
  CHECK(rounds <= CHECK_ROUNDS);
  Case c = {.all = all, .n = n, .rounds = rounds, .bound = bound};
  for (int i = 0; i < CHECK_RATES; i++) c.rates[i] = bound * rows[i].share * rate_median(all, n, (CheckRate)i);
  for (int k = 0; k < rounds; k++)
    for (int way = 0; way < WAYS; way++) c.links[k][way] = bound * link_median(all, n, rounds, k, way);
  int ranks = judge_ranks(&c, out, nodes);
  return ranks + judge_pairs(&c, out, nodes);
}
