/* SPDX-License-Identifier: Apache-2.0 */
/* Which other settings are tried: those that may make a run fit, and those that may make it faster. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cmd/plan.h"
#include "src/report/human.h"

enum { MICROS = 8, RANKS_TIMES = 4 };

typedef struct Trials {
  Arena *arena;
  VEC(Trial) at;
} Trials;

static const char *word(Arena *arena, const char *key, const char *value) { return arena_printf(arena, "%s=%s", key, value); }

static const char *micro_word(Arena *arena, int64_t micro) { return arena_printf(arena, "train.micro_batch_size=%" PRId64, micro); }

static const char *value_of(const char *word) { return strchr(word, '=') + 1; }

/* What needs a number is no setting to try. */
static bool is_plain(const char *choice) { return strcmp(choice, "auto") != 0; }

/* Micro-batches that a rank's share of the batch divides into: powers of two. */
static int micros(const Prospect *p, int64_t out[MICROS]) {
  int64_t share = p->batch.sequences / p->site.ranks;
  int n = 0;
  for (int64_t m = 1; n < MICROS && share % m == 0; m *= 2) out[n++] = m;
  return n;
}

/* --- suggestions -------------------------------------------------------------------------------------------------------------- */

enum {
  STATES = 1 << MEMORY_GRADIENTS | 1 << MEMORY_PARAMETERS | 1 << MEMORY_MOMENTS | 1 << MEMORY_GATHERED,
  VALUES = 1 << MEMORY_ACTIVATIONS | 1 << MEMORY_WORKSPACE
};

/* What may need less, and the classes of memory, by bits, of which it can save. */
static const struct {
  const char *word; /* NULL: offload, besides what is */
  int classes, offload;
  const char *price; /* besides time; NULL: none */
} changes[] = {
    {"memory.recompute=auto", VALUES},
    {"memory.recompute=cheap", VALUES},
    {"memory.recompute=block", VALUES},
    {"gpu.attention=cudnn-fast", 1 << MEMORY_WORKSPACE, .price = "other bits in every run"},
    {NULL, VALUES, OFFLOADED_INPUTS},
    {"parallel.strategy=shard_opt", STATES},
    {"parallel.strategy=shard_grad_op", STATES},
    {"parallel.strategy=hybrid_shard", STATES},
    {"parallel.strategy=full_shard", STATES},
    {"parallel.accumulate=shard", 1 << MEMORY_GRADIENTS},
    {"parallel.units_alive=1", 1 << MEMORY_GATHERED},
    {"precision.moments=bf16", 1 << MEMORY_MOMENTS},
    {NULL, 1 << MEMORY_MOMENTS, OFFLOADED_MOMENTS},
    {NULL, 1 << MEMORY_MOMENTS | 1 << MEMORY_PARAMETERS, OFFLOADED_MOMENTS | OFFLOADED_MASTERS},
    {NULL, STATES, OFFLOADED_MOMENTS | OFFLOADED_MASTERS | OFFLOADED_GRADIENTS},
    {NULL, STATES | VALUES, OFFLOADED_MOMENTS | OFFLOADED_MASTERS | OFFLOADED_GRADIENTS | OFFLOADED_INPUTS},
};

/* All that is offloaded then; only bf16 has masters. */
static int offloaded(const Prospect *p, int more) {
  int has_not = p->config->precision.compute == PRECISION_BF16 ? 0 : OFFLOADED_MASTERS;
  return (p->config->memory.offload | more) & ~has_not;
}

static const char *offload_word(const Prospect *p, int what) {
  const char *const *names = config_choices("memory.offload"), *word = "memory.offload=[", *between = "";
  for (int i = 0; names[i]; i++) {
    if (!(what >> i & 1)) continue;
    word = arena_printf(p->arena, "%s%s%s", word, between, names[i]);
    between = ",";
  }
  return arena_printf(p->arena, "%s]", word);
}

/* What is held in these classes is no small part of what is missing. */
static bool may_help(const Prospect *p, int classes) {
  enum { PARTS = 16 };
  double held = 0;
  for (int k = 0; k < MEMORY_CLASSES; k++)
    if (classes >> k & 1) held += (double)p->memory->by_class[k];
  return held * PARTS > prospect_short(p);
}

/* Whether the run says so already, or saves as much by other words. */
static bool is_done(const Prospect *p, const char *word) {
  const Config *c = p->config;
  const struct {
    const char *word;
    bool done;
  } states[] = {
      {"memory.recompute=auto", c->memory.recompute.choice >= RECOMPUTE_BLOCK},
      {"memory.recompute=cheap", c->memory.recompute.choice != RECOMPUTE_NONE},
      {"memory.recompute=block", c->memory.recompute.choice >= RECOMPUTE_BLOCK},
      {"gpu.attention=", c->gpu.attention == ATTENTION_CUDNN_FAST || c->gpu.attention == ATTENTION_PLAIN},
      {"parallel.strategy=", c->parallel.strategy == STRATEGY_FULL_SHARD || p->site.ranks == 1},
      {"parallel.accumulate=", c->parallel.accumulate == ACCUMULATE_SHARD || p->batch.passes == 1},
      {"parallel.units_alive=", c->parallel.units_alive == 1},
      {"precision.moments=", c->precision.moments != PRECISION_FP32},
  };
  for (size_t i = 0; i < sizeof states / sizeof *states; i++)
    if (!strncmp(word, states[i].word, strlen(states[i].word))) return states[i].done;
  return false;
}

static void add_change(Trials *t, const char *word, int ranks) {
  vec_push(t->arena, &t->at, (Trial){.words = {word}, .ranks = ranks});
}

static void add_changes(Trials *t, const Prospect *p) {
  int64_t micro[MICROS];
  int before = 0;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *change = changes[i].word;
    int what = change ? 0 : offloaded(p, changes[i].offload);
    bool done = change ? is_done(p, change) : what == before || what == p->config->memory.offload;
    if (!change) before = what;
    if (!done && may_help(p, changes[i].classes)) add_change(t, change ? change : offload_word(p, what), 0);
  }
  for (int i = 0, n = micros(p, micro); i < n; i++)
    if (micro[i] < p->batch.micro) add_change(t, micro_word(t->arena, micro[i]), 0);
  for (int times = 2; times <= RANKS_TIMES && may_help(p, STATES); times *= 2) add_change(t, NULL, times * p->site.ranks);
}

static void run_each(Trials *t, const PlanWords *words, int first) {
  TrialChain *chains = arena_array(t->arena, TrialChain, t->at.n - first);
  for (int i = first; i < t->at.n; i++) chains[i - first] = (TrialChain){&t->at.at[i], 1};
  trials_run(t->arena, words, chains, t->at.n - first);
}

/* Fitting ones first, then the faster, then the smaller. */
static int by_use(const void *a, const void *b) {
  const Trial *x = a, *y = b;
  if ((x->missing > 0) != (y->missing > 0)) return x->missing > 0 ? 1 : -1;
  if (x->missing == 0 && x->tokens != y->tokens && !isnan(x->tokens) && !isnan(y->tokens)) return x->tokens < y->tokens ? 1 : -1;
  return x->nbytes < y->nbytes ? -1 : x->nbytes > y->nbytes;
}

static bool same_key(const char *a, const char *b) { return strcspn(a, "=") == strcspn(b, "=") && !strncmp(a, b, strcspn(a, "=")); }

/* The most helpful changes by twos. */
static void add_pairs(Trials *t, int singles) {
  enum { PAIRS = 24 };
  for (int i = 0; i < singles; i++)
    for (int k = 0; k < i && t->at.n < singles + PAIRS; k++) {
      const Trial a = t->at.at[i], b = t->at.at[k];
      if (!a.ranks && !b.ranks && !same_key(a.words[0], b.words[0]))
        vec_push(t->arena, &t->at, (Trial){.words = {a.words[0], b.words[0]}});
    }
}

/* The best of each key all together, on as many ranks and on more. */
static void add_all(Trials *t, int singles, int ranks) {
  Trial sum = {0};
  int n = 0;
  for (int i = 0; i < singles && n < TRIAL_WORDS; i++) {
    const char *change = t->at.at[i].words[0];
    bool set = !change;
    for (int k = 0; k < n && !set; k++) set = same_key(sum.words[k], change);
    if (!set) sum.words[n++] = change;
  }
  if (n > 2) vec_push(t->arena, &t->at, sum);
  for (int times = 2; n && times <= RANKS_TIMES; times *= 2) {
    sum.ranks = times * ranks;
    vec_push(t->arena, &t->at, sum);
  }
}

/* Drops what cannot be and what does not help. */
static void keep_helpful(Trials *t, double nbytes) {
  enum { LEAST = 1 << 20 };
  int n = 0;
  for (int i = 0; i < t->at.n; i++)
    if (t->at.at[i].known && t->at.at[i].nbytes < nbytes - LEAST) t->at.at[n++] = t->at.at[i];
  t->at.n = n;
  if (n) qsort(t->at.at, (size_t)n, sizeof *t->at.at, by_use);
}

static const char *price_of(const char *word) {
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
    if (changes[i].word && !strcmp(changes[i].word, word)) return changes[i].price;
  return NULL;
}

static void print_change(const Prospect *p, const Trial *t, bool first) {
  char less[HUMAN_TEXT], missing[HUMAN_TEXT];
  Text what = {0};
  for (int k = 0; k < TRIAL_WORDS && t->words[k]; k++) text_printf(&what, "%s%s", k ? " " : "", t->words[k]);
  if (t->ranks) text_printf(&what, "%s--ranks %d", what.n ? " " : "", t->ranks);
  double slower = prospect_tokens(p) / p->site.ranks / t->tokens - 1;
  printf("%s %-34s %s less", first ? "help  " : "      ", what.at, plan_amount(less, prospect_bytes(p) - t->nbytes));
  if (fabs(slower) < 5e-4)
    printf(", as fast");
  else if (!isnan(slower))
    printf(", %.1f %% %s", 100 * fabs(slower), slower < 0 ? "faster" : "slower");
  if (t->missing > 0) printf(", still %s short", plan_amount(missing, t->missing));
  for (int k = 0; k < TRIAL_WORDS && t->words[k]; k++)
    if (price_of(t->words[k])) printf(", %s", price_of(t->words[k]));
  if (*t->left_out) printf(", without %s", t->left_out);
  printf("\n");
  text_close(&what);
}

enum { SHOWN = 5 };

static bool any_fits(const Trials *t) { return t->at.n && t->at.at[0].missing == 0; }

/* What will be shown, as the run's own words make it: auto may forget less than block. */
static void confirm(Trials *t, const PlanWords *asked, double nbytes) {
  int fitting = 0;
  while (fitting < t->at.n && fitting < SHOWN && t->at.at[fitting].missing == 0) fitting++;
  t->at.n = fitting;
  run_each(t, asked, 0);
  keep_helpful(t, nbytes);
}

void plan_suggest(const Prospect *p, const PlanWords *words, const PlanWords *asked) {
  Trials t = {.arena = p->arena};
  fflush(stdout);
  add_changes(&t, p);
  run_each(&t, words, 0);
  keep_helpful(&t, prospect_bytes(p));
  if (t.at.n && !any_fits(&t)) {
    int singles = t.at.n;
    add_pairs(&t, singles);
    add_all(&t, singles, words->ranks);
    run_each(&t, words, singles);
    keep_helpful(&t, prospect_bytes(p));
  }
  if (words->argv != asked->argv && any_fits(&t)) confirm(&t, asked, prospect_bytes(p));
  bool fits = any_fits(&t);
  int n = 0;
  for (int i = 0; i < t.at.n && n < SHOWN && (!fits || t.at.at[i].missing == 0); i++) print_change(p, &t.at.at[i], n++ == 0);
  if (!fits) printf("%s a smaller model, or more ranks\n", n ? "      " : "help  ");
}

/* --- sweep -------------------------------------------------------------------------------------------------------------------- */

/* Of a chain: the fastest that fits (nobody knows how fast: the largest); else the one that does not; else the one that cannot be.
 */
static const Trial *best_of(const TrialChain *chain) {
  const Trial *best = &chain->at[0];
  for (int i = 1; i < chain->n; i++) {
    const Trial *t = &chain->at[i];
    if (t->known && t->missing == 0 && !(t->tokens < best->tokens)) best = t;
  }
  return best;
}

static void print_row(const Trial *t, bool best) {
  char gib[HUMAN_TEXT], rate[HUMAN_TEXT];
  printf("  %-14s %-9s", value_of(t->words[0]), value_of(t->words[1]));
  if (!t->known) {
    printf(" %5s  %s\n", "-", t->why);
    return;
  }
  printf(" %5" PRId64 " %10s", t->micro, plan_amount(gib, t->nbytes));
  if (t->missing > 0)
    printf("  %9s short", plan_amount(gib, t->missing));
  else
    printf("  %9s%s", human_count(t->tokens, rate), best ? "  best" : "");
  printf("%s%s\n", *t->left_out ? "  without " : "", t->left_out);
}

static int by_rank(const void *a, const void *b) {
  const Trial *x = a, *y = b;
  if (x->known != y->known) return x->known ? -1 : 1;
  return by_use(a, b);
}

void plan_sweep(const Prospect *p, const PlanWords *words) {
  Trials rows = {.arena = p->arena};
  VEC(TrialChain) chains = {0};
  int64_t micro[MICROS];
  int n = micros(p, micro);
  fflush(stdout);
  for (const char *const *strategy = config_choices("parallel.strategy"); *strategy; strategy++) {
    if (p->site.ranks == 1 && strategy != config_choices("parallel.strategy")) break; /* alone, all are one */
    for (const char *const *recompute = config_choices("memory.recompute"); *recompute; recompute++) {
      if (!is_plain(*recompute)) continue;
      Trial *at = arena_array(p->arena, Trial, n);
      for (int i = 0; i < n; i++)
        at[i] = (Trial){.words = {word(p->arena, "parallel.strategy", *strategy), word(p->arena, "memory.recompute", *recompute),
                                  micro_word(p->arena, micro[i])}};
      vec_push(p->arena, &chains, (TrialChain){at, n});
    }
  }
  trials_run(p->arena, words, chains.at, chains.n);
  for (int i = 0; i < chains.n; i++) vec_push(p->arena, &rows.at, *best_of(&chains.at[i]));
  qsort(rows.at.at, (size_t)rows.at.n, sizeof *rows.at.at, by_rank);
  printf("  strategy       recompute micro     memory  tok/s/GPU\n");
  for (int i = 0; i < rows.at.n; i++) print_row(&rows.at.at[i], i == 0 && rows.at.at[0].tokens > 0);
}
