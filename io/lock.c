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
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/base/thread.h"

/* Who holds a lock: one line of JSON.  Empty texts where the system does not tell. */
typedef struct Holder {
  char host[256], boot[64], space[64], job[64]; /* space: of process ids (a container has its own) */
  int64_t pid, started;                         /* started: clock ticks after boot */
  int64_t restarts;                             /* how often Slurm had queued the job again */
} Holder;

struct Lock {
  char path[4096];
  Holder self;
  int fd;
  struct stat made; /* the file of fd as it was then: once another node has removed it, fd may not tell any more */
  double seen;      /* when a beat last saw that nobody else has the lock; seconds since boot */
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
static int64_t process_began(int64_t pid) {
  ProcessStat stat;
  return process_stat((int)pid, &stat) && !strchr("ZX", stat.state) ? stat.started : -1;
}

static void describe_self(Holder *h) {
  *h = (Holder){.pid = getpid(), .started = process_began(getpid())};
  if (gethostname(h->host, sizeof h->host - 1)) *h->host = 0;
  read_line("/proc/sys/kernel/random/boot_id", h->boot, sizeof h->boot);
  if (readlink("/proc/self/ns/pid", h->space, sizeof h->space - 1) < 0) *h->space = 0;
  const char *job = getenv("SLURM_JOB_ID");
  snprintf(h->job, sizeof h->job, "%s", job ? job : "");
  const char *restarts = getenv("SLURM_RESTART_COUNT"); /* not there the first time */
  if (!restarts || !num_parse_int(restarts, &h->restarts)) h->restarts = 0;
}

static bool is_same(const Holder *a, const Holder *b) {
  return a->pid == b->pid && a->started == b->started && !strcmp(a->host, b->host) && !strcmp(a->boot, b->boot) &&
         !strcmp(a->space, b->space);
}

/* Of one job that Slurm has started anew since: what it ran before is gone, on whichever node. */
static bool is_before(const Holder *h, const Holder *self) {
  return *self->job && !strcmp(h->job, self->job) && h->restarts != self->restarts;
}

static char *holder_text(const Holder *h) {
  json_t *root =
      json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:s}", "job", h->job, "restarts", (json_int_t)h->restarts, "host", h->host, "pid",
                (json_int_t)h->pid, "started", (json_int_t)h->started, "boot", h->boot, "space", h->space);
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
  h->restarts = json_integer_value(json_object_get(root, "restarts")); /* older locks have none */
  json_decref(root);
}

typedef enum Life { LIFE_UNKNOWN, LIFE_ALIVE, LIFE_DEAD } Life;

static Life holder_life(const Holder *h, const Holder *self) {
  bool here = *h->boot && !strcmp(h->host, self->host) && !strcmp(h->boot, self->boot) && !strcmp(h->space, self->space);
  if (!here || h->pid <= 0 || h->pid > INT32_MAX) return LIFE_UNKNOWN;
  if (kill((pid_t)h->pid, 0) && errno == ESRCH) return LIFE_DEAD;
  int64_t started = process_began(h->pid);
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

static bool refuse(const char *folder, const Holder *h, const Holder *self, double age, FailKind *kind, Why *why) {
  char who[96], end[96];
  *kind = FAIL_INPUT;
  snprintf(who, sizeof who, "process %lld", (long long)h->pid);
  if (!h->pid) snprintf(who, sizeof who, "somebody whom LOCK does not name");
  snprintf(end, sizeof end, "end that process");
  if (*h->job) {
    snprintf(who, sizeof who, "job %s", h->job);
    if (strcmp(h->job, self->job)) snprintf(end, sizeof end, "scancel %s", h->job);
  }
  return why_not(why,
                 "%s in use by %s (%.80s, alive %.0f s ago)\n"
                 "help: other run.folder, or %s; a dead job's lock expires in 2 min (of a job that is queued again: at once)",
                 folder, who, *h->host ? h->host : "unknown host", age > 0 ? age : 0, end);
}

static bool refuse_folder(const char *folder, int error, FailKind *kind, Why *why) {
  *kind = FAIL_MACHINE;
  return why_not(why, "%s: cannot be written: %s\nhelp: set run.folder to a folder that you may write, with room left", folder,
                 strerror(error));
}

static bool is_file(const struct stat *a, const struct stat *b) { return a->st_ino == b->st_ino && a->st_dev == b->st_dev; }

/* Removes the lock open as fd if it may be: true when the way is free or somebody else has changed what is there. */
static bool clear_open(int fd, const char *folder, const char *path, const Holder *self, FailKind *kind, Why *why) {
  char probe[4400];
  struct stat seen, there;
  Holder h;
  double now = 0;
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return usleep(10000), true;
  if (fstat(fd, &seen) || stat(path, &there)) return errno == ENOENT || errno == ESTALE || refuse_folder(folder, errno, kind, why);
  if (!is_file(&seen, &there)) return true;
  read_holder(path, &h);
  snprintf(probe, sizeof probe, "%s.%.255s.%lld", path, self->host, (long long)self->pid);
  if (!now_there(probe, &now)) return refuse_folder(folder, errno, kind, why);
  double age = now - seconds(there.st_mtim);
  Life life = holder_life(&h, self);
  bool is_free = life == LIFE_DEAD || (life == LIFE_UNKNOWN && (is_before(&h, self) || age > LOCK_EXPIRES));
  if (!is_free) return refuse(folder, &h, self, age, kind, why);
  return !unlink(path) || errno == ENOENT || refuse_folder(folder, errno, kind, why);
}

static bool clear_stale(const char *folder, const char *path, const Holder *self, FailKind *kind, Why *why) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || refuse_folder(folder, errno, kind, why);
  bool ok = clear_open(fd, folder, path, self, kind, why);
  close(fd);
  return ok;
}

/* Other nodes can read it, and what is in it outlives this one; a file system may have no such call. */
static bool is_flushed(int fd) { return !fsync(fd) || errno == EINVAL || errno == ENOSYS; }

/* The new lock's descriptor; -1 with errno. */
static int create_lock(const char *path, const Holder *self, struct stat *made) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  char *text = holder_text(self);
  ssize_t n = (ssize_t)strlen(text);
  bool ok = write(fd, text, (size_t)n) == n && is_flushed(fd) && !fstat(fd, made);
  int error = errno;
  free(text);
  if (ok) return fd;
  close(fd);
  unlink(path);
  errno = error ? error : ENOSPC;
  return -1;
}

/* --- keeping ------------------------------------------------------------------------------------------------------------ */

typedef enum Place { PLACE_OURS, PLACE_NOBODYS, PLACE_CHANGED, PLACE_UNKNOWN } Place;

static Place look(const Lock *lock) {
  struct stat there;
  if (stat(lock->path, &there)) return errno == ENOENT ? PLACE_NOBODYS : PLACE_UNKNOWN;
  if (!is_file(&there, &lock->made)) return PLACE_CHANGED;
  if (!futimens(lock->fd, NULL)) return PLACE_OURS;
  return errno == ESTALE ? PLACE_CHANGED : PLACE_UNKNOWN; /* what stat knows of a network's file may be old */
}

static void adopt(Lock *lock, int fd, const struct stat *made) {
  close(lock->fd);
  lock->fd = fd;
  lock->made = *made;
}

/* Another file is at the path.  It is ours all the same where the run folder was copied and put in its own place. */
static bool look_again(Lock *lock, double now) {
  Holder there;
  struct stat info;
  read_holder(lock->path, &there);
  if (!there.pid) return now - lock->seen < LOCK_EXPIRES; /* only just made, or damaged */
  if (!is_same(&there, &lock->self)) return false;
  int fd = open(lock->path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && !fstat(fd, &info)) {
    adopt(lock, fd, &info);
    if (!futimens(fd, NULL)) lock->seen = now;
  } else if (fd >= 0) {
    close(fd);
  }
  return true;
}

/* False: the lock is somebody else's, or has been.  What a beat cannot tell the next one may. */
static bool beat(Lock *lock, double now) {
  struct stat made;
  Place place = look(lock);
  bool expired = now - lock->seen >= LOCK_EXPIRES; /* then others may have had it, and be done */
  if (place == PLACE_NOBODYS && expired) return false;
  if (place == PLACE_NOBODYS) {
    int fd = create_lock(lock->path, &lock->self, &made);
    if (fd >= 0) adopt(lock, fd, &made);
    if (fd < 0 && errno == EEXIST) place = PLACE_CHANGED;
  }
  if (place == PLACE_CHANGED) return look_again(lock, now);
  if (place != PLACE_UNKNOWN) lock->seen = now;
  return true;
}

static double boot_seconds(void) {
  struct timespec now;
  CHECK(!clock_gettime(CLOCK_BOOTTIME, &now)); /* goes on while the machine sleeps */
  return seconds(now);
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
    lock_beat(lock, boot_seconds());
    pthread_mutex_lock(&lock->mutex);
  }
  pthread_mutex_unlock(&lock->mutex);
  return NULL;
}

static void start_beat(Lock *lock) {
  pthread_condattr_t monotonic;
  CHECK(!pthread_condattr_init(&monotonic) && !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
  CHECK(!pthread_mutex_init(&lock->mutex, NULL) && !pthread_cond_init(&lock->ended, &monotonic));
  pthread_condattr_destroy(&monotonic);
  thread_start(&lock->beat, keep_fresh, lock);
}

/* --- public ------------------------------------------------------------------------------------------------------------- */

Lock *try_lock_acquire(const char *folder, FailKind *kind, Why *why) {
  Holder self;
  struct stat made;
  char path[4096];
  int fd = -1;
  double now = 0;
  if (snprintf(path, sizeof path, "%s/LOCK", folder) >= (int)sizeof path)
    return refuse_folder(folder, ENAMETOOLONG, kind, why), NULL;
  describe_self(&self);
  for (int turn = 0; fd < 0; turn++) { /* one who comes between gets looked at in the next turn */
    now = boot_seconds();
    fd = create_lock(path, &self, &made);
    if (fd < 0 && (errno != EEXIST || turn == 1000)) return refuse_folder(folder, errno, kind, why), NULL;
    if (fd < 0 && !clear_stale(folder, path, &self, kind, why)) return NULL;
  }
  Lock *lock = xmalloc(sizeof *lock);
  *lock = (Lock){.self = self, .fd = fd, .made = made, .seen = now};
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

void lock_beat(Lock *lock, double now) {
  bool lost = !beat(lock, now);
  pthread_mutex_lock(&lock->mutex);
  lock->lost = lock->lost || lost;
  pthread_mutex_unlock(&lock->mutex);
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
  Holder there;
  read_holder(lock->path, &there);
  if (!lock->lost && is_same(&there, &lock->self)) unlink(lock->path);
  close(lock->fd);
  pthread_mutex_destroy(&lock->mutex);
  pthread_cond_destroy(&lock->ended);
  free(lock);
}
