/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by content: two steps whose texts are the same share one function, named after the text's hash. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/thread.h"
#include "src/exec/private.h"
#include "src/gen/gen.h"

typedef struct Function {
  const char *symbol, *text;
} Function;

/* Translation units: as many compilers may run at once, and the same on any number of threads, one cache for all.  NVRTC reads
 * a unit's prelude in 20 ms; cc takes longer, and more memory.  Two more for what is written by hand for GPUs. */
enum { UNITS_CPU = 8, UNITS_CUDA = 16, UNITS_MOST = UNITS_CUDA + 2 };

/* What is being built, or was. */
typedef struct Build {
  Dev *dev;
  Text units[UNITS_MOST];
  int n;
  void *image;
  size_t nbytes;
  bool ok, hit;
  Why why;
  pthread_t thread;
  bool threaded;
} Build;

struct Code {
  Arena *arena;
  bool cuda;
  VEC(Function) functions;
  Build build;
};

Code *code_open(Arena *arena, bool cuda) {
  Code *code = arena_new(arena, Code);
  code->arena = arena;
  code->cuda = cuda;
  return code;
}

int code_count(const Code *code) { return code->functions.n; }

typedef void Writer(const void *self, const char *symbol, Text *text);

static const char *add(Code *code, const char *prefix, Writer *write, const void *self) {
  Text text = {0};
  write(self, "symbol", &text); /* the text but for its name, to name it by */
  Sha256 sha;
  sha256_init(&sha);
  sha256_add(&sha, text.at, text.n);
  const char *symbol = arena_printf(code->arena, "%s_%016llx", prefix, (unsigned long long)sha256_u64(&sha));
  text_close(&text);
  for (int i = 0; i < code->functions.n; i++)
    if (!strcmp(code->functions.at[i].symbol, symbol)) return code->functions.at[i].symbol;
  write(self, symbol, &text);
  vec_push(code->arena, &code->functions, (Function){symbol, arena_strdup(code->arena, text.at)});
  text_close(&text);
  return symbol;
}

typedef struct KernelText {
  const Kernel *kernel;
  bool cuda;
  uint64_t aligned;
  DevLaunch *launch;
} KernelText;

static void write_kernel(const void *self, const char *symbol, Text *text) {
  const KernelText *k = self;
  if (!k->cuda) {
    gen_c(k->kernel, symbol, text);
    return;
  }
  GenLaunch launch = gen_cuda(k->kernel, symbol, k->aligned, text);
  if (k->launch) *k->launch = (DevLaunch){{(unsigned)launch.blocks, 1, 1}, {(unsigned)launch.threads, 1, 1}, 0};
}

const char *code_kernel(Code *code, const Kernel *kernel, uint64_t aligned, DevLaunch *launch) {
  return add(code, "k", write_kernel, &(KernelText){kernel, code->cuda, aligned, launch});
}

typedef struct BigText {
  const BigImpl *row;
  const BigCall *call;
} BigText;

static void write_big(const void *self, const char *symbol, Text *text) {
  const BigText *big = self;
  big->row->text(big->call, symbol, text);
}

const char *code_big(Code *code, const BigImpl *row, const BigCall *call) {
  return add(code, row->op, write_big, &(BigText){row, call});
}

static int longest_first(const void *a, const void *b) {
  size_t x = strlen(((const Function *)a)->text), y = strlen(((const Function *)b)->text);
  if (x != y) return x < y ? 1 : -1;
  return strcmp(((const Function *)a)->symbol, ((const Function *)b)->symbol);
}

/* Deals the functions out to translation units of about the same length. */
static int deal(Code *code, Text units[UNITS_MOST], int most) {
  int n = code->functions.n < most ? code->functions.n : most;
  qsort(code->functions.at, (size_t)code->functions.n, sizeof(Function), longest_first);
  for (int i = 0; i < code->functions.n; i++) {
    int shortest = 0;
    for (int u = 1; u < n; u++)
      if (units[u].n < units[shortest].n) shortest = u;
    if (!units[shortest].n) text_printf(&units[shortest], "%s\n", code->cuda ? kernels_prelude_cuda() : kernels_prelude());
    text_printf(&units[shortest], "%s\n", code->functions.at[i].text);
  }
  return n;
}

static void *build_run(void *self) {
  Build *b = self;
  const char *texts[UNITS_MOST];
  for (int u = 0; u < b->n; u++) texts[u] = b->units[u].at;
  b->ok = dev_try_build(b->dev, texts, b->n, &b->image, &b->nbytes, &b->hit, &b->why);
  for (int u = 0; u < b->n; u++) text_close(&b->units[u]);
  return NULL;
}

void code_build(Code *code, Dev *dev, Comm *comm) {
  Build *b = &code->build;
  if (comm_rank(comm) != 0) return;
  b->dev = dev;
  b->n = deal(code, b->units, code->cuda ? UNITS_CUDA : UNITS_CPU);
  if (code->cuda) text_printf(&b->units[b->n++], "%s", gpu_plain());
  if (code->cuda) text_printf(&b->units[b->n++], "%s", gpu_fill_code());
  b->threaded = code->cuda && try_thread_start(&b->thread, build_run, b, NULL);
  if (!b->threaded) build_run(b);
}

/* A rank builds, all load: no rank ever asks a shared file system for what another has. */
DevModule *code_load(Code *code, Dev *dev, Comm *comm, bool *hit) {
  Build *b = &code->build;
  if (b->threaded) CHECK(pthread_join(b->thread, NULL) == 0);
  comm_barrier(comm); /* which leaves rank 0's compilers the cores */
  uint64_t nbytes = b->ok ? b->nbytes : 0;
  comm_broadcast(comm, &nbytes, sizeof nbytes, 0);
  if (!nbytes) {
    comm_broadcast(comm, b->why.text, sizeof b->why.text, 0);
    fail(FAIL_MACHINE, "%s", b->why.text);
  }
  if (comm_rank(comm) != 0) b->image = xmalloc(nbytes);
  comm_broadcast(comm, b->image, nbytes, 0);
  DevModule *module = dev_load(dev, b->image, nbytes);
  free(b->image);
  *hit = b->hit;
  return module;
}
