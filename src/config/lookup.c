/* SPDX-License-Identifier: Apache-2.0 */
/* Finding rows of the table, by name, by a name elsewhere, by a near miss. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

const Key *key_find(const char *section, const char *name) {
  for (int i = 0; i < nkeys; i++)
    if (!strcmp(keys[i].section, section) && !strcmp(keys[i].name, name)) return &keys[i];
  return NULL;
}

const Key *key_find_path(const char *path) {
  const char *dot = strchr(path, '.'), *name = dot ? dot + 1 : path;
  size_t n = dot ? (size_t)(dot - path) : 0;
  for (int i = 0; i < nkeys && dot != path; i++)
    if (!strcmp(keys[i].name, name) && strlen(keys[i].section) == n && !memcmp(keys[i].section, path, n)) return &keys[i];
  return NULL;
}

const char *const *config_choices(const char *key) {
  const Key *row = key_find_path(key);
  CHECK(row && row->choices);
  return row->choices;
}

const char *key_path(const Key *key, char out[80]) {
  snprintf(out, 80, "%s%s%s", key->section, *key->section ? "." : "", key->name);
  return out;
}

bool names_hold(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && *at; at += strspn(at, ", ")) {
    size_t length = strcspn(at, ",");
    if (length == n && !memcmp(at, name, n)) return true;
    at += length;
  }
  return false;
}

bool config_given(const Config *c, const char *path) {
  const Key *key = key_find_path(path);
  CHECK(key);
  return key_given(c, key);
}

const char *config_word(const Config *c, const char *path) {
  const Key *key = key_find_path(path);
  CHECK(key && key->type == KEY_CHOICE);
  return key->choices[*(const int *)((const char *)c + key->offset)];
}

void key_range(const Key *key, Text *out) {
  if (key->min == 0 && key->max == 0) return;
  number_print(key->min, out);
  text_printf(out, " %s %s", key->open & OPEN_MIN ? "<" : "<=", key->name);
  if (key->max >= 1e9) return; /* such a bound only catches slips */
  text_printf(out, " %s ", key->open & OPEN_MAX ? "<" : "<=");
  number_print(key->max, out);
}

void choices_print(const char *const *choices, const char *last, Text *out) {
  for (int i = 0; choices[i]; i++) text_printf(out, "%s%s", !i ? "" : choices[i + 1] ? ", " : last, choices[i]);
}

/* Edit distance where a swap of neighbours counts as one edit (optimal string alignment). */
static int edit_distance(const char *a, const char *b) {
  enum { MAX = 64 };
  int rows[3][MAX + 1], n = (int)strlen(a), m = (int)strlen(b);
  if (n > MAX || m > MAX) return MAX;
  int *before = rows[0], *last = rows[1], *now = rows[2];
  for (int j = 0; j <= m; j++) last[j] = before[j] = j;
  for (int i = 1; i <= n; i++) {
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < best) best = last[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      now[j] = best;
    }
    int *spare = before;
    before = last, last = now, now = spare;
  }
  return last[m];
}

const char *config_nearest(const char *word, const char *const *names, int n) {
  const char *nearest = NULL;
  int length = (int)strlen(word), best = length < 6 ? 1 : length / 3;
  if (length < 2) return NULL;
  for (int i = 0; i < n; i++) {
    if (abs(length - (int)strlen(names[i])) > best) continue; /* so far apart at least, however long the word */
    int distance = edit_distance(word, names[i]);
    if (distance > best || (nearest && distance == best) || distance >= (int)strlen(names[i])) continue;
    nearest = names[i];
    best = distance;
  }
  return nearest;
}

const char *config_nearest_key(const char *word) {
  const char *names[256];
  CHECK(nkeys + nsections <= 256);
  for (int i = 0; i < nkeys; i++) names[i] = keys[i].name;
  for (int i = 0; i < nsections; i++) names[nkeys + i] = sections[i].name;
  return config_nearest(word, names, nkeys + nsections);
}
