/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of names, and lists of maps such as train.groups: from nodes of the file, and back as YAML.  The fields of such a map
 * are rows like keys; where each item and pattern stands is kept, so that whoever cannot use it later names its line. */
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

/* All lists in Config start so, whatever they point to. */
typedef struct Items {
  const void *at;
  int n;
} Items;

static void *in(void *c, const Key *key) { return (char *)c + key->offset; }
static const void *in_const(const void *c, const Key *key) { return (const char *)c + key->offset; }

/* ---- patterns ---- */

static bool take_pattern(Arena *arena, const Node *node, Pattern *pattern, Fault *fault, Place *place) {
  if (node->kind != NODE_TEXT || !*node->text) return node_fault(fault, place, node, "wants a pattern", "such as \"*norm*\"");
  Place *at = arena_new(arena, Place);
  *at = node->place;
  *pattern = (Pattern){arena_strdup(arena, node->text), at};
  return true;
}

bool pattern_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  return take_pattern(arena, node, in(c, key), fault, place);
}

bool patterns_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  int n = node->kind == NODE_LIST ? node->items.n : 1;
  Pattern *at = arena_array(arena, Pattern, n);
  if (!n && key->required) return node_fault(fault, place, node, "wants a pattern or more", NULL);
  for (int i = 0; i < n; i++)
    if (!take_pattern(arena, node->kind == NODE_LIST ? node->items.at[i].value : node, &at[i], fault, place)) return false;
  *(Patterns *)in(c, key) = (Patterns){at, n};
  return true;
}

void pattern_print(const Key *key, const void *c, Text *out) { word_print(((const Pattern *)in_const(c, key))->text, out); }

void patterns_print(const Key *key, const void *c, Text *out) {
  const Patterns *patterns = in_const(c, key);
  if (patterns->n != 1) text_printf(out, "[");
  for (int i = 0; i < patterns->n; i++) {
    if (i) text_printf(out, ", ");
    word_print(patterns->at[i].text, out);
  }
  if (patterns->n != 1) text_printf(out, "]");
}

/* ---- lists of maps ---- */

static int field_find(const Key *fields, const char *name) {
  for (int i = 0; fields[i].name; i++)
    if (!strcmp(fields[i].name, name)) return i;
  return -1;
}

static const char *field_label(Arena *arena, const Key *fields, const char *name) {
  const char *names[33] = {NULL};
  int n = 0;
  for (; fields[n].name && n < 32; n++) names[n] = fields[n].name;
  for (int i = 0; i < n; i++)
    if (names_hold(fields[i].elsewhere, name)) return arena_printf(arena, "called '%s' here", names[i]);
  const char *nearest = config_nearest(name, names, n);
  if (nearest) return arena_printf(arena, "did you mean '%s'?", nearest);
  Text all = {0};
  choices_print(names, " and ", &all);
  const char *label = arena_printf(arena, "there are %s", all.at);
  text_close(&all);
  return label;
}

static bool take_field(Arena *arena, const Key *fields, const NodePair *pair, void *item, Fault *fault, Place *place) {
  int i = field_find(fields, pair->key->text);
  if (i < 0) {
    const char *what = arena_printf(arena, "has an item with an unknown key '%.60s'", pair->key->text);
    return node_fault(fault, place, pair->key, what, field_label(arena, fields, pair->key->text));
  }
  *(unsigned *)item |= 1u << i;
  if (value_parse_node(arena, &fields[i], pair->value, item, fault, place)) return true;
  fault->what = arena_printf(arena, "has an item whose '%s' %s", fields[i].name, fault->what);
  return false;
}

bool item_parse(Arena *arena, const Key *key, const Node *node, void *item, Fault *fault, Place *place) {
  if (node->kind != NODE_MAP) return node_fault(fault, place, node, "has an item that is no map", key->example);
  for (int i = 0; key->fields[i].name; i++) {
    const Key *field = &key->fields[i];
    if (field->fallback) CHECK(value_parse(arena, field, field->fallback, item, fault));
  }
  for (int i = 0; i < node->items.n; i++)
    if (!take_field(arena, key->fields, &node->items.at[i], item, fault, place)) return false;
  for (int i = 0; key->fields[i].name; i++)
    if (key->fields[i].required && !(*(unsigned *)item & 1u << i))
      return node_fault(fault, place, node, arena_printf(arena, "has an item without '%s'", key->fields[i].name), key->example);
  return true;
}

bool items_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  if (node->kind != NODE_LIST) return node_fault(fault, place, node, "wants a list of maps", key->example);
  char *at = arena_alloc(arena, key->size * (size_t)node->items.n);
  for (int i = 0; i < node->items.n; i++)
    if (!item_parse(arena, key, node->items.at[i].value, at + key->size * (size_t)i, fault, place)) return false;
  const Items items = {at, node->items.n};
  memcpy(in(c, key), &items, sizeof items);
  return true;
}

void item_print(const Key *key, const void *item, Text *out) {
  const char *between = "{";
  for (int i = 0; key->fields[i].name; i++) {
    if (!(*(const unsigned *)item & 1u << i)) continue;
    text_printf(out, "%s%s: ", between, key->fields[i].name);
    value_print(&key->fields[i], item, out);
    between = ", ";
  }
  text_printf(out, "}");
}

void items_print(const Key *key, const void *c, Text *out) {
  Items items;
  memcpy(&items, in_const(c, key), sizeof items);
  text_printf(out, "[");
  for (int i = 0; i < items.n; i++) {
    if (i) text_printf(out, ", ");
    item_print(key, (const char *)items.at + key->size * (size_t)i, out);
  }
  text_printf(out, "]");
}
