/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations as ids.  A line of JSON is one, in any of these forms:
 *   {"messages": [{"role": "user", "content": "..."}, ...]}         roles system, user, assistant
 *   {"conversations": [{"from": "human", "value": "..."}, ...]}     and human, gpt
 *   {"prompt": "...", "completion": "..."}                          a question and its answer
 * A text 'system' beside them is the system's message, ahead of theirs.  'tools' and 'functions', and a message's 'tool_calls' and
 * 'function_call', are refused, and so are a message's 'weight' and 'train' that say otherwise than what counts here; other fields
 * are passed over.  A template says how it is written: the ids are those that the models' own templates, rendered and
 * tokenized as a whole, give.  An answer counts, with the token that ends it; what leads to it does not, unless all is to count.
 *
 * Templates are tables of pieces, no programs: what they put around contents, and which of it is special tokens. */
#ifndef IO_CHAT_H
#define IO_CHAT_H

#include "io/tokenizer.h"

typedef struct Chat Chat;

/* What templates there are, NULL at the end. */
const char *const *chat_names(void);

/* inputs: all ids count.  False: there is no such template, or the tokenizer lacks a token of it, which is named. */
bool try_chat_open(const Tokenizer *t, const char *name, bool inputs, Chat **chat, Why *why);
void chat_close(Chat *chat); /* NULL is fine */

/* Appends the ids of the conversation in n bytes of JSON, and a mark each (tokens.h), the first with TOKEN_BEGINS.  w: of the
 * tokenizer, a thread's own.  False: it is none, or none that the template can write; ids and marks are then as they were. */
bool try_chat_encode(const Chat *chat, TokenizerWork *w, const char *json, size_t n, Ids *ids, Text *marks, Why *why);

#endif
