/* SPDX-License-Identifier: Apache-2.0 */
/* A key's value from a node of the file, and values back as YAML. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/utf8.h"
#include "src/config/units.h"

bool node_fault(Fault *fault, Place *place, const Node *node, const char *what, const char *label) {
  *fault = (Fault){what, label};
  *place = node->place;
  return false;
}

static bool is_null(const Node *node) {
  const char *const words[] = {"", "~", "null"};
  for (int i = 0; i < 3; i++)
    if (node->kind == NODE_TEXT && node->plain && !strcmp(node->text, words[i])) return true;
  return false;
}

static bool parse_set_list(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  int *at = (int *)(void *)((char *)c + key->offset), all = 0;
  for (int i = 0; i < node->items.n; i++) {
    const Node *item = node->items.at[i].value;
    if (item->kind != NODE_TEXT) return node_fault(fault, place, item, "wants a list of words", NULL);
    *place = item->place;
    if (!value_parse(arena, key, item->text, c, fault)) return false;
    all |= *at;
  }
  *at = all;
  return true;
}

/* {word: bytes} */
static bool parse_fit_map(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  const NodePair *pair = node->items.at;
  if (node->items.n != 1 || pair->value->kind != NODE_TEXT) return node_fault(fault, place, node, "is one value", key->example);
  *place = pair->key->place;
  return value_parse(arena, key, arena_printf(arena, "%s: %s", pair->key->text, pair->value->text), c, fault);
}

typedef bool ParseNode(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
static ParseNode *const node_parsers[KEY_TYPES] = {[KEY_LENGTHS] = lengths_parse_node,
                                                   [KEY_PATTERN] = pattern_parse,
                                                   [KEY_PATTERNS] = patterns_parse,
                                                   [KEY_ITEMS] = items_parse,
                                                   [KEY_DATA] = sets_parse};

bool value_parse_node(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  *place = node->place;
  if (is_null(node)) return node_fault(fault, place, node, "has no value", NULL);
  if (node_parsers[key->type]) return node_parsers[key->type](arena, key, node, c, fault, place);
  if (node->kind == NODE_TEXT) return value_parse(arena, key, node->text, c, fault);
  if (node->kind == NODE_LIST && key->type == KEY_SET) return parse_set_list(arena, key, node, c, fault, place);
  if (node->kind == NODE_MAP && key->type == KEY_FIT) return parse_fit_map(arena, key, node, c, fault, place);
  return node_fault(fault, place, node, node->kind == NODE_LIST ? "is one value, not a list" : "is one value, not a section", NULL);
}

/* ---- printing ---- */

/* What YAML has no characters for, or takes for the end of a line (1.1, 5.1 and 5.4). */
static bool wants_escape(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF;
}

void word_print(const char *text, Text *out) {
  const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
  uint32_t c;
  if (*text && *text != '-' && strspn(text, safe) == strlen(text) && strcmp(text, "null") != 0) {
    text_printf(out, "%s", text);
    return;
  }
  text_printf(out, "\"");
  for (const char *end = text + strlen(text); text < end;) {
    int n = utf8_next(text, (size_t)(end - text), &c);
    if (n > 0 && wants_escape(c))
      text_printf(out, "\\u%04x", c);
    else
      text_printf(out, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", abs(n), text);
    text += abs(n);
  }
  text_printf(out, "\"");
}

static void print_amount(Amount amount, Text *out) {
  const Suffix *best = NULL;
  bool counted = amount.unit != UNIT_EPOCHS && amount.unit != UNIT_SECONDS && amount.unit != UNIT_PERCENT;
  for (const Suffix *s = suffixes; counted && amount.value >= 1e5 && s->name; s++)
    if (fmod(amount.value, s->times) == 0 && (!best || s->times > best->times)) best = s;
  if (!amount.unit || amount.unit == UNIT_AUTO) {
    text_printf(out, "%s", unit_name(amount.unit));
    return;
  }
  number_print(amount.value / (best ? best->times : 1), out);
  text_printf(out, "%s%s", best ? best->name : "", amount.unit == UNIT_PERCENT ? "" : " ");
  text_printf(out, "%s", amount.value == 1 ? unit_name_one(amount.unit) : unit_name(amount.unit));
}

static void print_set(const Key *key, int set, Text *out) {
  const char *between = "";
  text_printf(out, "[");
  for (int i = 0; key->choices[i]; i++) {
    if (!(set & 1 << i)) continue;
    text_printf(out, "%s%s", between, key->choices[i]);
    between = ", ";
  }
  text_printf(out, "]");
}

static void print_worded(const Key *key, double value, Text *out) {
  if (key->word && value == 0) {
    text_printf(out, "%s", key->word);
  } else {
    number_print(value, out);
  }
}

static void print_range(const Key *key, Range range, Text *out) {
  print_worded(key, (double)range.first, out);
  if (range.last != range.first) text_printf(out, "-%lld", (long long)range.last);
}

static void print_fit(const Key *key, Fit fit, Text *out) {
  text_printf(out, fit.nbytes ? "{%s: " : "%s", key->choices[fit.choice]);
  if (!fit.nbytes) return;
  bytes_print(fit.nbytes, out);
  text_printf(out, "}");
}

void value_print(const Key *key, const void *c, Text *out) {
  const void *at = (const char *)c + key->offset;
  if (key->type == KEY_INT) print_worded(key, (double)*(const int64_t *)at, out);
  if (key->type == KEY_NUMBER) print_worded(key, *(const double *)at, out);
  if (key->type == KEY_BOOL) text_printf(out, "%s", *(const bool *)at ? "true" : "false");
  if (key->type == KEY_TEXT) word_print(*(const char *const *)at, out);
  if (key->type == KEY_CHOICE) text_printf(out, "%s", key->choices[*(const int *)at]);
  if (key->type == KEY_SET) print_set(key, *(const int *)at, out);
  if (key->type == KEY_AMOUNT) print_amount(*(const Amount *)at, out);
  if (key->type == KEY_RANGE) print_range(key, *(const Range *)at, out);
  if (key->type == KEY_FIT) print_fit(key, *(const Fit *)at, out);
  if (key->type == KEY_LENGTHS) lengths_print(key, at, out);
  if (key->type == KEY_DATA) sets_print(key, c, out);
  if (key->type == KEY_PATTERN) pattern_print(key, c, out);
  if (key->type == KEY_PATTERNS) patterns_print(key, c, out);
  if (key->type == KEY_ITEMS) items_print(key, c, out);
}
