/* SPDX-License-Identifier: Apache-2.0 */
/* One device as the rest of the program sees it: memory, copies, and code built from text.  A back end is a table of
 * functions (DevOps): cpu, null, and cuda, which comes out of a module that is loaded when it is asked for. */
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/fail.h"
#include "src/base/hash.h"
#include "src/base/text.h"

typedef struct Dev Dev;
typedef struct DevModule DevModule;
typedef struct DevEvent DevEvent;
typedef struct DevGraph DevGraph;

typedef struct DevOptions {
  const char *kind;     /* "cpu", "cuda", "null" (allocates nothing, runs nothing: for plans), "apart" (apart.c: for tests) */
  const char *compiler; /* cpu: "cc", or a path; "none": dev_build fails with the remedy */
  const char *cache;    /* folder of compiled code; NULL: $XDG_CACHE_HOME/hpctrain, then ~/.cache/hpctrain, then fallback */
  const char *fallback; /* the run folder, for when HOME is unset; may be NULL: then no cache */
  int threads;          /* of this rank, >= 1 */
  int gpu;              /* cuda: which of the GPUs that this process sees */
  const char *arch;     /* cuda: "sm_90a": builds for such a GPU and needs none, and can do nothing else; NULL: the GPU's own */
  const char *advice;   /* what may need less memory, for errors: "a smaller batch, more ranks"; NULL: what helps many */
  const char *module;   /* cuda: file of the module; NULL: beside the program, or where it is installed */
} DevOptions;

Dev *dev_open(const DevOptions *options);
void dev_close(Dev *dev);
const char *dev_describe(const Dev *dev); /* "AMD EPYC, 2 cores, avx512": for the banner */
/* What tells one GPU from all others; false: the device is none. */
typedef struct DevCard {
  char name[64], bus[16]; /* "NVIDIA H200", "0000:18:00.0" */
  unsigned char uuid[16];
  int numa;      /* the nearest node of the host's memory; -1: unknown */
  size_t nbytes; /* of memory, all of it */
} DevCard;
bool dev_card(const Dev *dev, DevCard *card);
/* The GPUs that this process sees, in the driver's order; their number, or -1 and why none can be used (the first line is what
 * is wrong, a last one may be the remedy).  quick: a node that has no driver is known without loading anything of CUDA. */
int dev_try_cards(DevCard *cards, int most, bool quick, Why *why);

/* seats.c: a rank as others of its node see it. */
enum { SEAT_CARDS = 32 };
typedef struct DevSeat {
  DevCard cards[SEAT_CARDS];
  int n;
  uint64_t numa; /* nodes that its cores are of, a bit each; 0: unknown */
} DevSeat;
/* Which of its GPUs rank `me` of the node's n ranks takes, each another one; -1: there are too few. */
int seats_deal(const DevSeat *seats, int n, int me);
int seats_cards(const DevSeat *seats, int n); /* different GPUs that they see together */
uint64_t seat_numa(void);                     /* of this thread */
/* Keeps this thread (and those it starts) to its cores of that node, if it has any; gives the threads' part of `threads`. */
int seat_stay_near(int numa, int threads);

int dev_threads(const Dev *dev);

/* body(self, i) for each i in 0 … n-1, in any order, on this rank's threads; returns when all are done.  Host work. */
void dev_parallel(const Dev *dev, int64_t n, void (*body)(void *self, int64_t i), void *self);
/* Why compiled code is not kept ("/x: Read-only file system"), for one warning; NULL when it is, or was not asked for. */
const char *dev_cache_note(const Dev *dev);
const char *dev_cache_folder(const Dev *dev); /* only the user can write there; NULL: none */

/* --- memory -------------------------------------------------------------------------------------------------------------- */

/* Zeroed memory aligned to 64 bytes (huge pages where the system has them).  Ends the job when there is none, with who holds
 * what. */
void *dev_alloc(Dev *dev, size_t nbytes, const char *what);
void dev_free(Dev *dev, void *at, size_t nbytes);
size_t dev_allocated(const Dev *dev);      /* bytes now */
size_t dev_allocated_peak(const Dev *dev); /* the most at any time */

/* What the driver of a GPU, or the kernel, says now. */
typedef struct DevMemory {
  size_t total, available; /* 0: unknown */
  size_t others;           /* held by other processes; a GPU's, where the driver tells */
  bool shared;             /* all ranks of the node have it together */
  char place[320];         /* "GPU 0 (NVIDIA H200)", "this node", "control group /job_7" */
} DevMemory;
DevMemory dev_memory(const Dev *dev);
/* Bytes that this process holds on a GPU beside what it has allocated here (context, NCCL, libraries, and other processes where
 * the driver does not tell who they are); 0 where memory is shared. */
size_t dev_memory_beside(const DevMemory *memory, size_t allocated);

/* What sensors say now. */
typedef struct DevSensors {
  int gpu;                        /* its number on its node; -1: it is none, or unknown */
  double mhz, mhz_most;           /* its clock, and the highest; of a CPU the mean of this process's cores.  0: unknown */
  int64_t corrected, uncorrected; /* errors of its memory since its driver was loaded; -1: unknown */
  bool worn;                      /* rows of its memory wait to be replaced, or could not be */
  char slowed[64];                /* what holds the clock down besides load: "heat"; "": nothing, or unknown */
} DevSensors;
/* errors: their counts too, for which a driver takes longer. */
DevSensors dev_sensors(const Dev *dev, bool errors);
/* The clock of this process's cores as a folder of sysfs (cpufreq) or, without it, a /proc/cpuinfo tells it. */
void sensors_clock_of(const char *sys, const char *proc, DevSensors *sensors);

/* tell adds to an error about memory who holds what of it, in lines that begin with three blanks; NULL: nobody does. */
void dev_holders(Dev *dev, void (*tell)(void *self, Text *out), void *self);
/* These end the job for want of memory for `what`; words: the library's or the system's own, or "". */
_Noreturn void dev_memory_short(const Dev *dev, size_t nbytes, const char *what, const char *words);
_Noreturn void dev_memory_failed(const char *what, const char *words); /* found by a library, on the device that is open */
_Noreturn void dev_host_memory_failed(size_t nbytes, const char *what, const char *words); /* pinned; nbytes 0: unknown */

/* Copies take place in the order of launches.  in: from may be reused at once.  out: done when it returns. */
void dev_copy_in(Dev *dev, void *to, const void *from, size_t nbytes);
void dev_copy_out(Dev *dev, void *to, const void *from, size_t nbytes);

/* Memory of the host that copies go straight to and from; undefined at first. */
void *dev_host_alloc(Dev *dev, size_t nbytes);
void dev_host_free(Dev *dev, void *at); /* NULL is fine; nothing that was started uses it any more */
/* Either way between the device's memory and such memory, without waiting: the host's side is whose it was again when an event
 * that was recorded behind has taken place. */
void dev_copy_start(Dev *dev, void *to, const void *from, size_t nbytes);

/* Zeroed memory of the host, for much that stays: dev_move goes straight to and from it, and so may the device's code.  Ends the
 * job when there is none. */
void *dev_pinned_alloc(Dev *dev, size_t nbytes, const char *what);
void dev_pinned_free(Dev *dev, void *at, size_t nbytes);
/* The same from any thread; NULL and why where there is none. */
void *dev_try_pinned_alloc(Dev *dev, size_t nbytes, Why *why);

/* A copy between such memory and the device's, beside what the device computes, both directions at a time; in one direction they
 * follow one another.  start takes its place behind what was started before, and neither end may be touched until the wait:
 * what is started behind that runs once the copy is over.  Can be captured, start and wait in one graph. */
typedef enum DevLane { DEV_IN, DEV_OUT, DEV_LANES } DevLane;
typedef struct DevMove DevMove;
DevMove *dev_move_open(Dev *dev, DevLane lane, void *to, const void *from, size_t nbytes);
void dev_move_start(DevMove *move);
void dev_move_wait(DevMove *move);
void dev_move_close(DevMove *move); /* NULL is fine; not between start and wait */

/* Much that has time, from the device's memory to such memory.  Copies that are started all at once hold up whatever else goes to
 * the host, and what waits for that, until the last is over; so another thread starts these, a few parts of 8 MiB ahead of the
 * engine, asleep in between.
 *   the other thread   begin: what follows comes behind an event that was recorded; put, any number; await: until all are over
 *   the device's       wait, once the other has put the last: what is started behind that runs once all are over
 * An apart device delivers when it is waited for, which is as late as it may be. */
typedef struct DevAside DevAside;
DevAside *dev_aside_open(Dev *dev);
void dev_aside_begin(DevAside *aside, const DevEvent *behind);
void dev_aside_put(DevAside *aside, void *to, const void *from, size_t nbytes);
void dev_aside_await(DevAside *aside);
void dev_aside_wait(DevAside *aside);
void dev_aside_close(DevAside *aside); /* NULL is fine; all are over */

/* Bytes a second: read and written by copies within the host's memory, by all threads; between that memory (pinned) and the
 * device's, 0 where they are one.  Measured for about so many seconds; device memory of 64 MiB must be free. */
double dev_host_rate(Dev *dev, double seconds);
double dev_link_rate(Dev *dev, DevLane lane, double seconds);

/* --- code ---------------------------------------------------------------------------------------------------------------- */

/* Builds n translation units into one loadable image (malloc'd), in parallel on this rank's threads.  Found in the cache by
 * content when the same texts were built before by the same compiler for the same kind of CPU.  Host only: another rank may
 * load the image.  hit: whether the cache had it; may be NULL. */
bool dev_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why);

/* The compilers' words in the last build that found nothing in the cache: on cuda, registers and spills of every kernel. */
const char *dev_build_log(const Dev *dev);

/* Adds to key what this CPU calls itself and can do: the lines of /proc/cpuinfo that do not vary while it runs. */
void dev_cpu_identity(Sha256 *key);

/* Loads an image of dev_try_build; the bytes may be freed after.  Ends the job when they are foreign or damaged. */
DevModule *dev_load(Dev *dev, const void *image, size_t nbytes);
void *dev_symbol(DevModule *module, const char *name); /* CHECKs that it is there */
void dev_unload(DevModule *module);

/* A symbol of the program's CUDA part, which is loaded for it; ends the job when there is none. */
void *dev_cuda_symbol(const char *name);
/* Whether the host reads and writes the device's memory as its own. */
bool dev_is_host(const Dev *dev);

/* --- running ------------------------------------------------------------------------------------------------------------- */

typedef struct DevLaunch {
  unsigned grid[3], block[3];
  size_t shared; /* bytes of a block, beside what the code declares */
} DevLaunch;

/* Starts a function of a module on n addresses; launches follow one another.  A cpu has no use for `launch` (which may be NULL
 * there) and calls function(pointers, dev_threads). */
void dev_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch);
/* Code of the host, in the order of launches; on a cpu it has run when this returns. */
void dev_call(Dev *dev, void (*body)(void *self), void *self);
/* What launches go into, for libraries: cuda's cudaStream_t; NULL elsewhere. */
void *dev_stream(Dev *dev);
void dev_sync(Dev *dev);               /* until all that was started has ended; ends the job when something failed */
bool dev_try_sync(Dev *dev, Why *why); /* the same, but for the end */
/* look(self, seconds waited so far) is called now and then while the host waits for the device: it may end the job.  NULL:
 * nobody looks. */
void dev_watch(Dev *dev, void (*look)(void *self, double waited), void *self);

DevEvent *dev_event_open(Dev *dev);
void dev_event_close(DevEvent *event);
void dev_event_record(DevEvent *event);                         /* takes place behind what was started before */
void dev_event_wait(const DevEvent *event);                     /* until it has taken place; not recorded: at once */
void dev_event_await(const DevEvent *event);                    /* the same from another thread; it was recorded before */
double dev_event_seconds(const DevEvent *a, const DevEvent *b); /* from a to b, once b has taken place */

/* Where the device has one (dev_has_graphs): between the two, launches of this thread and what waits for them on the device are
 * noted and not run; then the graph runs them all, any number of times, at one call. */
bool dev_has_graphs(const Dev *dev);
void dev_capture_begin(Dev *dev);
DevGraph *dev_capture_end(Dev *dev);
void dev_graph_launch(DevGraph *graph);
void dev_graph_close(DevGraph *graph); /* NULL is fine; not while it runs */

#endif
