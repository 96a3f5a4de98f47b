/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: a path, a list of paths and maps, or a map from names to paths; and back as YAML. */
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

enum { PATH, WEIGHT }; /* bits of DataSet.given: the order of the fields in keys.c */

static bool take_path(Arena *arena, const Key *key, const Node *node, DataSet *set, Fault *fault, Place *place) {
  set->given = 1u << PATH;
  return value_parse_node(arena, &key->fields[PATH], node, set, fault, place);
}

/* One of a list or a map. */
static bool take_set(Arena *arena, const Key *key, const NodePair *pair, DataSet *set, Fault *fault, Place *place) {
  const Node *name = pair->key, *value = pair->value;
  set->name = name ? name->text : key->name;
  if (!*set->name) return node_fault(fault, place, name, "has a data set without a name", NULL);
  if (name && value->kind != NODE_TEXT) return node_fault(fault, place, value, "has a name without a path", "{name: path}");
  if (value->kind == NODE_MAP) return item_parse(arena, key, value, set, fault, place);
  if (value->kind == NODE_LIST) return node_fault(fault, place, value, "has an item that is no path", "a path, or {path: ...}");
  return take_path(arena, key, value, set, fault, place);
}

/* Several to train on are a list, so that their order is told; several to evaluate on have names, by which results are told. */
static bool check_number(Arena *arena, const Key *key, const Node *node, Fault *fault, Place *place) {
  bool weighed = key->fields[WEIGHT].name, list = node->kind == NODE_LIST;
  const char *form =
      weighed ? "several are a list: [{path: a, weight: 1}, {path: b, weight: 2}]" : "several have names: {a: path, b: path}";
  if (node->items.n == 1 || (node->items.n > 1 && weighed == list)) return true;
  return node_fault(fault, place, node, arena_printf(arena, "holds %d data sets", node->items.n), form);
}

bool sets_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place) {
  int n = node->kind == NODE_TEXT ? 1 : node->items.n;
  DataSet *at = arena_array(arena, DataSet, n);
  *(DataSets *)(void *)((char *)c + key->offset) = (DataSets){at, n};
  if (node->kind == NODE_TEXT) {
    at->name = key->name;
    return take_path(arena, key, node, at, fault, place);
  }
  if (!check_number(arena, key, node, fault, place)) return false;
  for (int i = 0; i < n; i++)
    if (!take_set(arena, key, &node->items.at[i], &at[i], fault, place)) return false;
  return true;
}

void sets_print(const Key *key, const void *c, Text *out) {
  const DataSets *sets = (const void *)((const char *)c + key->offset);
  bool named = strcmp(sets->at[0].name, key->name) != 0;
  if (sets->n == 1 && !named && !(sets->at[0].given & 1u << WEIGHT)) {
    word_print(sets->at[0].path.text, out);
    return;
  }
  text_printf(out, named ? "{" : "[");
  for (int i = 0; i < sets->n; i++) {
    if (i) text_printf(out, ", ");
    if (named) {
      word_print(sets->at[i].name, out);
      text_printf(out, ": ");
      word_print(sets->at[i].path.text, out);
    } else {
      item_print(key, &sets->at[i], out);
    }
  }
  text_printf(out, named ? "}" : "]");
}
