/* SPDX-License-Identifier: Apache-2.0 */
/* What a back end is, and what the cpu one is made of.  Private to src/dev. */
#ifndef DEV_BACK_H
#define DEV_BACK_H

#include <sys/types.h>

#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/dev/dev.h"

typedef enum Copy { COPY_IN, COPY_OUT } Copy;

typedef struct DevOps {
  const char *kind;
  void (*open)(Dev *dev, const DevOptions *options); /* fills describe and the back end's own members */
  void (*close)(Dev *dev);
  void *(*alloc)(Dev *dev, size_t nbytes, Why *why); /* NULL: there is none; why: in the system's words */
  void (*free)(Dev *dev, void *at, size_t nbytes);
  bool (*try_build)(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why);
  void (*load)(Dev *dev, DevModule *module, const void *image, size_t nbytes);
  void *(*symbol)(DevModule *module, const char *name); /* NULL: not there */
  void (*unload)(DevModule *module);
  void (*copy)(Dev *dev, void *to, const void *from, size_t nbytes, Copy direction);
  void *(*host_alloc)(Dev *dev, size_t nbytes); /* NULL, as the next two: malloc, and at once */
  void (*host_free)(Dev *dev, void *at);
  void (*copy_start)(Dev *dev, void *to, const void *from, size_t nbytes);
  bool (*pin)(Dev *dev, void *at, size_t nbytes, Why *why); /* NULL, as the next: host memory is as good as it can be */
  void (*unpin)(Dev *dev, void *at);
  void (*move_open)(DevMove *move); /* NULL, as the next three: a copy when it is started */
  void (*move_start)(DevMove *move);
  void (*move_wait)(DevMove *move);
  void (*move_close)(DevMove *move);
  void (*aside_open)(DevAside *aside); /* NULL, as the next five: copies at once */
  void (*aside_begin)(DevAside *aside, const DevEvent *behind);
  void (*aside_part)(DevAside *aside, void *to, const void *from, size_t nbytes);
  void (*aside_await)(DevAside *aside); /* these three, event_await and pin in any thread */
  void (*aside_wait)(DevAside *aside);
  void (*aside_close)(DevAside *aside);
  void (*launch)(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch);
  void (*call)(Dev *dev, void (*body)(void *self), void *self); /* NULL: at once */
  void (*sync)(Dev *dev);
  bool (*try_sync)(Dev *dev, Why *why); /* NULL: what has been started has ended */
  void *(*stream)(Dev *dev);            /* NULL: none, and memory is the host's */
  void (*event_open)(DevEvent *event);
  void (*event_close)(DevEvent *event);
  void (*event_record)(DevEvent *event);
  void (*event_wait)(const DevEvent *event);  /* NULL: recorded is over */
  void (*event_await)(const DevEvent *event); /* NULL, too */
  double (*event_seconds)(const DevEvent *a, const DevEvent *b);
  void (*card)(const Dev *dev, DevCard *card);                       /* NULL: no GPU */
  void (*memory)(const Dev *dev, DevMemory *memory);                 /* NULL: unknown */
  void (*holders)(const Dev *dev, Text *out);                        /* other processes, a line each; NULL: none */
  void (*sensors)(const Dev *dev, bool errors, DevSensors *sensors); /* NULL: none */
  void (*capture_begin)(Dev *dev);                                   /* NULL, as the next three: no graphs */
  void *(*capture_end)(Dev *dev);
  void (*graph_launch)(DevGraph *graph);
  void (*graph_close)(DevGraph *graph);
} DevOps;

/* A folder of compiled code that only its user can write. */
typedef struct Cache {
  int fd; /* -1: none */
  char path[4096];
  char note[512]; /* why it is not used; "" when it is */
} Cache;

struct Dev {
  const DevOps *ops;
  int threads;
  size_t allocated, peak;
  char describe[256];
  char *compiler; /* as given */
  Cache cache;
  Text log; /* of the last build */
  void (*look)(void *self, double waited);
  void *look_self;
  void (*tell)(void *self, Text *out); /* dev_holders */
  void *tell_self;
  char advice[256]; /* of DevOptions; "": none */
  void *own;        /* the back end's */
};

struct DevModule {
  const DevOps *ops;
  void *handle;
  int fd; /* of the memory file behind handle; -1: none */
};

struct DevEvent {
  Dev *dev;
  void *handle;
  double seconds; /* when it took place, on a cpu */
  int64_t turn;   /* apart: how much must have run */
};

struct DevMove {
  Dev *dev;
  DevLane lane;
  void *to;
  const void *from;
  size_t nbytes;
  void *ready, *over; /* the back end's */
};

/* Bytes of a part, and how many are under way at most: at what the engine does in a second 8 MiB are 0.2 ms, for which others wait,
 * and two cover the time until the thread starts the next. */
enum { ASIDE_BYTES = 8 << 20, ASIDE_PARTS = 2 };

struct DevAside {
  Dev *dev;
  void *own; /* the back end's */
};

struct DevGraph {
  Dev *dev;
  void *handle;
};

extern const DevOps dev_apart, dev_cpu, dev_null;

/* memory.c */
void dev_memory_opened(Dev *dev);
void dev_memory_closed(const Dev *dev);
void dev_host_memory(const Dev *dev, DevMemory *memory); /* a DevOps' memory where that is the host's */

/* sensors.c */
void dev_host_sensors(const Dev *dev, bool errors, DevSensors *sensors); /* a DevOps' sensors where that is the host */

/* The cuda back end is the one thing that the module hpctrain_cuda.so holds; its entry point tells who built it for what. */
typedef struct CudaModule {
  size_t sizes[4]; /* of Dev, DevOps, DevModule, CudaModule: other numbers, another build */
  const DevOps *dev;
  int (*try_cards)(DevCard *cards, int most, Why *why);
} CudaModule;
#define CUDA_MODULE_SIZES                                                                                                          \
  { sizeof(Dev), sizeof(DevOps), sizeof(DevModule), sizeof(CudaModule) }
extern const CudaModule hpctrain_cuda;
/* Loads the module, once; ends the job when there is none. */
const CudaModule *cuda_module_find(const char *file);
const CudaModule *cuda_module_try(const char *file, Why *why);

/* Texts to one shared object; no cache. */
bool compile_try(const char *compiler, const char *const *texts, int n, int threads, void **object, size_t *nbytes, Why *why);
/* Adds to key what decides the compiler's output besides the texts: which program it is, its version, its flags. */
bool compile_try_identity(const char *compiler, Sha256 *key, Why *why);

/* Starts argv in folder, outputs in folder/log, its own temporary files there too; -1: not started.  Called by a thread that
 * outlives the process: it ends with that thread (prctl(2), PR_SET_PDEATHSIG). */
pid_t process_start(char *const *argv, const char *folder, const char *log, Why *why);
/* Whether the process has ended; then its wait status (0 when somebody else took it). */
bool process_ended(pid_t pid, int *status);
/* Fills why with how the program ended and its log from the first line that says "error" on; false. */
bool process_failed(const char *program, const char *folder, const char *log, int status, Why *why);
bool process_run(char *const *argv, const char *folder, const char *log, Why *why);

/* Compiled code travels and rests sealed: length and checksum at its end, so that what is cut short or damaged is not run. */
enum { SEAL_SIZE = 32 };
void seal_add(void **image, size_t *nbytes); /* image is malloc'd and may move */
bool seal_holds(const void *image, size_t nbytes);

/* Ends the job when the folder is one that others can write. */
void cache_open(Cache *cache, const char *asked, const char *fallback);
void cache_close(Cache *cache);
bool cache_try_read(Cache *cache, const char *key, void **image, size_t *nbytes);
void cache_write(Cache *cache, const char *key, const void *image, size_t nbytes);

#endif
