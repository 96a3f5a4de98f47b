/* SPDX-License-Identifier: Apache-2.0 */
/* What one run file says otherwise than another. */
#include "src/base/fail.h"
#include "src/config/table.h"

bool key_is_fixed(const Key *key) { return key->fixed || key->shape; }

static const char *value_of(Arena *arena, const Config *c, const Key *key) {
  Text text = {0};
  if (key_source(c, key) == SOURCE_UNSET) return "unset";
  value_print(key, c, &text);
  const char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

int config_changes(Arena *arena, const Config *was, const Config *is, const ConfigChange **changes) {
  ConfigChange *list = arena_array(arena, ConfigChange, nkeys);
  int n = 0;
  for (int i = 0; i < nkeys; i++) {
    char path[80];
    const char *a = value_of(arena, was, &keys[i]), *b = value_of(arena, is, &keys[i]);
    if (strcmp(a, b)) list[n++] = (ConfigChange){arena_strdup(arena, key_path(&keys[i], path)), a, b, key_is_fixed(&keys[i])};
  }
  *changes = list;
  return n;
}
