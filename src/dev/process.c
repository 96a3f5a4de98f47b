/* SPDX-License-Identifier: Apache-2.0 */
/* Running the compiler: started without a shell, outputs in a file, waited for by its own number, so that children of others
 * (a launcher, a library) are left alone. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/dev/back.h"

extern char **environ;

/* What a child of vfork begins with: it has its parent's memory, and its parent sleeps until the child has become the compiler. */
typedef struct Start {
  char *const *argv;
  char *const *env;
  const char *folder, *log;
  volatile int error; /* errno of what the child could not do; volatile, since compilers do not see that vfork returns twice here */
} Start;

static bool open_as(int fd, const char *path, int flags) {
  int at = open(path, flags, 0600);
  return at == fd || (at >= 0 && dup2(at, fd) == fd && !close(at));
}

/* SIGUSR1 asks a run to end; launchers and Slurm send it to every process of a step.  Compilers ignore it, which posix_spawn has no
 * word for: a shell around one may unblock what is blocked, but leaves ignored what it was started with.  What the job was started
 * with (nohup) stays ignored, too; no handler of ours may run here. */
static bool signals_pass(void) {
  sigset_t none;
  struct sigaction now;
  for (int i = 1; i < NSIG; i++) {
    bool usual = i == SIGCHLD || i == SIGPIPE || (!sigaction(i, NULL, &now) && now.sa_handler != SIG_IGN);
    if (usual) signal(i, SIG_DFL);
  }
  return signal(SIGUSR1, SIG_IGN) != SIG_ERR && !sigemptyset(&none) && !sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A compiler stays in its rank's process group, which launchers end as a whole.  Where the rank alone is killed, the kernel ends
 * the rank's own child; what that has started (cc1) finishes the text that it is at, which nobody reads any more. */
static _Noreturn void child_begin(Start *start) {
  if (signals_pass() && !prctl(PR_SET_PDEATHSIG, SIGTERM) && !chdir(start->folder) && open_as(0, "/dev/null", O_RDONLY) &&
      open_as(1, start->log, O_WRONLY | O_CREAT | O_TRUNC) && dup2(1, 2) == 2)
    execve(start->argv[0], start->argv, start->env);
  start->error = errno;
  _exit(127);
}

pid_t process_start(char *const *argv, const char *folder, const char *log, Why *why) {
  int nenv = 0;
  while (environ[nenv]) nenv++;
  const char **env = xmalloc(sizeof *env * (size_t)(nenv + 3));
  char tmpdir[PATH_MAX + 8];
  int kept = 0;
  snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", folder);
  for (int i = 0; i < nenv; i++)
    if (strncmp(environ[i], "TMPDIR=", 7) && strncmp(environ[i], "LC_ALL=", 7)) env[kept++] = environ[i];
  env[kept++] = tmpdir;
  env[kept++] = "LC_ALL=C"; /* its words are read below */
  env[kept] = NULL;
  Start start = {argv, (char *const *)env, folder, log, 0};
  sigset_t all, before;
  sigfillset(&all);
  CHECK(!pthread_sigmask(SIG_SETMASK, &all, &before));
  pid_t pid = vfork(); /* fork would copy the page tables of all that a rank holds */
  if (!pid) child_begin(&start);
  int error = pid < 0 ? errno : start.error;
  CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
  free(env);
  if (!error) return pid;
  if (pid > 0) waitpid(pid, NULL, 0);
  why_not(why, "cannot start the compiler %s: %s\nhelp: name another with cpu.compiler", argv[0], strerror(error));
  return -1;
}

bool process_ended(pid_t pid, int *status) {
  pid_t got;
  do got = waitpid(pid, status, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got < 0) *status = 0; /* SIGCHLD is ignored: whether its output is there tells */
  return got != 0;
}

bool process_failed(const char *program, const char *folder, const char *log, int status, Why *why) {
  char path[PATH_MAX + 32], end[64];
  snprintf(path, sizeof path, "%s/%s", folder, log);
  size_t n;
  char *words = file_read(path, &n);
  char *from = words ? strstr(words, "error") : NULL;
  while (from && from > words && from[-1] != '\n') from--;
  if (WIFSIGNALED(status))
    snprintf(end, sizeof end, "was killed by signal %d", WTERMSIG(status));
  else
    snprintf(end, sizeof end, "failed with status %d", WIFEXITED(status) ? WEXITSTATUS(status) : status);
  const char *told = from ? from : words ? words : "";
  why_not(
      why,
      "the C compiler %s %s\n%.600s\nhelp: name another with cpu.compiler, or choose the slow interpreter with cpu.compiler: none",
      program, end, told);
  free(words);
  return false;
}

bool process_run(char *const *argv, const char *folder, const char *log, Why *why) {
  pid_t pid = process_start(argv, folder, log, why);
  int status;
  if (pid < 0) return false;
  while (!process_ended(pid, &status)) nanosleep(&(struct timespec){0, 1000000}, NULL);
  return !status || process_failed(argv[0], folder, log, status, why);
}
