/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU does, by CUPTI's activity API, which is loaded when a profile is asked for.
 *
 * While an item is open its number is CUPTI's external correlation id; a record of CUPTI's own links it to the correlation of
 * each call that the item makes, and kernels and copies carry the same correlation.  Buffers of records are kept as they
 * come and read at the end.  CUPTI's clock is compared with the host's at both ends. */
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/prof/impl.h"

enum { BUFFER_BYTES = 4 << 20, CLOCK_TRIES = 32 };

/* Those of CUPTI's functions that are used, as one list. */
#define FUNCTIONS(F)                                                                                                               \
  F(cuptiActivityRegisterCallbacks)                                                                                                \
  F(cuptiActivityEnable)                                                                                                           \
  F(cuptiActivityDisable)                                                                                                          \
  F(cuptiActivityFlushAll)                                                                                                         \
  F(cuptiActivityGetNextRecord)                                                                                                    \
  F(cuptiActivityGetNumDroppedRecords)                                                                                             \
  F(cuptiActivityPushExternalCorrelationId)                                                                                        \
  F(cuptiActivityPopExternalCorrelationId)                                                                                         \
  F(cuptiGetTimestamp)                                                                                                             \
  F(cuptiGetCallbackName)                                                                                                          \
  F(cuptiGetResultString)
#define DECLARE(name) static __typeof__(&name) name##_;
FUNCTIONS(DECLARE)

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMCPY2,
                                           CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_RUNTIME,
                                           CUPTI_ACTIVITY_KIND_DRIVER,
                                           CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct Buffer {
  struct Buffer *next;
  size_t used; /* bytes of records, which follow */
  uint64_t records[];
} Buffer;

/* CUPTI's threads hand buffers in while this one runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Buffer *buffers;

/* The same instant on both clocks. */
typedef struct Instant {
  double host;
  uint64_t cupti; /* ns */
} Instant;
static Instant at_start, at_end;

static void must(CUptiResult result, const char *call) {
  const char *words = NULL;
  if (result == CUPTI_SUCCESS) return;
  if (cuptiGetResultString_(result, &words) != CUPTI_SUCCESS || !words) words = "unknown error";
  fail(FAIL_MACHINE, "profile.steps: CUPTI: %s (%d)\n   in %.*s\nhelp: end other profilers (nsys, ncu), or profile.steps: none",
       words, (int)result, (int)strcspn(call, "_("), call);
}
#define CUPTI(call) must((call), #call)

/* --- loading ---------------------------------------------------------------------------------------------------------------- */

/* In the loader's own places, beside the runtime, or where the toolkit of this runtime keeps it. */
static void *library_open(Text *tried) {
  static const char *const places[] = {"", "%s/", "%s/../extras/CUPTI/lib64/", "%s/../../../extras/CUPTI/lib64/",
                                       "/usr/local/cuda/extras/CUPTI/lib64/"};
  char folder[PATH_MAX] = "", path[PATH_MAX + 64], name[64];
  Dl_info runtime;
  snprintf(name, sizeof name, "libcupti.so.%d", CUDART_VERSION / 1000);
  if (dladdr((void *)(uintptr_t)cudaRuntimeGetVersion, &runtime) && runtime.dli_fname) {
    char *resolved = realpath(runtime.dli_fname, NULL);
    snprintf(folder, sizeof folder, "%s", resolved ? resolved : runtime.dli_fname);
    free(resolved);
    char *slash = strrchr(folder, '/');
    *(slash ? slash : folder) = 0;
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    bool beside = places[i][0] == '%';
    snprintf(path, sizeof path, "%s%s%s", beside ? folder : "", places[i] + 2 * beside, name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    text_printf(tried, "   %s\n", dlerror());
  }
  return NULL;
}

static void *function_find(void *handle, const char *name) {
  void *at = dlsym(handle, name);
  if (!at) fail(FAIL_MACHINE, "profile.steps: this CUPTI has no %s\nhelp: CUPTI %d or newer", name, CUDART_VERSION / 1000);
  return at;
}

static void library_load(void) {
  Text tried = {0};
  void *handle = library_open(&tried);
  if (!handle)
    fail(FAIL_MACHINE,
         "profile.steps: CUPTI, by which GPUs are watched, does not load\n%shelp: it comes with the CUDA toolkit (extras/CUPTI); "
         "add its folder to LD_LIBRARY_PATH, or profile.steps: none",
         tried.at);
  text_close(&tried);
#define FIND(name)                                                                                                                 \
  {                                                                                                                                \
    void *at = function_find(handle, #name);                                                                                       \
    memcpy(&name##_, &at, sizeof at);                                                                                              \
  }
  FUNCTIONS(FIND)
}

/* --- recording --------------------------------------------------------------------------------------------------------------- */

static void CUPTIAPI buffer_requested(uint8_t **records, size_t *size, size_t *most) {
  Buffer *b = xmalloc(sizeof *b + BUFFER_BYTES);
  *records = (uint8_t *)b->records;
  *size = BUFFER_BYTES;
  *most = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *records, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  Buffer *b = (Buffer *)(void *)(records - offsetof(Buffer, records));
  b->used = valid;
  pthread_mutex_lock(&lock);
  b->next = buffers;
  buffers = b;
  pthread_mutex_unlock(&lock);
}

/* The tightest of some readings of one clock between two of the other. */
static Instant instant_now(void) {
  Instant best = {0};
  double least = 0;
  for (int i = 0; i < CLOCK_TRIES; i++) {
    uint64_t cupti;
    double before = clock_seconds();
    CUPTI(cuptiGetTimestamp_(&cupti));
    double after = clock_seconds();
    if (i && after - before >= least) continue;
    least = after - before;
    best = (Instant){(before + after) / 2, cupti};
  }
  return best;
}

static double host_time(uint64_t cupti) {
  double span = (double)(int64_t)(at_end.cupti - at_start.cupti), since = (double)(int64_t)(cupti - at_start.cupti);
  return at_start.host + since * (at_end.host - at_start.host) / span;
}

static void cupti_arm(void) {
  library_load();
  CUPTI(cuptiActivityRegisterCallbacks_(buffer_requested, buffer_completed));
  for (int i = 0; i < KINDS; i++) CUPTI(cuptiActivityEnable_(kinds[i]));
  at_start = instant_now();
}

static void cupti_enter(uint64_t bracket) {
  CUPTI(cuptiActivityPushExternalCorrelationId_(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, bracket));
}

static void cupti_leave(void) { CUPTI(cuptiActivityPopExternalCorrelationId_(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL)); }

/* --- reading ----------------------------------------------------------------------------------------------------------------- */

typedef struct Link {
  uint32_t correlation;
  uint64_t bracket;
} Link;

typedef struct Reading {
  Arena *arena;
  VEC(Link) links;
  VEC(ProfEvent) events, calls;
} Reading;

/* CUPTI_ActivityKernel9 and its like begin as all later ones do. */
static void read_kernel(Reading *r, const CUpti_ActivityKernel9 *k) {
  vec_push(r->arena, &r->events,
           (ProfEvent){.what = PROF_KERNEL,
                       .name = k->name,
                       .begin = host_time(k->start),
                       .end = host_time(k->end),
                       .bracket = -1,
                       .stream = k->streamId,
                       .correlation = k->correlationId,
                       .device = k->deviceId,
                       .context = k->contextId,
                       .grid = {k->gridX, k->gridY, k->gridZ},
                       .block = {k->blockX, k->blockY, k->blockZ},
                       .registers = k->registersPerThread,
                       .shared = k->staticSharedMemory + k->dynamicSharedMemory});
}

/* Records of memory have these members alike, but no type in common. */
#define MEMORY_EVENT(kind, called, m)                                                                                              \
  (ProfEvent) {                                                                                                                    \
    .what = kind, .name = called, .begin = host_time((m)->start), .end = host_time((m)->end), .bracket = -1,                       \
    .stream = (m)->streamId, .correlation = (m)->correlationId, .device = (m)->deviceId, .context = (m)->contextId,                \
    .nbytes = (m)->bytes                                                                                                           \
  }

static void read_copy(Reading *r, const CUpti_ActivityMemcpy5 *m) {
  static const char *const names[] = {
      [CUPTI_ACTIVITY_MEMCPY_KIND_HTOD] = "Memcpy HtoD (host to device)",
      [CUPTI_ACTIVITY_MEMCPY_KIND_DTOH] = "Memcpy DtoH (device to host)",
      [CUPTI_ACTIVITY_MEMCPY_KIND_DTOD] = "Memcpy DtoD (within the device)",
      [CUPTI_ACTIVITY_MEMCPY_KIND_PTOP] = "Memcpy PtoP (between devices)",
  };
  const char *name = m->copyKind < sizeof names / sizeof *names ? names[m->copyKind] : NULL;
  vec_push(r->arena, &r->events, MEMORY_EVENT(PROF_COPY, name ? name : "Memcpy", m));
}

/* Copies between GPUs are records of their own, though a GPU that another process has shared may be in an ordinary one. */
static void read_peer_copy(Reading *r, const CUpti_ActivityMemcpyPtoP4 *m) {
  vec_push(r->arena, &r->events, MEMORY_EVENT(PROF_COPY, "Memcpy PtoP (between devices)", m));
}

static void read_set(Reading *r, const CUpti_ActivityMemset4 *m) {
  vec_push(r->arena, &r->events, MEMORY_EVENT(PROF_SET, "Memset", m));
}

/* name: without the version that CUPTI adds, "cudaLaunchKernel_v7000". */
static const char *call_name(Reading *r, const CUpti_ActivityAPI *a) {
  const char *name = NULL;
  CUpti_CallbackDomain domain = a->kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (cuptiGetCallbackName_(domain, a->cbid, &name) != CUPTI_SUCCESS || !name) return "CUDA call";
  const char *version = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? strrchr(name, '_') : NULL;
  return version && version[1] == 'v' ? arena_strndup(r->arena, name, (size_t)(version - name)) : name;
}

static void read_call(Reading *r, const CUpti_ActivityAPI *a) {
  vec_push(r->arena, &r->calls,
           (ProfEvent){.what = PROF_CALL,
                       .name = call_name(r, a),
                       .begin = host_time(a->start),
                       .end = host_time(a->end),
                       .bracket = -1,
                       .correlation = a->correlationId});
}

static void read_link(Reading *r, const CUpti_ActivityExternalCorrelation *x) {
  if (x->externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
    vec_push(r->arena, &r->links, (Link){x->correlationId, x->externalId});
}

static void read_record(Reading *r, const CUpti_Activity *record) {
  switch (record->kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
  case CUPTI_ACTIVITY_KIND_KERNEL:
    read_kernel(r, (const void *)record);
    break;
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    read_copy(r, (const void *)record);
    break;
  case CUPTI_ACTIVITY_KIND_MEMCPY2:
    read_peer_copy(r, (const void *)record);
    break;
  case CUPTI_ACTIVITY_KIND_MEMSET:
    read_set(r, (const void *)record);
    break;
  case CUPTI_ACTIVITY_KIND_RUNTIME:
  case CUPTI_ACTIVITY_KIND_DRIVER:
    read_call(r, (const void *)record);
    break;
  case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
    read_link(r, (const void *)record);
    break;
  default:
    break;
  }
}

static void read_buffers(Reading *r) {
  pthread_mutex_lock(&lock);
  Buffer *all = buffers;
  buffers = NULL;
  pthread_mutex_unlock(&lock);
  for (Buffer *b = all, *next; b; b = next) {
    CUpti_Activity *record = NULL;
    CUptiResult result;
    while ((result = cuptiActivityGetNextRecord_((uint8_t *)b->records, b->used, &record)) == CUPTI_SUCCESS) read_record(r, record);
    if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) must(result, "cuptiActivityGetNextRecord");
    next = b->next;
    free(b);
  }
}

static int by_correlation(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static int call_by_correlation(const void *key, const void *call) {
  return by_correlation(key, &((const ProfEvent *)call)->correlation);
}

static int events_by_correlation(const void *a, const void *b) {
  return by_correlation(&((const ProfEvent *)a)->correlation, &((const ProfEvent *)b)->correlation);
}

/* Of the calls, those that started something, and those in which the host waits. */
static bool is_told(const Reading *r, const ProfEvent *call) {
  if (strstr(call->name, "Synchronize")) return true;
  return r->events.n &&
         bsearch(&call->correlation, r->events.at, (size_t)r->events.n, sizeof *r->events.at, call_by_correlation) != NULL;
}

static void hand_over(Reading *r, Prof *prof, void (*add)(Prof *prof, const ProfEvent *event)) {
  if (r->links.n) qsort(r->links.at, (size_t)r->links.n, sizeof *r->links.at, by_correlation);
  if (r->events.n) qsort(r->events.at, (size_t)r->events.n, sizeof *r->events.at, events_by_correlation);
  for (int i = 0; i < r->events.n; i++) {
    ProfEvent *e = &r->events.at[i];
    const Link *link =
        r->links.n ? bsearch(&e->correlation, r->links.at, (size_t)r->links.n, sizeof *r->links.at, by_correlation) : NULL;
    if (link) e->bracket = (int64_t)link->bracket;
    add(prof, e);
  }
  for (int i = 0; i < r->calls.n; i++)
    if (is_told(r, &r->calls.at[i])) add(prof, &r->calls.at[i]);
}

static void cupti_stop(Prof *prof, void (*add)(Prof *prof, const ProfEvent *event)) {
  Reading r = {.arena = arena_open()};
  size_t dropped = 0;
  if (cudaDeviceSynchronize() != cudaSuccess) fail(FAIL_MACHINE, "the GPU failed while a profile was recorded");
  at_end = instant_now();
  CUPTI(cuptiActivityFlushAll_(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  for (int i = 0; i < KINDS; i++) CUPTI(cuptiActivityDisable_(kinds[i]));
  CUPTI(cuptiActivityGetNumDroppedRecords_(NULL, 0, &dropped));
  if (dropped) fprintf(stderr, "warn   profile: CUPTI has dropped %zu records\n", dropped);
  read_buffers(&r);
  hand_over(&r, prof, add);
  arena_close(r.arena);
}

const ProfBack prof_cupti = {cupti_arm, cupti_enter, cupti_leave, cupti_stop};
