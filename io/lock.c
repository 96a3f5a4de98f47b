/* SPDX-License-Identifier: Apache-2.0 */
/* Taking: an exclusive create, which network file systems keep too.  Taking over: a stale file is removed under flock and
 * only while it is still the one at that path, so that of several jobs that find it stale none removes the winner's (where a
 * file system has no flock, two that come within the same millisecond could).  Ages are differences of the file system's
 * own times, so that hosts' clocks need not agree. */
#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/json.h"
#include "src/base/arena.h"
#include "src/base/text.h"

/* Who holds a lock: one line of JSON.  Empty texts where the system does not tell. */
typedef struct Holder {
  char host[256], boot[64], space[64], job[64]; /* space: of process ids (a container has its own) */
  int64_t pid, started;                         /* started: clock ticks after boot */
} Holder;

struct Lock {
  char path[4096];
  int fd;
  pthread_t beat;
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  bool end, lost; /* under mutex */
};

/* --- who ---------------------------------------------------------------------------------------------------------------- */

static void read_line(const char *path, char *out, size_t n) {
  size_t nbytes;
  char *text = file_read(path, &nbytes);
  snprintf(out, n, "%s", text ? text : "");
  out[strcspn(out, "\n")] = 0;
  free(text);
}

/* When the process began, -1 when it is not there or only its remains are. */
static int64_t process_start(int64_t pid) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  read_line(path, line, sizeof line);
  const char *p = strrchr(line, ')'); /* a name may hold anything */
  if (!p || strspn(p, ") ") != 2 || p[2] == 'Z' || p[2] == 'X') return -1;
  p += 2;
  for (int field = 3; field < 22; field++) { /* proc(5): the state is field 3, the start 22 */
    p = strchr(p, ' ');
    if (!p) return -1;
    p++;
  }
  return strtoll(p, NULL, 10);
}

static void describe_self(Holder *h) {
  *h = (Holder){.pid = getpid(), .started = process_start(getpid())};
  if (gethostname(h->host, sizeof h->host - 1)) *h->host = 0;
  read_line("/proc/sys/kernel/random/boot_id", h->boot, sizeof h->boot);
  if (readlink("/proc/self/ns/pid", h->space, sizeof h->space - 1) < 0) *h->space = 0;
  const char *job = getenv("SLURM_JOB_ID");
  snprintf(h->job, sizeof h->job, "%s", job ? job : "");
}

static char *holder_text(const Holder *h) {
  json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:s, s:s}", "job", h->job, "host", h->host, "pid", (json_int_t)h->pid, "started",
                           (json_int_t)h->started, "boot", h->boot, "space", h->space);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  CHECK(text);
  return text;
}

static void copy_text(const json_t *root, const char *key, char *out, size_t n) {
  const char *text = json_string_value(json_object_get(root, key));
  snprintf(out, n, "%s", text ? text : "");
  for (char *p = out; *p; p++)
    if ((unsigned char)*p < ' ') *p = '?'; /* it may end up in a message */
}

/* What cannot be read leaves the holder empty: then its age decides. */
static void read_holder(const char *path, Holder *h) {
  *h = (Holder){0};
  Why why;
  json_t *root = json_parse_file(path, &why);
  copy_text(root, "host", h->host, sizeof h->host);
  copy_text(root, "boot", h->boot, sizeof h->boot);
  copy_text(root, "space", h->space, sizeof h->space);
  copy_text(root, "job", h->job, sizeof h->job);
  h->pid = json_integer_value(json_object_get(root, "pid"));
  h->started = json_integer_value(json_object_get(root, "started"));
  json_decref(root);
}

typedef enum Life { LIFE_UNKNOWN, LIFE_ALIVE, LIFE_DEAD } Life;

static Life holder_life(const Holder *h, const Holder *self) {
  bool here = *h->boot && !strcmp(h->host, self->host) && !strcmp(h->boot, self->boot) && !strcmp(h->space, self->space);
  if (!here || h->pid <= 0 || h->pid > INT32_MAX) return LIFE_UNKNOWN;
  if (kill((pid_t)h->pid, 0) && errno == ESRCH) return LIFE_DEAD;
  int64_t started = process_start(h->pid);
  if (started < 0) return kill((pid_t)h->pid, 0) && errno == EPERM ? LIFE_UNKNOWN : LIFE_DEAD; /* hidden, or a zombie */
  return started == h->started ? LIFE_ALIVE : LIFE_DEAD;
}

/* --- taking ------------------------------------------------------------------------------------------------------------- */

static double seconds(struct timespec t) { return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }

/* The file system's time now: that of a file just made. */
static bool now_there(const char *probe, double *now) {
  struct stat info;
  int fd = open(probe, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && write(fd, "\n", 1) == 1 && !fstat(fd, &info);
  int error = errno;
  if (fd >= 0) close(fd);
  unlink(probe);
  errno = error;
  if (ok) *now = seconds(info.st_mtim);
  return ok;
}

static bool refuse(const char *folder, const Holder *h, double age, FailKind *kind, Why *why) {
  char who[96], end[96];
  *kind = FAIL_INPUT;
  snprintf(who, sizeof who, "process %lld", (long long)h->pid);
  snprintf(end, sizeof end, "end that process");
  if (*h->job) {
    snprintf(who, sizeof who, "job %s", h->job);
    snprintf(end, sizeof end, "scancel %s", h->job);
  }
  return why_not(why,
                 "%s in use by %s (%.80s, alive %.0f s ago)\n"
                 "help: other run.folder, or %s; a dead job's lock expires in 2 min (same job id: at once)",
                 folder, who, *h->host ? h->host : "unknown host", age > 0 ? age : 0, end);
}

static bool refuse_folder(const char *folder, int error, FailKind *kind, Why *why) {
  *kind = FAIL_MACHINE;
  return why_not(why, "%s: cannot be written: %s\nhelp: set run.folder to a folder that you may write, with room left", folder,
                 strerror(error));
}

/* Is the file open as fd, and no newer one, still at path? */
static bool is_at(int fd, const char *path) {
  struct stat there, ours;
  if (fstat(fd, &ours)) return true; /* cannot be told */
  if (stat(path, &there)) return errno != ENOENT;
  return there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
}

/* Removes the lock open as fd if it may be: true when the way is free or somebody else has changed what is there. */
static bool clear_open(int fd, const char *folder, const char *path, const Holder *self, FailKind *kind, Why *why) {
  char probe[4400];
  struct stat seen;
  Holder h;
  double now = 0;
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return usleep(10000), true;
  if (!is_at(fd, path)) return true;
  read_holder(path, &h);
  snprintf(probe, sizeof probe, "%s.%.255s.%lld", path, self->host, (long long)self->pid);
  if (fstat(fd, &seen) || !now_there(probe, &now)) return refuse_folder(folder, errno, kind, why);
  double age = now - seconds(seen.st_mtim);
  Life life = holder_life(&h, self);
  bool same_job = *self->job && !strcmp(h.job, self->job);
  bool is_free = life == LIFE_DEAD || (life == LIFE_UNKNOWN && (same_job || age > LOCK_EXPIRES));
  if (!is_free) return refuse(folder, &h, age, kind, why);
  return !unlink(path) || errno == ENOENT || refuse_folder(folder, errno, kind, why);
}

static bool clear_stale(const char *folder, const char *path, const Holder *self, FailKind *kind, Why *why) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || refuse_folder(folder, errno, kind, why);
  bool ok = clear_open(fd, folder, path, self, kind, why);
  close(fd);
  return ok;
}

/* The new lock's descriptor; -1 with errno. */
static int create_lock(const char *path, const Holder *self) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  char *text = holder_text(self);
  ssize_t n = (ssize_t)strlen(text);
  bool ok = write(fd, text, (size_t)n) == n;
  int error = errno;
  free(text);
  if (ok) return fd;
  close(fd);
  unlink(path);
  errno = error ? error : ENOSPC;
  return -1;
}

/* --- keeping ------------------------------------------------------------------------------------------------------------ */

/* False: the lock is somebody else's.  A beat that fails is made good by the next. */
static bool beat(Lock *lock) {
  if (is_at(lock->fd, lock->path)) {
    futimens(lock->fd, NULL);
    return true;
  }
  Holder self;
  describe_self(&self);
  int fd = create_lock(lock->path, &self);
  if (fd < 0) return errno != EEXIST;
  close(lock->fd);
  lock->fd = fd;
  return true;
}

static void *keep_fresh(void *argument) {
  Lock *lock = argument;
  pthread_mutex_lock(&lock->mutex);
  while (!lock->end && !lock->lost) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOCK_BEAT;
    pthread_cond_timedwait(&lock->ended, &lock->mutex, &until);
    pthread_mutex_unlock(&lock->mutex); /* a slow file system must not hold up lock_lost */
    bool lost = !beat(lock);
    pthread_mutex_lock(&lock->mutex);
    lock->lost = lost;
  }
  pthread_mutex_unlock(&lock->mutex);
  return NULL;
}

static void start_beat(Lock *lock) {
  pthread_condattr_t monotonic;
  sigset_t all, before;
  CHECK(!pthread_condattr_init(&monotonic) && !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
  CHECK(!pthread_mutex_init(&lock->mutex, NULL) && !pthread_cond_init(&lock->ended, &monotonic));
  pthread_condattr_destroy(&monotonic);
  sigfillset(&all); /* signals are the main thread's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&lock->beat, NULL, keep_fresh, lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) fail(FAIL_MACHINE, "no thread can be started: %s\nhelp: raise the limit on processes (ulimit -u)", strerror(error));
}

/* --- public ------------------------------------------------------------------------------------------------------------- */

Lock *try_lock_acquire(const char *folder, FailKind *kind, Why *why) {
  Holder self;
  char path[4096];
  int fd = -1;
  if (snprintf(path, sizeof path, "%s/LOCK", folder) >= (int)sizeof path)
    return refuse_folder(folder, ENAMETOOLONG, kind, why), NULL;
  describe_self(&self);
  for (int turn = 0; fd < 0; turn++) { /* one who comes between gets looked at in the next turn */
    fd = create_lock(path, &self);
    if (fd < 0 && (errno != EEXIST || turn == 1000)) return refuse_folder(folder, errno, kind, why), NULL;
    if (fd < 0 && !clear_stale(folder, path, &self, kind, why)) return NULL;
  }
  Lock *lock = xmalloc(sizeof *lock);
  *lock = (Lock){.fd = fd};
  strcpy(lock->path, path);
  start_beat(lock);
  return lock;
}

Lock *lock_acquire(const char *folder) {
  FailKind kind;
  Why why;
  Lock *lock = try_lock_acquire(folder, &kind, &why);
  if (!lock) fail(kind, "%s", why.text);
  return lock;
}

bool lock_lost(Lock *lock) {
  pthread_mutex_lock(&lock->mutex);
  bool lost = lock->lost;
  pthread_mutex_unlock(&lock->mutex);
  return lost;
}

void lock_release(Lock *lock) {
  if (!lock) return;
  pthread_mutex_lock(&lock->mutex);
  lock->end = true;
  pthread_cond_signal(&lock->ended);
  pthread_mutex_unlock(&lock->mutex);
  pthread_join(lock->beat, NULL);
  if (is_at(lock->fd, lock->path)) unlink(lock->path);
  close(lock->fd);
  pthread_mutex_destroy(&lock->mutex);
  pthread_cond_destroy(&lock->ended);
  free(lock);
}
