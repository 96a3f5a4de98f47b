/* SPDX-License-Identifier: Apache-2.0 */
/* Run file, then command line, then defaults; everything that is wrong is collected before anything is said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/base/utf8.h"
#include "src/config/table.h"

enum { RUN_FILE_MOST = 256 << 10 }; /* bytes */

typedef struct Loader {
  Config *c;
  Problems *problems;
  Source from; /* of the file's values */
} Loader;

static Arena *arena_of(const Loader *l) { return l->problems->arena; }

/* ---- names that are not in the table ---- */

static const Key *key_elsewhere(const char *section, const char *name) {
  for (int i = 0; i < nkeys; i++)
    if ((!section || !strcmp(keys[i].section, section)) && names_hold(keys[i].elsewhere, name)) return &keys[i];
  return NULL;
}

static const Key *key_anywhere(const char *name) {
  for (int i = 0; i < nkeys; i++)
    if (!strcmp(keys[i].name, name)) return &keys[i];
  return NULL;
}

static const Key *key_near(const char *section, const char *name) {
  const char **names = xmalloc(sizeof *names * (size_t)nkeys);
  int n = 0;
  for (int i = 0; i < nkeys; i++)
    if (!section || !strcmp(keys[i].section, section)) names[n++] = keys[i].name;
  const char *nearest = config_nearest(name, names, n);
  free(names);
  return !nearest ? NULL : section ? key_find(section, nearest) : key_anywhere(nearest);
}

/* What an unknown name may stand for, and what to say beside it. */
typedef struct Guess {
  const Section *section;
  const Key *key;
  const char *label;
} Guess;

/* section may be unknown, too. */
static Guess guess_key(Arena *arena, const char *section, const char *name) {
  char path[80];
  const Key *key = key_elsewhere(section, name);
  if (key) return (Guess){.key = key, .label = arena_printf(arena, "called '%s' here", key->name)};
  if ((key = key_anywhere(name)))
    return (Guess){.key = key, .label = arena_printf(arena, "belongs in '%s'", *key->section ? key->section : "the first line")};
  if ((key = key_elsewhere(NULL, name)))
    return (Guess){.key = key, .label = arena_printf(arena, "called '%s' here", key_path(key, path))};
  if ((key = key_near(section, name))) return (Guess){.key = key, .label = arena_printf(arena, "did you mean '%s'?", key->name)};
  if ((key = key_near(NULL, name)))
    return (Guess){.key = key, .label = arena_printf(arena, "did you mean '%s'?", key_path(key, path))};
  return (Guess){.label = arena_printf(arena, "hpctrain help %s lists the keys", section)};
}

static const Section *section_find(const char *name) {
  for (int i = 0; i < nsections; i++)
    if (!strcmp(sections[i].name, name)) return &sections[i];
  return NULL;
}

static const char *all_sections(Arena *arena) {
  Text all = {0};
  for (int i = 0; i < nsections; i++) text_printf(&all, "%s%s", i ? " " : "sections: ", sections[i].name);
  const char *label = arena_strdup(arena, all.at);
  text_close(&all);
  return label;
}

static Guess guess_section(Arena *arena, const char *name) {
  const char *names[32];
  CHECK(nsections <= 32);
  char path[80];
  for (int i = 0; i < nsections; i++)
    if (names_hold(sections[i].elsewhere, name))
      return (Guess){&sections[i], NULL, arena_printf(arena, "called '%s' here", sections[i].name)};
  const Key *key = key_anywhere(name);
  if (key) return (Guess){NULL, key, arena_printf(arena, "belongs in '%s'", key->section)};
  if ((key = key_elsewhere(NULL, name))) return (Guess){NULL, key, arena_printf(arena, "called '%s' here", key_path(key, path))};
  for (int i = 0; i < nsections; i++) names[i] = sections[i].name;
  const char *nearest = config_nearest(name, names, nsections);
  if (nearest) return (Guess){section_find(nearest), NULL, arena_printf(arena, "did you mean '%s'?", nearest)};
  if ((key = key_near(NULL, name))) return (Guess){NULL, key, arena_printf(arena, "did you mean '%s'?", key_path(key, path))};
  return (Guess){.label = all_sections(arena)};
}

/* ---- the file ---- */

static bool is_idle(const Loader *l, const Key *key) { return l->problems->idle && l->problems->idle[key - keys]; }

static void origin_set(Loader *l, const Key *key, Source source, Place place) {
  l->c->origin->source[key - keys] = source;
  l->c->origin->place[key - keys] = place;
}

/* A name that is not in the table: told, and what it stands for is not told of as missing, too. */
static void tell_unknown(Loader *l, Place place, Guess guess, const char *what) {
  problem_add(l->problems, place, guess.label, "%s", what);
  if (guess.key && key_source(l->c, guess.key) == SOURCE_UNSET) origin_set(l, guess.key, SOURCE_FAULTY, place);
}

static void tell_fault(Loader *l, const Key *key, const Fault *fault, Place place) {
  char path[80];
  problem_add(l->problems, place, fault->label, "'%s' %s", key_path(key, path), fault->what);
}

static void read_key(Loader *l, const char *section, const Node *name, const Node *value) {
  const Key *key = key_find(section, name->text);
  if (!key) {
    tell_unknown(l, name->place, guess_key(arena_of(l), section, name->text),
                 arena_printf(arena_of(l), "unknown key '%s.%.60s'", section, name->text));
    return;
  }
  if (is_idle(l, key)) return;
  Fault fault = {0};
  Place place;
  bool fine = value_parse_node(arena_of(l), key, value, l->c, &fault, &place);
  if (!fine) tell_fault(l, key, &fault, place);
  origin_set(l, key, fine ? l->from : SOURCE_FAULTY, value->place);
}

static void read_section(Loader *l, const Node *name, const Node *value) {
  const Section *section = section_find(name->text);
  if (key_find("", name->text)) {
    read_key(l, "", name, value);
    return;
  }
  if (!section) {
    Guess guess = guess_section(arena_of(l), name->text);
    tell_unknown(l, name->place, guess, arena_printf(arena_of(l), "unknown section '%.60s'", name->text));
    section = guess.section; /* whose keys these are taken for */
  }
  if (!section) return;
  if (value->kind == NODE_MAP) {
    for (int i = 0; i < value->items.n; i++) read_key(l, section->name, value->items.at[i].key, value->items.at[i].value);
  } else if (value->kind != NODE_TEXT || *value->text) { /* a section may be empty */
    problem_add(l->problems, value->place, NULL, "'%s' is a section of keys", name->text);
  }
}

/* ---- the command line ---- */

bool config_is_run_file(const char *word) { return text_ends(word, ".yaml") || text_ends(word, ".yml"); }

/* In brackets or braces patterns and lists of maps are YAML; a pattern alone needs no quotes.  False without a fault: told. */
static bool read_shell_value(Loader *l, const Key *key, const char *value, Fault *fault, Place *place) {
  if (!key_has_places(key)) return value_parse(arena_of(l), key, value, l->c, fault);
  const Node text = {.kind = NODE_TEXT, .text = value, .place = *place};
  const Node *node = strchr("[{", *value) ? yaml_read_value(l->problems, value, *place) : &text;
  return node && value_parse_node(arena_of(l), key, node, l->c, fault, place);
}

static void read_override(Loader *l, int argument, const char *word) {
  size_t n = strcspn(word, "=");
  const char *path = arena_strndup(arena_of(l), word, n), *value = word + n + 1, *dot = strchr(path, '.');
  Place at = {.argument = argument, .column = 1, .width = (int)n};
  const Key *key = key_find_path(path);
  if (!key && (!dot || !section_find(arena_strndup(arena_of(l), path, (size_t)(dot - path))))) {
    const char *section = dot ? arena_strndup(arena_of(l), path, (size_t)(dot - path)) : path;
    tell_unknown(l, at, guess_section(arena_of(l), section),
                 arena_printf(arena_of(l), "unknown %s '%.60s'", dot ? "section" : "key", section));
    return;
  }
  if (!key) {
    const char *section = arena_strndup(arena_of(l), path, (size_t)(dot - path));
    tell_unknown(l, at, guess_key(arena_of(l), section, dot + 1), arena_printf(arena_of(l), "unknown key '%.60s'", path));
    return;
  }
  if (is_idle(l, key)) return;
  Place before = l->c->origin->place[key - keys];
  if (before.argument) {
    problem_add(l->problems, at, arena_printf(arena_of(l), "first as argument %d", before.argument), "'%s' is given twice", path);
    return;
  }
  Place place = {.argument = argument, .column = (int)n + 2, .width = (int)strlen(value)};
  Fault fault = {0};
  Place faulty = place;
  if (!*value) fault.what = "has no value";
  if (utf8_valid(value, strlen(value)) < strlen(value)) fault.what = "is no UTF-8, which a run file is written in";
  bool fine = !fault.what && read_shell_value(l, key, value, &fault, &faulty);
  if (!fine && fault.what) tell_fault(l, key, &fault, faulty);
  origin_set(l, key, fine ? SOURCE_SHELL : SOURCE_FAULTY, place);
}

static void read_arguments(Loader *l, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strchr(argv[i], '=')) read_override(l, i, argv[i]);
}

/* Beside a word that is nothing: an option as other programs have them, a value with blanks, or what there may be. */
static const char *label_of_word(Arena *arena, int i, char **argv) {
  const char *word = argv[i] + strspn(argv[i], "-");
  const char *name = arena_strndup(arena, word, strcspn(word, "="));
  const Key *key = key_find_path(name);
  char path[80];
  if (!key) key = key_anywhere(name);
  if (!key) key = key_elsewhere(NULL, name);
  if (word > argv[i] && key) return arena_printf(arena, "keys have no dashes: %s=VALUE", key_path(key, path));
  if (i > 1 && strchr(argv[i - 1], '=')) return "if it belongs to the word before it: quotes around both, or no blank between";
  return "neither a run file (NAME.yaml) nor section.key=value";
}

/* The run file among the words, or NULL; words that are nothing are told. */
static const char *find_run_file(Problems *p, int argc, char **argv) {
  const char *file = NULL;
  for (int i = 1; i < argc; i++) {
    Place place = {.argument = i, .column = 1, .width = (int)strlen(argv[i])};
    if (strchr(argv[i], '=') && argv[i][0] != '-') continue;
    if (config_is_run_file(argv[i]) && !file) {
      file = argv[i];
    } else if (config_is_run_file(argv[i])) {
      problem_add(p, place, NULL, "a run takes one run file");
    } else {
      problem_add(p, place, label_of_word(p->arena, i, argv), "'%.60s' has no meaning", argv[i]);
    }
  }
  return file;
}

/* ---- defaults ---- */

static void fill_defaults(Loader *l) {
  bool shaped = key_given(l->c, key_find("model", "vocab_size"));
  for (int i = 0; i < nkeys; i++) {
    const Key *key = &keys[i];
    if (l->c->origin->source[i] != SOURCE_UNSET || !key->fallback || (key->shape && !shaped)) continue;
    Fault fault = {0};
    CHECK(value_parse(arena_of(l), key, key->fallback, l->c, &fault));
    l->c->origin->source[i] = SOURCE_DEFAULT;
  }
}

static Config *load(Problems *p, Source from, int argc, char **argv) {
  Config *c = arena_new(p->arena, Config);
  c->origin = arena_new(p->arena, ConfigOrigin);
  *c->origin = (ConfigOrigin){
      p->arena, p->name, p->text, p->argv, arena_array(p->arena, Source, nkeys), arena_array(p->arena, Place, nkeys)};
  c->file = p->name;
  c->demo = from == SOURCE_DEMO;
  Loader l = {c, p, from};
  Node *root = yaml_read(p);
  for (int i = 0; root && i < root->items.n; i++) read_section(&l, root->items.at[i].key, root->items.at[i].value);
  read_arguments(&l, argc, argv);
  if (root) {
    fill_defaults(&l);
    check_missing(c, p);
    check_derive(c);
    check_combinations(c, p);
  }
  problems_end(p);
  return c;
}

static char **argv_copy(Arena *arena, int argc, char **argv) {
  char **copy = arena_array(arena, char *, argc + 1);
  for (int i = 0; i < argc; i++) copy[i] = arena_strdup(arena, argv[i]);
  return copy;
}

static const char *read_file(Arena *arena, const char *path) {
  struct stat info;
  size_t n;
  if (!stat(path, &info) && info.st_size > RUN_FILE_MOST)
    fail(FAIL_INPUT,
         "run file %s has %lld bytes; at most %d are read\nhelp: a pattern, such as \"data/*.bin\", names many data files; "
         "hpctrain config --new > NAME.yaml starts a run file",
         path, (long long)info.st_size, RUN_FILE_MOST);
  char *text = file_read(path, &n);
  if (!text && errno == ENOENT)
    fail(FAIL_INPUT, "cannot read run file %s: %s\nhelp: hpctrain config --new > %s starts one", path, strerror(errno), path);
  if (!text) fail(FAIL_INPUT, "cannot read run file %s: %s", path, strerror(errno));
  if (strlen(text) != n) fail(FAIL_INPUT, "not a text: %s has a NUL byte at offset %zu", path, strlen(text));
  const char *copy = arena_strdup(arena, text);
  free(text);
  return copy;
}

static Config *load_words(Problems *p, int argc, int nranks) {
  p->name = find_run_file(p, argc, p->argv);
  problems_end(p);
  if (!p->name && !(access("hpctrain.yaml", F_OK) != 0 && errno == ENOENT)) p->name = "hpctrain.yaml";
  p->text = p->name ? read_file(p->arena, p->name) : demo_run_file(p->arena, nranks);
  return load(p, p->name ? SOURCE_FILE : SOURCE_DEMO, argc, p->argv);
}

Config *config_load(Arena *arena, int argc, char **argv, int nranks) {
  Problems p = {.arena = arena, .argv = argv_copy(arena, argc, argv)};
  return load_words(&p, argc, nranks);
}

Config *config_load_usable(Arena *arena, int argc, char **argv, int nranks, const char **left_out) {
  bool *idle = arena_array(arena, bool, nkeys);
  Config *c;
  bool again;
  do { /* without one key another may come to have no use */
    Problems p = {.arena = arena, .argv = argv_copy(arena, argc, argv), .idle = idle};
    c = load_words(&p, argc, nranks);
    again = p.again;
  } while (again);
  char path[80];
  *left_out = "";
  for (int i = 0; i < nkeys; i++)
    if (idle[i]) *left_out = arena_printf(arena, "%s%s%s", *left_out, **left_out ? " " : "", key_path(&keys[i], path));
  return c;
}

Config *config_parse(Arena *arena, const char *name, const char *text, int argc, char **argv) {
  Problems p = {
      .arena = arena, .name = arena_strdup(arena, name), .text = arena_strdup(arena, text), .argv = argv_copy(arena, argc, argv)};
  return load(&p, SOURCE_FILE, argc, p.argv);
}
