/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain ckpt ls|show|verify|diff|copy: what runs have saved.  A folder is a run's, whose newest step is meant, or a step's.  One
 * process, without MPI; a run may save meanwhile. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/ckpt.h"
#include "src/base/clock.h"
#include "src/cmd/cmd.h"
#include "src/config/config.h"
#include "src/report/human.h"

enum { THREADS_MOST = 16 };

static const char help[] = "hpctrain help ckpt";

static int threads(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  return n < THREADS_MOST ? n : THREADS_MOST;
}

/* --- which step ----------------------------------------------------------------------------------------------------------- */

static bool is_step_folder(Arena *arena, const char *folder) {
  struct stat info;
  return !stat(arena_printf(arena, "%s/manifest.json", folder), &info);
}

static const char *base_name(Arena *arena, const char *path) {
  char *copy = arena_strdup(arena, path);
  for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
  const char *slash = strrchr(copy, '/');
  return slash && slash[1] ? slash + 1 : copy;
}

static const int64_t *list(Arena *arena, const char *folder, int *n) {
  const int64_t *steps = ckpt_list(arena, folder, n);
  if (!*n)
    fail(FAIL_INPUT, "%s: no checkpoint there\nhelp: give the folder of a run that has saved, or one of its step folders", folder);
  return steps;
}

static const char *step_folder(Arena *arena, const char *folder) {
  int n;
  if (is_step_folder(arena, folder)) return folder;
  const int64_t *steps = list(arena, folder, &n);
  return ckpt_path(arena, ckpt_steps_folder(arena, folder), steps[n - 1], "");
}

static Ckpt *open_step(Arena *arena, const char *folder) {
  const char *path = step_folder(arena, folder);
  Why why;
  Ckpt *c = try_ckpt_open(path, &why);
  if (!c) ckpt_fail_step(path, why.text);
  return c;
}

/* --- words about datasets --------------------------------------------------------------------------------------------------- */

static const char *type_name(const CkptEntry *e) {
  return e->is_text ? "text" : e->dtype == DT_F32 ? "fp32" : dtype_name(e->dtype);
}

static const char *shape_text(Arena *arena, const CkptEntry *e) {
  char *text = arena_strdup(arena, "");
  if (e->is_text) return arena_printf(arena, "%" PRId64 " bytes", e->n - 1);
  for (int k = 0; k < e->rank; k++) text = arena_printf(arena, "%s%s%" PRId64, text, k ? "x" : "", e->shape[k]);
  return e->rank ? text : "scalar";
}

static const char *fact(const Ckpt *c, const char *name) {
  const char *text = ckpt_fact(c, name);
  return text ? text : "-";
}

/* --- ls --------------------------------------------------------------------------------------------------------------------- */

static void list_step(Arena *arena, const char *name, const char *path, bool newest) {
  Why why;
  char tokens[HUMAN_TEXT] = "-", bytes[HUMAN_TEXT], loss[HUMAN_TEXT] = "-";
  double value;
  Ckpt *c = try_ckpt_open(path, &why);
  if (!c) {
    printf("%s  %s%s\n", name, ckpt_is_newer(path) ? "" : "damaged: ", why.text);
    return;
  }
  if (num_parse_double(fact(c, "tokens"), &value)) human_count(value, tokens);
  if (num_parse_double(fact(c, "loss"), &value)) human_fixed(value, 9, 3, loss);
  printf("%s  %5s tokens  %7s  loss %s%s%s\n", name, tokens, human_bytes((double)ckpt_nbytes(c), bytes), loss,
         ckpt_files(c) > 1 ? arena_printf(arena, "  %d files", ckpt_files(c)) : "", newest ? "  newest" : "");
  ckpt_close(c);
}

static int run_ls(Arena *arena, char **words) {
  int n;
  const char *folder = words[0];
  if (is_step_folder(arena, folder)) {
    list_step(arena, base_name(arena, folder), folder, false);
    return 0;
  }
  const int64_t *steps = list(arena, folder, &n);
  for (int i = 0; i < n; i++) {
    const char *path = ckpt_path(arena, ckpt_steps_folder(arena, folder), steps[i], "");
    list_step(arena, base_name(arena, path), path, i == n - 1);
  }
  return 0;
}

/* --- show ------------------------------------------------------------------------------------------------------------------- */

static const char model[] = "/model/";

static const char *moments_text(Arena *arena, const Ckpt *c, const char *name) {
  static const char *const slots[] = {"m", "v"};
  const char *text = "";
  for (int i = 0; i < 2; i++) {
    const CkptEntry *e = ckpt_find(c, arena_printf(arena, "/optim/%s/%s", slots[i], name));
    if (e) text = arena_printf(arena, "%s, %s %s", text, slots[i], type_name(e));
  }
  return text;
}

static void show_files(const Ckpt *c) {
  for (int i = 0; i < ckpt_files(c); i++) {
    int64_t nbytes;
    char bytes[HUMAN_TEXT];
    const char *name = ckpt_file(c, i, &nbytes);
    int n = 0;
    for (int k = 0; k < ckpt_n(c); k++) n += ckpt_at(c, k)->file == i;
    printf("  %s  %s, %d datasets\n", name, human_bytes((double)nbytes, bytes), n);
  }
}

/* A parameter with its moments is a line; what else is there follows under its whole path. */
static int run_show(Arena *arena, char **words) {
  Ckpt *c = open_step(arena, words[0]);
  size_t wide = 0;
  for (int i = 0; i < ckpt_n(c); i++) {
    size_t n = strlen(ckpt_at(c, i)->path);
    if (n > wide) wide = n;
  }
  printf("%s, by %s rank%s %s, loads on any\n", base_name(arena, ckpt_folder(c)), fact(c, "ranks"),
         strcmp(fact(c, "ranks"), "1") ? "s" : "", fact(c, "strategy"));
  if (ckpt_files(c) > 1) show_files(c);
  for (int others = 0; others < 2; others++)
    for (int i = 0; i < ckpt_n(c); i++) {
      const CkptEntry *e = ckpt_at(c, i);
      bool is_param = !strncmp(e->path, model, strlen(model));
      if (is_param == others || (others && !strncmp(e->path, "/optim/", strlen("/optim/")))) continue;
      const char *name = is_param ? e->path + strlen(model) : e->path;
      printf("  %-*s  %-12s  %s%s\n", (int)wide, name, shape_text(arena, e), type_name(e),
             is_param ? moments_text(arena, c, name) : "");
    }
  ckpt_close(c);
  return 0;
}

/* --- verify ----------------------------------------------------------------------------------------------------------------- */

static void tell_damage(void *self, const char *damage) {
  (void)self;
  printf("damaged  %s\n", damage);
}

static int run_verify(Arena *arena, char **words) {
  double begin = clock_seconds();
  char bytes[HUMAN_TEXT];
  Ckpt *c = open_step(arena, words[0]);
  int bad = ckpt_verify(c, 0, 1, threads(), tell_damage, NULL);
  fflush(stdout); /* fail() does not */
  if (bad)
    fail(FAIL_INPUT, "%s: %d of %d datasets damaged\nhelp: use another checkpoint; hpctrain ckpt ls lists them", ckpt_folder(c),
         bad, ckpt_n(c));
  printf("ok: %d datasets, %s, %.1f s\n", ckpt_n(c), human_bytes((double)ckpt_nbytes(c), bytes), clock_seconds() - begin);
  ckpt_close(c);
  return 0;
}

/* --- diff ------------------------------------------------------------------------------------------------------------------- */

typedef struct Difference {
  Arena *arena;
  const char *names[2];
  int n;
} Difference;

static void tell_difference(void *self, const CkptDiff *d) {
  Difference *all = self;
  const CkptEntry *e = d->a ? d->a : d->b;
  all->n++;
  if (d->change == CKPT_CHANGED && e->is_text) printf("changed   %s\n", e->path);
  if (d->change == CKPT_CHANGED && !e->is_text)
    printf("changed   %s  %" PRId64 " of %" PRId64 " elements, by %.3g at most, relative %.3g\n", e->path, d->n, e->n, d->most,
           d->relative);
  if (d->change == CKPT_RESHAPED)
    printf("reshaped  %s  %s %s, %s %s\n", e->path, shape_text(all->arena, d->a), type_name(d->a), shape_text(all->arena, d->b),
           type_name(d->b));
  if (d->change == CKPT_ONLY_FIRST || d->change == CKPT_ONLY_SECOND)
    printf("only      %s  in %s\n", e->path, all->names[d->change == CKPT_ONLY_SECOND]);
}

static int run_diff(Arena *arena, char **words) {
  Ckpt *a = open_step(arena, words[0]), *b = open_step(arena, words[1]);
  Difference all = {.arena = arena, .names = {ckpt_folder(a), ckpt_folder(b)}};
  int changes = ckpt_diff(a, b, tell_difference, &all);
  if (changes)
    printf("%d of %d datasets differ\n", changes, all.n);
  else
    printf("same: %d datasets, by their checksums\n", all.n);
  ckpt_close(a);
  ckpt_close(b);
  return changes > 0; /* as of diff */
}

/* --- copy ------------------------------------------------------------------------------------------------------------------- */

static int run_copy(Arena *arena, char **words) {
  double begin = clock_seconds();
  char bytes[HUMAN_TEXT];
  Why why;
  Ckpt *c = open_step(arena, words[0]);
  if (is_step_folder(arena, words[1]))
    fail(FAIL_INPUT, "%s is a step's folder\nhelp: give a run's folder or any other; the step becomes a folder in it", words[1]);
  if (!try_ckpt_copy(c, words[1], threads(), &why))
    fail(FAIL_MACHINE, "%s is not copied: %s\nhelp: hpctrain ckpt verify tells whether it is whole", ckpt_folder(c), why.text);
  printf("copied %s to %s: %d datasets, %s, verified, %.1f s\n", ckpt_folder(c), words[1], ckpt_n(c),
         human_bytes((double)ckpt_nbytes(c), bytes), clock_seconds() - begin);
  ckpt_close(c);
  return 0;
}

/* --- the table ---------------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name, *folders;
  int n; /* of folders */
  int (*run)(Arena *arena, char **words);
} tools[] = {
    {"ls", "FOLDER", 1, run_ls},
    {"show", "FOLDER", 1, run_show},
    {"verify", "FOLDER", 1, run_verify},
    {"diff", "FOLDER FOLDER", 2, run_diff},
    {"copy", "FOLDER TO_FOLDER", 2, run_copy},
};
enum { TOOLS = sizeof tools / sizeof *tools };

int cmd_ckpt(int argc, char **argv) {
  const char *names[TOOLS];
  int t = 0;
  while (t < TOOLS && (argc < 2 || strcmp(argv[1], tools[t].name))) t++;
  for (int i = 0; i < TOOLS; i++) names[i] = tools[i].name;
  if (t == TOOLS) {
    const char *near = argc > 1 ? config_nearest(argv[1], names, TOOLS) : NULL;
    fail(FAIL_INPUT, "ckpt%s%.60s: ls, show, verify, diff or copy is wanted\nhelp: %s%s%s", argc > 1 ? " " : "",
         argc > 1 ? argv[1] : "", near ? "did you mean '" : "", near ? near : help, near ? "'?" : "");
  }
  if (argc != tools[t].n + 2)
    fail(FAIL_INPUT, "usage: hpctrain ckpt %s %s\nhelp: a folder is a run's (its newest step) or a step's; %s", tools[t].name,
         tools[t].folders, help);
  for (int i = 2; i < argc; i++) /* of a shell's variable that is not set: it would be the root folder */
    if (!*argv[i]) fail(FAIL_INPUT, "ckpt %s: a folder has no name\nhelp: '.' is this one; %s", tools[t].name, help);
  Arena *arena = arena_open();
  int status = tools[t].run(arena, argv + 2);
  arena_close(arena);
  return status;
}
