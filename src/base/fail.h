/* SPDX-License-Identifier: Apache-2.0 */
/* Two verbs end a job.  fail() when the user, a file or the machine is wrong; CHECK() when we are.
 * Both report once and go through one hook, so that the whole MPI job ends, not one rank of it.
 *
 * A function with a plan B is called try_…: it returns false and leaves the reason in a Why. */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* The process's exit status, by whose turn it is to act (hpctrain --help lists them). */
typedef enum FailKind {
  FAIL_BUG = 1,     /* ours: a CHECK that did not hold */
  FAIL_INPUT = 2,   /* the run file, a data file, a checkpoint, the command line */
  FAIL_MACHINE = 3, /* memory, disk, compiler, driver, permissions */
  FAIL_LOST = 4,    /* a rank died or hangs */
} FailKind;

/* Reports "error: " and the message on stderr in one write, then ends the job with status kind.  The message may have
 * several lines: by custom "help: what to do" comes last.  Does not return. */
_Noreturn void fail(FailKind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For what can only be false by our own mistake.  Kept in every build. */
#define CHECK(e) ((e) ? (void)0 : fail_check(#e, __FILE__, __LINE__))
_Noreturn void fail_check(const char *expression, const char *file, int line);

/* Called with the finished text after the process's own context ("rank 3 (n002): ") is known; must end the job.
 * The default writes the text to stderr and calls _exit(kind).  One hook: comm sets it at boot. */
typedef void FailHook(FailKind kind, const char *text);
void fail_set_hook(FailHook *hook);

/* Text that precedes every message once set, such as "rank 3 (n002): "; "" at start.  Copied. */
void fail_set_context(const char *context);

/* What else goes with a job that fails: files that nobody will finish.  Done before the error is told, the newest first, by the
 * process that has pushed it; undo must not fail itself, and calls nothing but what signal-safety(7) allows.  Push and pop are for
 * one thread, in pairs. */
typedef struct FailUndo FailUndo;
struct FailUndo {
  void (*undo)(void *self);
  void *self;
  int pid; /* the rest is fail's */
  FailUndo *before;
};
void fail_undo_push(FailUndo *u); /* which stays where it is until the pop */
void fail_undo_pop(FailUndo *u);
/* Signals that end the process (SIGINT, SIGTERM, SIGHUP) undo the same from here on, until somebody else listens to them. */
void fail_undo_on_signals(void);

/* The reason of a try_… that returned false. */
typedef struct Why {
  char text[1024];
} Why;

/* Fills why (which may be NULL) and returns false, so that a try_… can end in `return why_not(why, …)`. */
bool why_not(Why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
