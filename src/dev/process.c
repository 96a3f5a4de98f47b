/* SPDX-License-Identifier: Apache-2.0 */
/* Running the compiler: started without a shell, outputs in a file, waited for by its own number, so that children of others
 * (a launcher, a library) are left alone. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/dev/back.h"

extern char **environ;

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
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attr;
  sigset_t passed, all;
  sigemptyset(&passed);
  sigaddset(&passed, SIGUSR1); /* whose asking a run to end asks its whole process group, as launchers do, not its compilers */
  sigfillset(&all);
  CHECK(!posix_spawn_file_actions_init(&files) && !posix_spawnattr_init(&attr));
  CHECK(!posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  CHECK(!posix_spawnattr_setsigmask(&attr, &passed) && !posix_spawnattr_setsigdefault(&attr, &all));
  CHECK(!posix_spawn_file_actions_addchdir_np(&files, folder));
  CHECK(!posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0));
  CHECK(!posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  CHECK(!posix_spawn_file_actions_adddup2(&files, 1, 2));
  pid_t pid;
  int error = posix_spawn(&pid, argv[0], &files, &attr, argv, (char *const *)env);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attr);
  free(env);
  if (!error) return pid;
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
