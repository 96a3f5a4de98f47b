/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/rng.h"

/* SHORTEST: lengths of programs are this or more, so that few are ever compiled.  WINDOW: ids before one on which its text depends.
 */
enum { SHORTEST = 64, WINDOW = 16 };

const char *const decode_end_names[DECODE_ENDS] = {
    [DECODE_OPEN] = "open", [DECODE_TOKENS] = "tokens", [DECODE_END] = "end", [DECODE_STOP] = "stop"};

typedef struct Decoder {
  Engine *engine;
  const Tokenizer *tokenizer;
  const DecodeOptions *o;
  Utterance *all;
  int64_t n, waiting; /* waiting: the first that has no slot yet */
  Rng *draws;         /* by utterance */
  Utterance **slot;   /* NULL: free */
  int32_t *next, *at; /* by slot: the id that was picked last, and its position */
  int64_t *room;      /* by slot: positions that it is turned for */
  int32_t *picked;
  Text scratch;
  DecodeSay *say;
  void *self;
} Decoder;

void utterance_close(Utterance *u) {
  ids_close(&u->ids);
  text_close(&u->text);
}

static int64_t doubled(int64_t least, int64_t most) {
  int64_t n = SHORTEST;
  while (n < least) n *= 2;
  return n < most ? n : most;
}

/* What the model sees again of a text that has come to the end of its positions. */
static int64_t half(const DecodeOptions *o) { return o->kept > 1 ? o->kept / 2 : 1; }

void decode_sizes(DecodeOptions *o, const Utterance *all, int64_t n, int64_t batch) {
  int64_t longest = 1;
  for (int64_t i = 0; i < n; i++) longest = all[i].ids.n > longest ? all[i].ids.n : longest;
  CHECK(longest <= o->limit);
  o->slots = n < batch ? n : batch;
  o->kept = doubled(longest + o->tokens, o->limit);
  if (longest + o->tokens > o->limit && longest < half(o)) longest = half(o);
  o->positions = o->kept > o->plain ? o->kept : doubled(longest, o->limit); /* a text that is stretched anew is read again */
}

/* --- text ----------------------------------------------------------------------------------------------------------------- */

/* What the last id adds: bytes, of which characters may still be open. */
static void add_text(Decoder *d, Utterance *u) {
  int64_t from = u->ids.n > WINDOW ? u->ids.n - WINDOW : 0;
  d->scratch.n = 0;
  tokenizer_decode(d->tokenizer, u->ids.at + from, u->ids.n - 1 - from, true, &d->scratch);
  size_t before = d->scratch.n;
  d->scratch.n = 0;
  tokenizer_decode(d->tokenizer, u->ids.at + from, u->ids.n - from, true, &d->scratch);
  if (d->scratch.n > before) text_add(&u->text, d->scratch.at + before, d->scratch.n - before);
}

static size_t longest_stop(const DecodeOptions *o) {
  size_t n = 0;
  for (int i = 0; i < o->n_stops; i++) n = strlen(o->stops[i]) > n ? strlen(o->stops[i]) : n;
  return n;
}

/* Cuts the text where the first stop begins, of those that `before` bytes did not hold. */
static bool find_stop(const DecodeOptions *o, Utterance *u, size_t before) {
  size_t longest = longest_stop(o), from = before >= longest ? before - longest + 1 : 0, first = u->text.n;
  for (int i = 0; i < o->n_stops && u->text.n; i++) {
    const char *at = memmem(u->text.at + from, u->text.n - from, o->stops[i], strlen(o->stops[i]));
    if (at && (size_t)(at - u->text.at) < first) first = (size_t)(at - u->text.at);
  }
  if (first == u->text.n) return false;
  u->text.n = first;
  return true;
}

size_t decode_sure(const DecodeOptions *o, const Utterance *u) {
  size_t held = longest_stop(o);
  held = u->end != DECODE_OPEN || !held ? 0 : held - 1;
  return u->text.n > held ? u->text.n - held : 0;
}

/* --- tokens --------------------------------------------------------------------------------------------------------------- */

static bool is_end(const DecodeOptions *o, int32_t id) {
  for (int i = 0; i < o->n_ends; i++)
    if (o->ends[i] == id) return true;
  return false;
}

/* The slot's next token, of those that both tokenizer and model have. */
static int32_t pick(const Decoder *d, int64_t slot, const float *logits) {
  const Utterance *u = d->slot[slot];
  double draw = rng_uniform(&d->draws[u - d->all], (uint64_t)(u->ids.n - u->n_prompt));
  int64_t known = tokenizer_vocab(d->tokenizer), made = engine_vocab(d->engine), n = known < made ? known : made;
  if (d->o->repetition_penalty == 1) return sample(&d->o->sampling, logits, n, draw);
  float *penalised = xmalloc(sizeof *penalised * (size_t)n);
  sample_penalise(logits, n, d->o->repetition_penalty, u->ids.at, u->ids.n, penalised);
  int32_t id = sample(&d->o->sampling, penalised, n, draw);
  free(penalised);
  return id;
}

/* Of all slots, by this rank's threads: a vocabulary's exponentials take as long as a GPU's step. */
typedef struct Picks {
  const Decoder *d;
  const float *logits;
} Picks;

static void pick_one(void *self, int64_t slot) {
  const Picks *p = self;
  const Decoder *d = p->d;
  if (d->slot[slot]) d->picked[slot] = pick(d, slot, p->logits + slot * engine_vocab(d->engine));
}

/* Adds the next token to an utterance; its slot is free where that was the last. */
static void take(Decoder *d, int64_t slot, int32_t id) {
  const DecodeOptions *o = d->o;
  Utterance *u = d->slot[slot];
  int64_t made = u->ids.n - u->n_prompt;
  if (id < 0) fail(FAIL_INPUT, "%s: the model's logits are not finite\nhelp: try an earlier step", o->name);
  if (is_end(o, id)) {
    u->end = DECODE_END;
  } else {
    size_t before = u->text.n;
    ids_add(&u->ids, &id, 1);
    add_text(d, u);
    u->end = find_stop(o, u, before) ? DECODE_STOP : made + 1 == o->tokens ? DECODE_TOKENS : DECODE_OPEN;
  }
  d->next[slot] = id;
  d->at[slot] = (int32_t)(u->ids.n - 1 - u->first);
  d->say(d->self, u);
  if (u->end == DECODE_OPEN) return;
  d->slot[slot] = NULL;
  d->next[slot] = d->at[slot] = 0;
}

/* The logits behind what the slot's text has. */
static const float *fill(Decoder *d, int64_t s) {
  const Utterance *u = d->slot[s];
  int64_t n = u->ids.n - u->first;
  if (d->room[s] < n) d->room[s] = n;
  engine_length(d->engine, s, d->room[s]);
  return engine_fill(d->engine, s, u->ids.at + u->first, n);
}

/* Those that wait take what is free. */
static void fill_slots(Decoder *d, DecodeCount *count) {
  double begin = clock_seconds();
  for (int64_t s = 0; s < d->o->slots && d->waiting < d->n; s++)
    while (!d->slot[s] && d->waiting < d->n) {
      Utterance *u = d->slot[s] = &d->all[d->waiting++];
      d->room[s] = d->o->plain;
      take(d, s, pick(d, s, fill(d, s)));
      count->prompts += u->n_prompt;
    }
  count->prompt_seconds += clock_seconds() - begin;
}

/* Texts that have come to the end of the positions begin anew; those that have outgrown what they are turned for are read again. */
static void slide(Decoder *d) {
  for (int64_t s = 0; s < d->o->slots; s++)
    while (d->slot[s] && (d->at[s] >= d->o->kept || d->at[s] >= d->room[s])) {
      Utterance *u = d->slot[s];
      if (d->at[s] >= d->o->kept)
        u->first = u->ids.n - half(d->o);
      else
        d->room[s] = 2 * d->room[s] < d->o->limit ? 2 * d->room[s] : d->o->limit;
      take(d, s, pick(d, s, fill(d, s)));
    }
}

static bool any_open(const Decoder *d) {
  for (int64_t s = 0; s < d->o->slots; s++)
    if (d->slot[s]) return true;
  return false;
}

static void extend(Decoder *d, DecodeCount *count) {
  double begin = clock_seconds();
  slide(d);
  Picks picks = {d, engine_extend(d->engine, d->next, d->at)};
  dev_parallel(d->o->dev, d->o->slots, pick_one, &picks);
  for (int64_t s = 0; s < d->o->slots; s++)
    if (d->slot[s]) {
      take(d, s, d->picked[s]);
      count->tokens++;
    }
  count->seconds += clock_seconds() - begin;
}

static Rng *make_draws(const DecodeOptions *o, const Utterance *all, int64_t n) {
  Rng *draws = xmalloc(sizeof *draws * (size_t)(n ? n : 1));
  for (int64_t i = 0; i < n; i++) {
    uint64_t same = 0;
    for (int64_t k = 0; k < i; k++) same += all[k].n == all[i].n && !memcmp(all[k].prompt, all[i].prompt, all[i].n);
    draws[i] = rng_make(o->seed, RNG_SAMPLE, all[i].prompt, same);
  }
  return draws;
}

DecodeCount decode(Engine *engine, const Tokenizer *t, const DecodeOptions *o, Utterance *all, int64_t n, DecodeSay *say,
                   void *self) {
  Decoder d = {.engine = engine, .tokenizer = t, .o = o, .all = all, .n = n, .say = say, .self = self};
  DecodeCount count = {0};
  size_t slots = (size_t)o->slots;
  for (int64_t i = 0; i < n; i++) all[i].n_prompt = all[i].ids.n;
  for (; !o->tokens && d.waiting < n; d.waiting++) {
    all[d.waiting].end = DECODE_TOKENS;
    say(self, &all[d.waiting]);
  }
  d.draws = make_draws(o, all, n);
  d.slot = xmalloc(sizeof *d.slot * slots);
  d.next = xmalloc(sizeof *d.next * slots);
  d.at = xmalloc(sizeof *d.at * slots);
  d.room = xmalloc(sizeof *d.room * slots);
  d.picked = xmalloc(sizeof *d.picked * slots);
  memset(d.slot, 0, sizeof *d.slot * slots);
  memset(d.next, 0, sizeof *d.next * slots);
  memset(d.at, 0, sizeof *d.at * slots);
  for (fill_slots(&d, &count); any_open(&d); fill_slots(&d, &count)) extend(&d, &count);
  free(d.draws);
  free(d.slot);
  free(d.next);
  free(d.at);
  free(d.room);
  free(d.picked);
  text_close(&d.scratch);
  return count;
}
