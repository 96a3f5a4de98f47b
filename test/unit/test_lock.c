/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/lock.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "test/check.h"

static const char *lock_path(void) {
  static char path[4200];
  snprintf(path, sizeof path, "%s/LOCK", check_folder());
  return path;
}

/* A lock that another host wrote, last heard of age seconds ago. */
static void leave_lock(const char *text, int age) {
  CHECK(try_file_write(lock_path(), text, strlen(text), NULL));
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec -= age;
  CHECK(!utimensat(AT_FDCWD, lock_path(), (struct timespec[2]){now, now}, 0));
}

static bool can_acquire(void) {
  FailKind kind;
  Why why;
  Lock *lock = try_lock_acquire(check_folder(), &kind, &why);
  lock_release(lock);
  return lock != NULL;
}

TEST(a_lock_is_there_until_it_is_released) {
  unsetenv("SLURM_JOB_ID");
  Lock *lock = lock_acquire(check_folder());
  EXPECT(!access(lock_path(), F_OK) && !lock_lost(lock));
  EXPECT_FAIL(FAIL_INPUT, "in use by process", lock_acquire(check_folder()));
  EXPECT_FAIL(FAIL_INPUT, "help: other run.folder", lock_acquire(check_folder()));
  lock_release(lock);
  EXPECT(access(lock_path(), F_OK) && can_acquire());
}

TEST(a_dead_process_of_this_boot_holds_nothing) {
  check_folder();
  pid_t child = fork();
  if (!child) {
    lock_acquire(check_folder());
    kill(getpid(), SIGKILL);
  }
  siginfo_t info;
  CHECK(!waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT)); /* dead, not yet reaped */
  EXPECT(!access(lock_path(), F_OK) && can_acquire());
  pid_t again = fork();
  if (!again) {
    lock_acquire(check_folder());
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child && waitpid(again, NULL, 0) == again);
  EXPECT(!access(lock_path(), F_OK) && can_acquire());
}

TEST(another_host_holds_it_until_two_minutes_after_its_last_beat) {
  const char *text = "{\"job\":\"812345\",\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}";
  leave_lock(text, 3);
  EXPECT_FAIL(FAIL_INPUT, "in use by job 812345 (n001, alive 3 s ago)", lock_acquire(check_folder()));
  EXPECT_FAIL(FAIL_INPUT, "scancel 812345", lock_acquire(check_folder()));
  leave_lock(text, 110);
  EXPECT(!can_acquire());
  leave_lock(text, 125);
  EXPECT(can_acquire());
}

static bool job_can_acquire(const char *job, const char *restarts) {
  setenv("SLURM_JOB_ID", job, 1);
  if (restarts) setenv("SLURM_RESTART_COUNT", restarts, 1);
  bool can = can_acquire();
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_RESTART_COUNT");
  return can;
}

TEST(a_lock_of_before_the_job_was_queued_again_is_free_at_once) {
  const char *text = "{\"job\":\"812345\",\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}"; /* as older versions wrote it, too */
  leave_lock(text, 3);
  EXPECT(!job_can_acquire("812346", "1"));
  EXPECT(job_can_acquire("812345", "1"));
  leave_lock("{\"job\":\"812345\",\"restarts\":1,\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}", 3);
  EXPECT(!job_can_acquire("812345", "1"));
  EXPECT(job_can_acquire("812345", "2"));
}

TEST(two_runs_within_a_job_do_not_share_a_folder) {
  leave_lock("{\"job\":\"812345\",\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}", 3);
  setenv("SLURM_JOB_ID", "812345", 1);
  EXPECT_FAIL(FAIL_INPUT, "help: other run.folder, or end that process;", lock_acquire(check_folder()));
  leave_lock("{\"job\":\"812345\",\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}", 125);
  bool expired = can_acquire();
  unsetenv("SLURM_JOB_ID");
  EXPECT(expired);
}

static double boot_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool beats(Lock *lock, double after) {
  lock_beat(lock, boot_seconds() + after);
  return !lock_lost(lock);
}

TEST(a_lock_that_is_gone_is_made_again_unless_it_had_expired) {
  Lock *lock = lock_acquire(check_folder());
  CHECK(!unlink(lock_path()));
  EXPECT(beats(lock, LOCK_EXPIRES - 2) && !access(lock_path(), F_OK));
  CHECK(!unlink(lock_path()));
  EXPECT(beats(lock, 2 * LOCK_EXPIRES - 4) && !access(lock_path(), F_OK));
  EXPECT(beats(lock, 9 * LOCK_EXPIRES)); /* nobody took it */
  CHECK(!unlink(lock_path()));
  EXPECT(!beats(lock, 10 * LOCK_EXPIRES) && access(lock_path(), F_OK)); /* somebody may have, and be done */
  lock_release(lock);
}

TEST(a_lock_that_another_took_is_lost_and_stays_the_others) {
  Lock *lock = lock_acquire(check_folder());
  leave_lock("{\"job\":\"812345\",\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}", 0);
  EXPECT(!beats(lock, 0));
  lock_release(lock);
  EXPECT(!access(lock_path(), F_OK) && !can_acquire());
}

/* The library's, but that it may find the file removed by another node. */
static bool stale;
int futimens(int fd, const struct timespec times[2]) {
  errno = ESTALE;
  return stale ? -1 : (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

TEST(what_a_network_still_shows_is_lost_once_it_is_stale) {
  size_t nbytes;
  Lock *lock = lock_acquire(check_folder());
  char *text = file_read(lock_path(), &nbytes);
  stale = true;
  EXPECT(beats(lock, 0)); /* looked at again, it is ours */
  int fd = open(lock_path(), O_WRONLY | O_TRUNC);
  CHECK(text && fd >= 0);
  char *pid = strstr(text, "\"pid\":");
  CHECK(pid);
  pid[6] = pid[6] == '9' ? '8' : '9'; /* another's, at the same inode */
  CHECK(write(fd, text, nbytes) == (ssize_t)nbytes && !close(fd));
  EXPECT(!beats(lock, 0));
  lock_release(lock);
  stale = false;
  EXPECT(!access(lock_path(), F_OK));
  free(text);
}

/* A run folder that is moved to another file system and back. */
TEST(a_copy_of_the_own_lock_is_kept_fresh_and_released) {
  size_t nbytes;
  Lock *lock = lock_acquire(check_folder());
  char *text = file_read(lock_path(), &nbytes);
  CHECK(text);
  leave_lock("", 0); /* as cp makes it at first */
  EXPECT(beats(lock, 0));
  leave_lock(text, 100);
  EXPECT(beats(lock, 0));
  struct stat info;
  CHECK(!stat(lock_path(), &info));
  EXPECT(time(NULL) - info.st_mtime < 50);
  lock_release(lock);
  EXPECT(access(lock_path(), F_OK));
  free(text);
}

TEST(a_lock_that_cannot_be_read_goes_by_its_age) {
  const char *bad[] = {"", "{", "[]", "{\"pid\":99999999999999,\"host\":7}", "\x1b[2J"};
  for (int i = 0; i < 5; i++) {
    leave_lock(bad[i], 1);
    EXPECT_FAIL(FAIL_INPUT,
                i == 3 ? "in use by process 99999999999999" : "in use by somebody whom LOCK does not name (unknown host",
                lock_acquire(check_folder()));
    leave_lock(bad[i], 1000);
    EXPECT(can_acquire());
  }
}

TEST(of_many_that_find_a_stale_lock_one_gets_it) {
  for (int round = 0; round < 20; round++) {
    int start[2], done[2], tried[2], winners = 0;
    leave_lock("{\"host\":\"n001\",\"pid\":1,\"boot\":\"x\"}", 1000);
    CHECK(!pipe(start) && !pipe(done) && !pipe(tried));
    pid_t child[8];
    for (int i = 0; i < 8; i++) {
      child[i] = fork();
      if (child[i]) continue;
      close(start[1]);
      close(done[1]);
      char byte;
      FailKind kind;
      Why why;
      CHECK(read(start[0], &byte, 1) == 0);
      Lock *lock = try_lock_acquire(check_folder(), &kind, &why);
      CHECK(lock || kind == FAIL_INPUT);
      CHECK(write(tried[1], "", 1) == 1);
      if (!lock) _exit(0);
      CHECK(read(done[0], &byte, 1) == 0); /* holds it until all have tried */
      _exit(lock_lost(lock) ? 3 : 1);
    }
    close(start[1]);
    char byte;
    for (int i = 0; i < 8; i++) CHECK(read(tried[0], &byte, 1) == 1);
    close(done[1]);
    for (int i = 0; i < 8; i++) {
      int status;
      CHECK(waitpid(child[i], &status, 0) == child[i]);
      EXPECT(WIFEXITED(status) && WEXITSTATUS(status) < 2);
      winners += WEXITSTATUS(status);
    }
    close(start[0]);
    close(done[0]);
    close(tried[0]);
    close(tried[1]);
    EXPECT(winners == 1);
  }
}

TEST(a_folder_that_cannot_be_written_is_the_machines_fault) {
  EXPECT_FAIL(FAIL_MACHINE, "nowhere: cannot be written: No such file", lock_acquire("nowhere"));
  CHECK(!chmod(check_folder(), 0555));
  EXPECT_FAIL(FAIL_MACHINE, "help: set run.folder", {
    if (getuid() == 0) CHECK(!setuid(65534));
    lock_acquire(check_folder());
  });
}
