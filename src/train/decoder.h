/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that go on from prompts, several at a time: each has a slot of the engine's cache; who is done makes room for the next.  A
 * text that comes to the end of the model's positions goes on from the last half of what the model saw, and so on.  With dynamic
 * rope a prompt that is longer than the model's own positions is turned by its length, and a text that comes to the end of what it
 * is turned for is read again, for twice as much: so it depends on nothing but itself, and what is short is as without stretching.
 *
 * A prompt's draws are of (seed, its text, how many of the same text came before it, the token's number), so that a text does not
 * depend on the prompts beside it, and equal prompts get different ones. */
#ifndef TRAIN_DECODER_H
#define TRAIN_DECODER_H

#include "io/tokenizer.h"
#include "src/train/engine.h"
#include "src/train/sample.h"

typedef enum DecodeEnd { DECODE_OPEN, DECODE_TOKENS, DECODE_END, DECODE_STOP, DECODE_ENDS } DecodeEnd;
extern const char *const decode_end_names[DECODE_ENDS]; /* "tokens": enough; "end": an end token; "stop": a stop text */

/* A prompt and what comes of it.  Start from {.prompt = …, .n = …, .ids = …}; utterance_close frees the rest. */
typedef struct Utterance {
  const char *prompt; /* n bytes; the caller's */
  size_t n;
  Ids ids; /* the prompt's, at least one; tokens that came are appended, an end token not */
  int64_t n_prompt;
  int64_t first; /* of ids that the model still sees */
  Text text;     /* of the tokens that came: bytes, without what stopped it */
  size_t said;
  DecodeEnd end;
} Utterance;
void utterance_close(Utterance *u);

typedef struct DecodeOptions {
  Sampling sampling;
  double repetition_penalty; /* 1: none */
  uint64_t seed;
  int64_t tokens;                 /* for each prompt, at most */
  int64_t slots, positions, kept; /* the engine's: EngineOptions */
  int64_t limit;                  /* positions that the model is made for; no prompt is longer */
  int64_t plain;                  /* of them, those of a text that dynamic rope does not stretch (all, with another) */
  const int32_t *ends;            /* ids */
  int n_ends;
  const char *const *stops; /* texts, not empty */
  int n_stops;
  const char *name; /* of the model, for messages */
  const Dev *dev;   /* whose threads pick tokens */
} DecodeOptions;

/* Sizes of an engine for these prompts, of which `batch` go on at a time; options' slots, positions and kept. */
void decode_sizes(DecodeOptions *options, const Utterance *all, int64_t n, int64_t batch);

typedef struct DecodeCount {
  int64_t prompts, tokens; /* tokens read, and made */
  double prompt_seconds, seconds;
} DecodeCount;

/* say: called when u has more text that is sure to stay, or has ended (end is set); said is what was told before, and the callee's
 * to set.  Logits that are not finite are an input error. */
typedef void DecodeSay(void *self, Utterance *u);
DecodeCount decode(Engine *engine, const Tokenizer *t, const DecodeOptions *options, Utterance *all, int64_t n, DecodeSay *say,
                   void *self);
/* Bytes of its text that are sure to stay. */
size_t decode_sure(const DecodeOptions *options, const Utterance *u);

#endif
