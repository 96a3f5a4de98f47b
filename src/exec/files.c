/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers are cut into pieces, which a few threads work off in order: an NVMe drive wants several at a time.  What is aligned
 * goes past the page cache where the file system can do that. */
#include "src/exec/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/fail.h"
#include "src/base/file.h"
#include "src/base/thread.h"

enum { THREADS = 4, PIECE_BYTES = 16 << 20 };

struct FileMove {
  Files *files;
  FileMove *next; /* that has pieces which no thread has taken */
  bool write;
  size_t offset, nbytes;
  char *at;
  size_t taken, left; /* bytes that threads have begun, that are not over */
  int error;          /* errno of the first piece that failed */
};

struct Files {
  char path[4096];
  int fd, direct; /* through the page cache, and past it; direct -1: cannot */
  pthread_t threads[THREADS];
  pthread_mutex_t lock;
  pthread_cond_t more, less;
  FileMove *first, **end;
  bool stop;
};

/* --- one piece ------------------------------------------------------------------------------------------------------------ */

static bool is_aligned(const FileMove *m) {
  return m->offset % FILE_ALIGN == 0 && (uintptr_t)m->at % FILE_ALIGN == 0 && m->nbytes % FILE_ALIGN == 0;
}

/* 0, or errno. */
static int transfer(int fd, bool write, char *at, size_t nbytes, size_t offset) {
  bool ok = write ? fd_write_at(fd, at, nbytes, (long long)offset) : fd_read_at(fd, at, nbytes, (long long)offset);
  return ok ? 0 : errno ? errno : EIO; /* the file has all its bytes: an end is a fault */
}

static void *work(void *self) {
  Files *f = self;
  pthread_mutex_lock(&f->lock);
  for (;;) {
    while (!f->first && !f->stop) pthread_cond_wait(&f->more, &f->lock);
    FileMove *m = f->first;
    if (!m) break;
    size_t from = m->taken, n = m->nbytes - from < PIECE_BYTES ? m->nbytes - from : PIECE_BYTES;
    m->taken += n;
    if (m->taken == m->nbytes) f->first = m->next;
    if (!f->first) f->end = &f->first;
    pthread_mutex_unlock(&f->lock);
    int error = transfer(f->direct >= 0 && is_aligned(m) ? f->direct : f->fd, m->write, m->at + from, n, m->offset + from);
    pthread_mutex_lock(&f->lock);
    if (error && !m->error) m->error = error;
    m->left -= n;
    if (!m->left) pthread_cond_broadcast(&f->less);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* --- the file ------------------------------------------------------------------------------------------------------------- */

static _Noreturn void refuse(const Files *f, const char *what, size_t nbytes, int error) {
  fail(error == ENOSPC || error == EIO || error == EFBIG ? FAIL_MACHINE : FAIL_INPUT,
       "memory.offload_folder: %s: %s (%.1f MiB): %s\nhelp: a folder that is there, on every node, that you may write to and that "
       "has room for the moments of the node's ranks",
       f->path, what, (double)nbytes / 0x1p20, strerror(error));
}

Files *files_open(const char *folder, size_t nbytes) {
  Files *f = xmalloc(sizeof *f);
  *f = (Files){.direct = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .less = PTHREAD_COND_INITIALIZER};
  f->end = &f->first;
  char name[sizeof f->path + 32];
  snprintf(f->path, sizeof f->path, "%s", folder);
  snprintf(name, sizeof name, "%s/hpctrain-XXXXXX", folder);
  f->fd = mkostemp(name, O_CLOEXEC);
  if (f->fd < 0) refuse(f, "no file can be made there", nbytes, errno);
  f->direct = open(name, O_RDWR | O_CLOEXEC | O_DIRECT);
  if (unlink(name)) refuse(f, "its file cannot be unlinked", nbytes, errno);
  int error = nbytes ? posix_fallocate(f->fd, 0, (off_t)nbytes) : 0;
  if (error) refuse(f, "there is no room", nbytes, error);
  for (int i = 0; i < THREADS; i++) thread_start(&f->threads[i], work, f);
  return f;
}

void files_close(Files *f) {
  if (!f) return;
  pthread_mutex_lock(&f->lock);
  f->stop = true;
  pthread_cond_broadcast(&f->more);
  pthread_mutex_unlock(&f->lock);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(f->threads[i], NULL) == 0);
  if (f->direct >= 0) close(f->direct);
  close(f->fd);
  free(f);
}

void files_read(Files *f, size_t offset, void *to, size_t nbytes) {
  int error = transfer(f->fd, false, to, nbytes, offset);
  if (error) refuse(f, "cannot be read", nbytes, error);
}

void files_write(Files *f, size_t offset, const void *from, size_t nbytes) {
  int error = transfer(f->fd, true, (char *)from, nbytes, offset);
  if (error) refuse(f, "cannot be written", nbytes, error);
}

/* --- transfers ------------------------------------------------------------------------------------------------------------ */

FileMove *file_move_open(Files *files, bool write, size_t offset, void *at, size_t nbytes) {
  FileMove *m = xmalloc(sizeof *m);
  *m = (FileMove){.files = files, .write = write, .offset = offset, .at = at, .nbytes = nbytes};
  return m;
}

void file_move_start(FileMove *m) {
  Files *f = m->files;
  if (!m->nbytes) return;
  pthread_mutex_lock(&f->lock);
  CHECK(!m->left);
  m->taken = 0;
  m->left = m->nbytes;
  m->next = NULL;
  *f->end = m;
  f->end = &m->next;
  pthread_cond_broadcast(&f->more);
  pthread_mutex_unlock(&f->lock);
}

void file_move_wait(FileMove *m) {
  Files *f = m->files;
  pthread_mutex_lock(&f->lock);
  while (m->left) pthread_cond_wait(&f->less, &f->lock);
  pthread_mutex_unlock(&f->lock);
  if (m->error) refuse(f, m->write ? "cannot be written" : "cannot be read", m->nbytes, m->error);
}

void file_move_close(FileMove *m) { free(m); }
