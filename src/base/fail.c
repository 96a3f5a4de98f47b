/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job, in one write() so that ranks that die together do not mix their lines. */
#include "src/base/fail.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char context[256];

static void hook_default(FailKind kind, const char *text) {
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written; /* nothing is left to do about a closed stderr */
  _exit((int)kind);
}

static FailHook *hook = hook_default;

void fail_set_hook(FailHook *h) { hook = h ? h : hook_default; }

void fail_set_context(const char *text) { snprintf(context, sizeof context, "%s", text); }

static _Atomic(FailUndo *) newest;

void fail_undo_push(FailUndo *u) {
  u->pid = (int)getpid();
  u->before = atomic_load(&newest);
  atomic_store(&newest, u);
}

void fail_undo_pop(FailUndo *u) {
  FailUndo *at = u;
  if (atomic_compare_exchange_strong(&newest, &at, u->before)) return;
  while (at && at->before != u) at = at->before; /* at: the newest; NULL when another thread fails and has taken them */
  if (at) at->before = u->before;
}

static void undo_all(void) {
  for (FailUndo *u = atomic_exchange(&newest, NULL); u; u = u->before)
    if (u->pid == (int)getpid()) u->undo(u->self);
}

/* The signal comes again, as it would have come, on return. */
static void undo_and_end(int number) {
  undo_all();
  raise(number);
}

void fail_undo_on_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction ours = {.sa_handler = undo_and_end, .sa_flags = SA_RESETHAND}, before;
  CHECK(!sigemptyset(&ours.sa_mask));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    CHECK(!sigaddset(&ours.sa_mask, numbers[i])); /* one undoes at a time */
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    CHECK(!sigaction(numbers[i], NULL, &before));
    if (before.sa_handler == SIG_DFL) CHECK(!sigaction(numbers[i], &ours, NULL)); /* what is ignored stays so */
  }
}

_Noreturn void fail(FailKind kind, const char *format, ...) {
  char text[65536]; /* all errors of a run file fit */
  int n = snprintf(text, sizeof text, "error: %s", context);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, sizeof text - (size_t)n - 1, format, args);
  va_end(args);
  strcat(text, "\n");
  undo_all();
  hook(kind, text);
  _exit((int)kind); /* a hook that returned */
}

_Noreturn void fail_check(const char *expression, const char *file, int line) {
  fail(FAIL_BUG, "%s:%d: CHECK(%s) does not hold\nhelp: this is a fault of hpctrain; please report it with run.yaml and log.txt",
       file, line, expression);
}

bool why_not(Why *why, const char *format, ...) {
  if (!why) return false;
  va_list args;
  va_start(args, format);
  vsnprintf(why->text, sizeof why->text, format, args);
  va_end(args);
  return false;
}
