/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys for people: help by section and key, a starter file, a page of documentation. */
#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

/* What a value may be: examples, a list, a range. */
static void print_values(const Key *key, Text *out) {
  size_t start = out->n;
  const char *const *presets = config_presets();
  if (presets && !strcmp(key->name, "preset")) {
    choices_print(presets, ", ", out);
  } else if (key->type == KEY_CHOICE || key->type == KEY_SET || key->type == KEY_FIT) {
    choices_print(key->choices, ", ", out);
    if (key->type == KEY_FIT) text_printf(out, ", %s", key->example);
  } else if (key->type == KEY_BOOL) {
    text_printf(out, "true, false");
  } else if (key->type == KEY_INT || key->type == KEY_NUMBER) {
    key_range(key, out);
  } else if (key->example) {
    text_printf(out, "%s", key->example);
  }
  if (key->automatic) text_printf(out, ", auto");
  if (key->word) text_printf(out, "%s%s", out->n > start ? ", or " : "", key->word);
}

static const char *first_example(const Key *key, Text *out) {
  if (key->example) {
    text_add(out, key->example, key->example[0] == '[' ? strlen(key->example) : strcspn(key->example, ","));
  } else {
    text_printf(out, "%s", key->fallback ? key->fallback : key->choices[0]);
  }
  return out->at;
}

/* The bytes of the first n names of "a, b, c". */
static int names_length(const char *list, int n) {
  size_t length = strcspn(list, ",");
  while (--n > 0 && list[length]) length += 1 + strcspn(list + length + 1, ",");
  return (int)length;
}

enum { VALUES = 44 }; /* columns of a section's second column */

static void print_row(const Key *key, Text *out) {
  Text values = {0};
  if (key->type == KEY_AMOUNT || key->type == KEY_CHOICE || key->type == KEY_FIT) {
    print_values(key, &values);
  } else {
    text_printf(&values, "%s", key->help);
  }
  if (key->fallback || key->elsewhere)
    text_printf(&values, "%s%*s", values.n > VALUES ? ";" : "", values.n > VALUES ? 1 : VALUES + 2 - (int)values.n, "");
  if (key->fallback)
    text_printf(&values, "default: %s", key->fallback);
  else if (key->elsewhere)
    text_printf(&values, "elsewhere: %.*s", names_length(key->elsewhere, 2), key->elsewhere);
  text_printf(out, "%s %-24s ", key->required ? "*" : " ", key->name);
  text_wrap(out, values.at, values.n, 27, 27);
  text_close(&values);
}

static void print_section(const Section *section, Text *out) {
  text_printf(out, "%s: %s%*s(* = required)\n", section->name, section->help, 4, "");
  for (int i = 0; i < nkeys; i++)
    if (!strcmp(keys[i].section, section->name)) print_row(&keys[i], out);
}

/* The fields of a list of maps, a line each. */
static void print_fields(const Key *key, Text *out) {
  for (const Key *f = key->fields; f && f->name; f++) {
    const char *otherwise = f->fallback ? f->fallback : f->derived;
    text_printf(out, "  %-14s %s%s%s%s\n", f->name, f->help, f->required ? " (required)" : "", otherwise ? "; default " : "",
                otherwise ? otherwise : "");
  }
}

static void print_key(const Key *key, Text *out) {
  char path[80];
  Text values = {0};
  print_values(key, &values);
  text_printf(out, "%s: %s\n", key_path(key, path), key->help);
  if (values.n) text_printf(out, "  values     %s\n", values.at);
  if (key->required && key->shape) text_printf(out, "  required   where the model is given by its shape\n");
  if (key->required && !key->shape) text_printf(out, "  required   has no default\n");
  if (key->fallback) text_printf(out, "  default    %s\n", key->fallback);
  if (key->derived) text_printf(out, "  default    %s\n", key->derived);
  if (key->example && values.at && !strstr(values.at, key->example)) text_printf(out, "  example    %s\n", key->example);
  if (key_is_fixed(key)) text_printf(out, "  fixed      cannot change in a run\n");
  if (key->elsewhere) text_printf(out, "  elsewhere  %s\n", key->elsewhere);
  print_fields(key, out);
  text_close(&values);
}

bool config_print_help(const char *topic, Text *out) {
  size_t start = out->n;
  char path[80];
  for (int i = 0; i < nsections; i++)
    if (!strcmp(sections[i].name, topic)) print_section(&sections[i], out);
  for (int i = 0; i < nkeys; i++) {
    const Key *key = &keys[i];
    bool named = !strcmp(key->name, topic) || !strcmp(key_path(key, path), topic) || names_hold(key->elsewhere, topic);
    if (named) print_key(key, out);
  }
  return out->n > start;
}

/* ---- a starter file: required keys with examples, the rest as comments ---- */

static void print_new_key(const Key *key, Text *out) {
  bool chosen = (key->required && !key->shape) || !strcmp(key->name, "preset");
  size_t start = out->n;
  Text value = {0};
  const char *text = chosen || !key->fallback ? first_example(key, &value) : key->fallback;
  text_printf(out, "%s%s: %s", chosen ? "  " : "  # ", key->name, text);
  int used = (int)(out->n - start);
  text_printf(out, "%*s  # %s\n", used < 42 ? 42 - used : 0, "", key->help);
  text_close(&value);
}

void config_print_new(Text *out) {
  text_printf(
      out,
      "# A run file: hpctrain THIS.yaml.  Lines that begin with '# ' show defaults or examples; hpctrain help KEY explains.\n");
  text_printf(out, "hpctrain: %d\n", CONFIG_SCHEMA);
  for (int s = 0; s < nsections; s++) {
    text_printf(out, "\n%s:  # %s\n", sections[s].name, sections[s].help);
    for (int i = 0; i < nkeys; i++)
      if (!strcmp(keys[i].section, sections[s].name)) print_new_key(&keys[i], out);
  }
}

/* ---- doc/keys.md ---- */

static void print_doc_row(const char *of, const Key *key, Text *out) {
  text_printf(out, "| `%s%s` | %s%s | ", of, key->name, key->help, key_is_fixed(key) ? "; cannot change in a run" : "");
  print_values(key, out);
  text_printf(out, " | ");
  if (key->required) text_printf(out, "**required**");
  if (key->fallback) text_printf(out, "`%s`", key->fallback);
  if (key->derived) text_printf(out, "%s", key->derived);
  text_printf(out, " | %s |\n", key->elsewhere ? key->elsewhere : "");
}

static void print_doc_key(const Key *key, Text *out) {
  char of[80];
  snprintf(of, sizeof of, "%s[].", key->name);
  print_doc_row("", key, out);
  for (const Key *f = key->fields; f && f->name; f++) print_doc_row(of, f, out);
}

void config_print_doc(Text *out) {
  text_printf(out,
              "<!-- Written by `hpctrain config --doc`; do not edit. -->\n# Keys of a run file\n\n"
              "The first line is `hpctrain: %d`, the version of this format. Any key can be given on the command line as\n"
              "`section.key=value`. K M B T mean 1000s, Ki Mi Gi 1024s. An unknown key is an error.\n",
              CONFIG_SCHEMA);
  for (int s = 0; s < nsections; s++) {
    text_printf(out, "\n## %s\n\n%s.\n\n| key | meaning | values | default | elsewhere |\n|---|---|---|---|---|\n",
                sections[s].name, sections[s].help);
    for (int i = 0; i < nkeys; i++)
      if (!strcmp(keys[i].section, sections[s].name)) print_doc_key(&keys[i], out);
  }
}
