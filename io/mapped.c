/* SPDX-License-Identifier: Apache-2.0 */
/* The handler walks a list that only grows, without a lock: it runs in the midst of a read that is ours, never of malloc or stdio,
 * so that what fail does is safe there. */
#include "io/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/arena.h"

typedef struct Mapped Mapped;
struct Mapped {
  Mapped *next;
  _Atomic(uintptr_t) at; /* 0: free for another */
  size_t nbytes;
  char path[1024];
};

static _Atomic(Mapped *) all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of those who change it */
static int n_free;                                       /* in the list */
static struct sigaction before;

static void name_it(int number, siginfo_t *info, void *unused) {
  uintptr_t at = (uintptr_t)info->si_addr;
  (void)number;
  (void)unused;
  for (const Mapped *m = atomic_load(&all); m; m = m->next) {
    uintptr_t begin = atomic_load(&m->at);
    if (begin && at >= begin && at - begin < m->nbytes)
      fail(FAIL_MACHINE,
           "%s: cannot be read at byte %llu: it was cut short meanwhile, or its disk fails\nhelp: copy the file again, and "
           "leave it as it is while runs read it",
           m->path, (unsigned long long)(at - begin));
  }
  sigaction(SIGBUS, &before, NULL); /* nobody's that we know: as it would have been, once the read is tried again */
}

static void listen(void) {
  struct sigaction ours = {.sa_sigaction = name_it, .sa_flags = SA_SIGINFO};
  CHECK(!sigemptyset(&ours.sa_mask) && !sigaction(SIGBUS, &ours, &before));
}

static void note(const char *path, const void *map, size_t nbytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, listen);
  pthread_mutex_lock(&lock);
  Mapped *m = atomic_load(&all);
  bool fresh = !n_free;
  while (!fresh && atomic_load(&m->at)) m = m->next;
  if (fresh) {
    Mapped *newest = m;
    m = xmalloc(sizeof *m);
    *m = (Mapped){.next = newest};
  } else {
    n_free--;
  }
  strncpy(m->path, path, sizeof m->path - 1);
  m->nbytes = nbytes;
  atomic_store(&m->at, (uintptr_t)map);
  if (fresh) atomic_store(&all, m);
  pthread_mutex_unlock(&lock);
}

const void *mapped_open(const char *path, int fd, size_t nbytes, Why *why) {
  void *map = mmap(NULL, nbytes, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    static const char help[] =
        "\nhelp: fewer and larger files, a larger vm.max_map_count (files that a process may map), or ulimit -v";
    why_not(why, "%s: mmap: %s%s", path, strerror(errno), errno == ENOMEM ? help : "");
    return NULL;
  }
  note(path, map, nbytes);
  return map;
}

void mapped_close(const void *map, size_t nbytes) {
  if (!map) return;
  pthread_mutex_lock(&lock);
  for (Mapped *m = atomic_load(&all); m; m = m->next)
    if (atomic_load(&m->at) == (uintptr_t)map) {
      atomic_store(&m->at, 0);
      n_free++;
      break;
    }
  pthread_mutex_unlock(&lock);
  CHECK(!munmap((void *)map, nbytes));
}
