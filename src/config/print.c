/* SPDX-License-Identifier: Apache-2.0 */
/* The resolved run: as a run file that reads back to the same values, and as one number. */
#include <string.h>

#include "src/base/hash.h"
#include "src/config/table.h"

static const char *const source_names[] = {
    [SOURCE_FILE] = "file", [SOURCE_SHELL] = "shell", [SOURCE_DEFAULT] = "default", [SOURCE_AUTO] = "auto",
    [SOURCE_DEMO] = "demo", [SOURCE_UNSET] = "",      [SOURCE_FAULTY] = "faulty"};

static void print_line(const Config *c, const Key *key, Text *out) {
  size_t start = out->n;
  text_printf(out, "%s%s: ", *key->section ? "  " : "", key->name);
  value_print(key, c, out);
  int used = (int)(out->n - start);
  text_printf(out, "%*s  # %s\n", used < 42 ? 42 - used : 0, "", source_names[key_source(c, key)]);
}

void config_print(const Config *c, Text *out) {
  const char *section = "";
  for (int i = 0; i < nkeys; i++) {
    if (c->origin->source[i] == SOURCE_UNSET) continue;
    if (strcmp(section, keys[i].section) != 0) text_printf(out, "%s:\n", section = keys[i].section);
    print_line(c, &keys[i], out);
  }
}

uint64_t config_hash(const Config *c) {
  Sha256 hash;
  sha256_init(&hash);
  for (int i = 0; i < nkeys; i++) {
    if (c->origin->source[i] == SOURCE_UNSET) continue;
    char path[80];
    Text value = {0};
    value_print(&keys[i], c, &value);
    sha256_add_text(&hash, key_path(&keys[i], path));
    sha256_add_text(&hash, value.at);
    text_close(&value);
  }
  return sha256_u64(&hash);
}
