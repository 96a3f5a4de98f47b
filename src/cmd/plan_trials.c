/* SPDX-License-Identifier: Apache-2.0 */
/* Other settings of a run, each compiled in a process of its own: what cannot be (a batch that does not split, keys that exclude
 * one another) ends that process alone and leaves its reason, and cores work side by side. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/cmd/plan.h"

/* --- in the child ------------------------------------------------------------------------------------------------------------- */

typedef struct Result {
  int64_t micro;
  double nbytes, missing, tokens;
  char left_out[256];
} Result;

static bool same_key(const char *word, const char *other) {
  size_t n = strcspn(word, "=");
  return !strncmp(word, other, n) && other[n] == '=';
}

PlanWords trial_words(Arena *arena, const PlanWords *run, const Trial *trial) {
  PlanWords w = *run;
  w.argv = arena_array(arena, char *, run->argc + TRIAL_WORDS + 1);
  w.argc = 0;
  if (trial->ranks) w.ranks = trial->ranks;
  for (int i = 0; i < run->argc; i++) {
    int k = 0;
    while (k < TRIAL_WORDS && trial->words[k] && !same_key(trial->words[k], run->argv[i])) k++;
    if (k == TRIAL_WORDS || !trial->words[k]) w.argv[w.argc++] = run->argv[i];
  }
  for (int k = 0; k < TRIAL_WORDS && trial->words[k]; k++) {
    w.argv[w.argc++] = arena_strdup(arena, trial->words[k]);
    if (same_key("memory.recompute=", trial->words[k])) w.allowed = 0; /* no longer auto with so many */
  }
  return w;
}

/* Keys of the run may come to be without use; a word of the trial may not. */
static void check_use(Arena *arena, const Trial *trial, const char *left_out) {
  char *rest, *keys = arena_strdup(arena, left_out);
  for (char *key = strtok_r(keys, " ", &rest); key; key = strtok_r(NULL, " ", &rest))
    for (int k = 0; k < TRIAL_WORDS && trial->words[k]; k++)
      if (same_key(trial->words[k], arena_printf(arena, "%s=", key))) fail(FAIL_INPUT, "'%s' has no use here", key);
}

static Result try_it(const PlanWords *run, const Trial *trial) {
  Arena *arena = arena_open();
  Text warnings = {0};
  PlanWords w = trial_words(arena, run, trial);
  const char *left_out;
  const Config *c = plan_config_usable(arena, &w, &left_out);
  check_use(arena, trial, left_out);
  Prospect *p = plan_prospect(arena, c, &w, &warnings);
  Result r = {p->batch.micro, prospect_bytes(p), prospect_short(p), prospect_tokens(p) / w.ranks};
  snprintf(r.left_out, sizeof r.left_out, "%s", left_out);
  prospect_close(p);
  text_close(&warnings);
  arena_close(arena);
  return r;
}

static _Noreturn void try_chain(const PlanWords *run, const TrialChain *chain, int results, int errors) {
  if (dup2(errors, STDERR_FILENO) < 0) _exit(FAIL_MACHINE);
  for (int i = 0; i < chain->n; i++) {
    Result r = try_it(run, &chain->at[i]);
    if (write(results, &r, sizeof r) != sizeof r) _exit(FAIL_MACHINE);
    if (r.missing > 0) break;
  }
  _exit(0);
}

/* --- in the parent ------------------------------------------------------------------------------------------------------------ */

typedef struct Child {
  pid_t pid;
  int results, errors; /* ends of pipes: to be read */
} Child;

static _Noreturn void fail_system(const char *what) { fail(FAIL_MACHINE, "%s: %s", what, strerror(errno)); }

static Child start_chain(const PlanWords *run, const TrialChain *chain) {
  int results[2], errors[2];
  if (pipe(results) || pipe(errors)) fail_system("pipe");
  fflush(stdout);
  fflush(stderr);
  Child child = {fork(), results[0], errors[0]};
  if (child.pid < 0) fail_system("fork");
  if (!child.pid) try_chain(run, chain, results[1], errors[1]);
  close(results[1]);
  close(errors[1]);
  return child;
}

/* All that comes out of a pipe, as a text. */
static void drain(int fd, Text *text) {
  char some[4096];
  for (ssize_t n; (n = read(fd, some, sizeof some)) != 0;) {
    if (n < 0 && errno != EINTR) fail_system("reading from a process of this plan");
    if (n > 0) text_add(text, some, (size_t)n);
  }
  close(fd);
}

/* "error: global_batch_size does not split: …" without its first word and without what follows in further lines. */
static const char *reason(Arena *arena, const char *said) {
  static const char prefix[] = "error: ";
  const char *at = said ? strstr(said, prefix) : NULL;
  if (!at) return "it did not come to an end";
  at += strlen(prefix);
  return arena_strndup(arena, at, strcspn(at, "\n"));
}

static void finish_chain(Arena *arena, const Child *child, TrialChain *chain) {
  Text results = {0}, errors = {0};
  int status;
  drain(child->results, &results);
  drain(child->errors, &errors);
  while (waitpid(child->pid, &status, 0) < 0)
    if (errno != EINTR) fail_system("waiting for a process of this plan");
  int n = (int)(results.n / sizeof(Result));
  for (int i = 0; i < chain->n; i++) chain->at[i].known = false; /* it may have been tried before */
  for (int i = 0; i < n; i++) {
    Result r;
    memcpy(&r, results.at + (size_t)i * sizeof r, sizeof r);
    Trial *t = &chain->at[i];
    t->known = true;
    t->micro = r.micro;
    t->nbytes = r.nbytes;
    t->missing = r.missing;
    t->tokens = r.tokens;
    t->left_out = arena_strdup(arena, r.left_out);
  }
  if (status && n < chain->n) chain->at[n].why = reason(arena, errors.at);
  text_close(&results);
  text_close(&errors);
}

void trials_run(Arena *arena, const PlanWords *run, TrialChain *chains, int n) {
  enum { CHILDREN_MOST = 16 };
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int most = cores < 1 ? 1 : cores < CHILDREN_MOST ? (int)cores : CHILDREN_MOST, begun = 0;
  Child *children = arena_array(arena, Child, n);
  for (int ended = 0; ended < n; ended++) {
    for (; begun < n && begun < ended + most; begun++) children[begun] = start_chain(run, &chains[begun]);
    finish_chain(arena, &children[ended], &chains[ended]);
  }
}
