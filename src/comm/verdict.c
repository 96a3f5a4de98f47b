/* SPDX-License-Identifier: Apache-2.0 */
/* From what ranks tell to who holds up the others.
 *
 * All ranks come to the same collectives in the same order, so of those that wait in no collective the ones that have come to
 * fewer than somebody waits for are missing there.  A GPU tells only which collective it is in: who is in none is missing.
 * What ranks tell is of different moments, up to half a timeout apart: who has done something since is not to blame.
 * Somebody who said that it may take long (a save, a compilation) is excused for PATIENT times the timeout; where threads beside
 * the job are waited for, the ones that do something are to blame, not those that wait for them.  A rank that says nothing has been
 * stopped, or its node is gone. */
#include "src/comm/watch.h"

enum { NAMED = 8 };                /* missing ranks that are named */
static const double SILENT = 1.25; /* timeouts: whoever waits for that rank in a collective has the word before */

typedef struct Case {
  const Hearing *ranks;
  int n;
  double timeout;
  const Beat *first; /* who waits too long, for the earliest collective; NULL: nobody does */
  bool all_idle;     /* all wait for others' threads */
  bool idle_long;    /* somebody has for too long */
} Case;

static bool is_quiet(const Case *c, int r) { return c->ranks[r].silent > c->timeout / 2; }

static bool is_overdue(const Case *c, int r) {
  const Hearing *h = &c->ranks[r];
  if (h->silent > SILENT * c->timeout) return true;
  if (h->beat.waiting || h->beat.busy <= PATIENT * c->timeout) return false;
  return h->beat.idle ? c->all_idle : h->beat.patient || c->idle_long;
}

static void find_idle(Case *c) {
  c->all_idle = true;
  for (int r = 0; r < c->n; r++) {
    const Beat *b = &c->ranks[r].beat;
    c->all_idle &= b->idle;
    c->idle_long |= b->idle && b->busy > PATIENT * c->timeout;
  }
}

static bool goes_on(const Case *c, int r) { return c->ranks[r].beat.busy < c->timeout / 2; }

static const Beat *find_first(const Case *c) {
  const Beat *first = NULL;
  for (int r = 0; r < c->n; r++) {
    const Beat *b = &c->ranks[r].beat;
    if (!b->waiting || b->waited <= c->timeout || is_quiet(c, r)) continue;
    if (!first || b->waiting < first->waiting) first = b;
  }
  return first;
}

/* behind: those alone that have not come to the collective. */
static bool is_missing(const Case *c, int r, bool behind) {
  const Beat *b = &c->ranks[r].beat;
  if (b->idle && !c->all_idle && !is_quiet(c, r)) return false;
  if (is_overdue(c, r)) return true;
  if (!c->first) return false;
  if (is_quiet(c, r)) return true;
  return !b->waiting && (!behind || c->first->waiting == WAITS_ON_DEVICE || b->entered < c->first->waiting);
}

static int count_missing(const Case *c, bool behind, bool *blame) {
  int n = 0;
  for (int r = 0; r < c->n; r++) {
    if (!is_missing(c, r, behind)) continue;
    n++;
    *blame |= is_overdue(c, r) || is_quiet(c, r) || !(c->ranks[r].beat.patient || goes_on(c, r));
  }
  return n;
}

static void print_rank(const Case *c, int r, const char *node, const char *before, Text *out) {
  const Hearing *h = &c->ranks[r];
  const char *doing = *h->beat.doing ? h->beat.doing : h->beat.waiting ? h->beat.collective : "computing";
  text_printf(out, "\n   %s  rank %d (%s): ", before, r, node);
  if (is_quiet(c, r))
    text_printf(out, "not heard of for %.0f s; it was %s%s", h->silent, h->beat.waiting ? "in " : "", doing);
  else
    text_printf(out, "%s for %.0f s", doing, h->beat.busy);
}

static void print_missing(const Case *c, bool behind, const char (*nodes)[NODE_NAME], int missing, Text *out) {
  int told = 0;
  for (int r = 0; r < c->n && told < NAMED; r++)
    if (is_missing(c, r, behind)) print_rank(c, r, nodes[r], told++ ? "       " : "missing", out);
  if (missing > told) text_printf(out, "\n            and %d more", missing - told);
}

static void print_head(const Case *c, Text *out) {
  int waiting = 0;
  int64_t step = 0;
  for (int r = 0; r < c->n; r++) {
    waiting += c->ranks[r].beat.waiting && !is_quiet(c, r);
    step = step > c->ranks[r].beat.step ? step : c->ranks[r].beat.step;
  }
  if (c->first)
    text_printf(out, "hang: %d of %d ranks in %s", waiting, c->n, c->first->collective);
  else
    text_printf(out, "hang: not all of %d ranks go on", c->n);
  if (step) text_printf(out, ", step %lld", (long long)step);
  if (c->first) text_printf(out, ", %.0f s", c->first->waited);
}

static void print_help(const Case *c, Text *out) {
  bool quiet = false;
  for (int r = 0; r < c->n; r++) quiet |= is_quiet(c, r);
  text_printf(out, "\nhelp: see %s; the run resumes from its last checkpoint",
              quiet ? "whether that process is stopped and its node is well (ps, dmesg there)"
                    : "what holds it up there (file system, gdb -p); a longer health.timeout where it is only slow");
}

/* Nobody is missing: the network holds them up, or one of them waits in another. */
static void print_all(const Case *c, const char (*nodes)[NODE_NAME], Text *out) {
  print_head(c, out);
  text_printf(out, "\n   all ranks wait");
  for (int r = 0, told = 0; r < c->n && told < NAMED; r++)
    if (c->ranks[r].beat.waiting != c->first->waiting && ++told) print_rank(c, r, nodes[r], "elsewhere", out);
  text_printf(out, "\nhelp: see whether the network between their nodes works; the run resumes from its last checkpoint");
}

bool watch_judge(const Hearing *ranks, int n, const char (*nodes)[NODE_NAME], double timeout, Text *out) {
  Case c = {ranks, n, timeout, NULL, false, false};
  bool behind = true, blame = false;
  c.first = find_first(&c);
  find_idle(&c);
  bool all = c.first && c.first->waited > 2 * timeout;
  for (int r = 0; r < n; r++) all &= !goes_on(&c, r);
  int missing = count_missing(&c, behind, &blame);
  if (!missing) missing = count_missing(&c, behind = false, &blame);
  if (!missing && all) {
    print_all(&c, nodes, out);
    return true;
  }
  if (!missing || !blame) return false;
  print_head(&c, out);
  print_missing(&c, behind, nodes, missing, out);
  print_help(&c, out);
  return true;
}
