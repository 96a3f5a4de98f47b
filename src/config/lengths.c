/* SPDX-License-Identifier: Apache-2.0 */
/* A list of lengths, ascending: none, auto, or [256, 512, 1024]; and what data.buckets comes to. */
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

static bool add_length(Arena *arena, const Key *key, const char *text, Lengths *lengths, Fault *fault) {
  int64_t length;
  if (!whole_parse(arena, key, text, &length, fault)) return false;
  if (lengths->n == LENGTHS_MOST)
    return *fault = (Fault){"has too many lengths", arena_printf(arena, "at most %d", LENGTHS_MOST)}, false;
  if (lengths->n && length <= lengths->at[lengths->n - 1]) return *fault = (Fault){"wants ascending lengths", NULL}, false;
  lengths->at[lengths->n++] = length;
  return true;
}

bool lengths_parse(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  Lengths *lengths = at;
  *lengths = (Lengths){0};
  size_t n = strlen(text);
  bool brackets = n >= 2 && text[0] == '[' && text[n - 1] == ']';
  const char *words = brackets ? arena_strndup(arena, text + 1, n - 2) : text;
  for (words += strspn(words, " ,"); *words; words += strspn(words, " ,")) {
    n = strcspn(words, " ,");
    if (!add_length(arena, key, arena_strndup(arena, words, n), lengths, fault)) return false;
    words += n;
  }
  if (!lengths->n) return *fault = (Fault){"wants lengths", key->example}, false;
  return true;
}

bool lengths_parse_node(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  Lengths *lengths = (void *)((char *)c + key->offset);
  if (node->kind == NODE_TEXT) return value_parse(arena, key, node->text, c, fault);
  if (node->kind != NODE_LIST || !node->items.n) return node_fault(fault, place, node, "wants lengths", key->example);
  *lengths = (Lengths){0};
  for (int i = 0; i < node->items.n; i++) {
    const Node *item = node->items.at[i].value;
    if (item->kind != NODE_TEXT) return node_fault(fault, place, item, "wants a list of lengths", NULL);
    *place = item->place;
    if (!add_length(arena, key, item->text, lengths, fault)) return false;
  }
  return true;
}

void lengths_print(const Key *key, const Lengths *lengths, Text *out) {
  if (lengths->automatic || !lengths->n) text_printf(out, "%s", lengths->automatic ? "auto" : key->word);
  for (int i = 0; i < lengths->n; i++) text_printf(out, "%s%lld", i ? ", " : "[", (long long)lengths->at[i]);
  if (lengths->n) text_printf(out, "]");
}

bool config_has_buckets(const Config *c) { return c->data.buckets.automatic || c->data.buckets.n; }

/* Each program of an automatic length saves half of what is left; below SHORTEST positions a pass is nearly as dear as one of so
 * many.  Rows on GPUs go by tiles of 128 positions, and some pad to them. */
Lengths config_buckets(const Config *c) {
  enum { SHORTEST = 64, LONG = 1024 };
  const Lengths *asked = &c->data.buckets;
  Lengths all = {0};
  int64_t S = c->train.seq_len, grain = S >= LONG ? 128 : 8;
  for (int halvings = LENGTHS_MOST - 1; asked->automatic && halvings > 0; halvings--) {
    int64_t length = ((S >> halvings) + grain - 1) / grain * grain;
    if (length >= SHORTEST && length < S) all.at[all.n++] = length;
  }
  for (int i = 0; i < asked->n && asked->at[i] < S; i++) all.at[all.n++] = asked->at[i];
  all.at[all.n++] = S;
  CHECK(all.n <= LENGTHS_MOST);
  return all;
}

int lengths_holding(const Lengths *lengths, int64_t positions) {
  int i = 0;
  CHECK(positions <= lengths->at[lengths->n - 1]);
  while (lengths->at[i] < positions) i++;
  return i;
}
