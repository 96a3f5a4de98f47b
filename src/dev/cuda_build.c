/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA C++ texts to cubins by NVRTC: a program a text, several at once, each in a thread of its own.  NVRTC needs no GPU, so a
 * host without one can build for any. */
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/thread.h"
#include "src/dev/cuda.h"

const char cubin_magic[8] = "hptcub1";

/* Same bits whatever the compiler sees: no contraction; division, square root and denormals as IEEE 754 has them. */
static const char *const build_flags[] = {"-fmad=false", "-prec-div=true",     "-prec-sqrt=true", "-ftz=false",
                                          "--std=c++17", "--disable-warnings", "-default-device", "--ptxas-options=-v"};
enum { BUILD_FLAGS = sizeof build_flags / sizeof *build_flags };

typedef struct Unit {
  const char *text;
  char *log;
  void *cubin;
  size_t nbytes;
  nvrtcResult result;
} Unit;

typedef struct Build {
  const char *arch;
  Unit *units;
  int n, next; /* next: atomic */
} Build;

static nvrtcResult unit_compile(Unit *unit, int i, const char *arch) {
  nvrtcProgram program;
  char name[32], target[ARCH_MOST + 32];
  snprintf(name, sizeof name, "k%d.cu", i);
  snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
  nvrtcResult result = nvrtcCreateProgram(&program, unit->text, name, 0, NULL, NULL);
  if (result != NVRTC_SUCCESS) return result;
  const char *options[BUILD_FLAGS + 1] = {target};
  memcpy(options + 1, build_flags, sizeof build_flags);
  result = nvrtcCompileProgram(program, BUILD_FLAGS + 1, options);
  size_t n;
  if (nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS && n) {
    unit->log = xmalloc(n + 1);
    unit->log[n] = 0;
    if (nvrtcGetProgramLog(program, unit->log) != NVRTC_SUCCESS) unit->log[0] = 0;
  }
  if (result == NVRTC_SUCCESS) result = nvrtcGetCUBINSize(program, &unit->nbytes);
  if (result == NVRTC_SUCCESS) {
    unit->cubin = xmalloc(unit->nbytes);
    result = nvrtcGetCUBIN(program, unit->cubin);
  }
  nvrtcResult closed = nvrtcDestroyProgram(&program);
  return result != NVRTC_SUCCESS ? result : closed;
}

static void *units_compile(void *self) {
  Build *b = self;
  for (int i; (i = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED)) < b->n;)
    b->units[i].result = unit_compile(&b->units[i], i, b->arch);
  return NULL;
}

static void build_run(Build *b, int threads) {
  pthread_t *others = xmalloc(sizeof *others * (size_t)threads);
  int started = 0;
  while (started < threads - 1 && started < b->n - 1 && try_thread_start(&others[started], units_compile, b, NULL)) started++;
  units_compile(b);
  for (int i = 0; i < started; i++) CHECK(pthread_join(others[i], NULL) == 0);
  free(others);
}

/* Line `number` of text, as "   v7 = v3 + ;". */
static int text_line(const char *text, long number, const char **line) {
  for (long i = 1; i < number && text; i++) {
    text = strchr(text, '\n');
    text += text != NULL;
  }
  *line = text ? text : "";
  return (int)strcspn(*line, "\n");
}

/* The log from its first line with "error" on, and the source line that it speaks of. */
static bool unit_failed(const Unit *unit, const char *arch, Why *why) {
  const char *log = unit->log ? unit->log : "", *error = strstr(log, "error"), *line = "";
  while (error && error > log && error[-1] != '\n') error--;
  const char *told = error ? error : log, *number = strchr(told, '(');
  int n = number ? text_line(unit->text, strtol(number + 1, NULL, 10), &line) : 0;
  return why_not(why,
                 "NVRTC cannot build the kernels for %s: %s\n%.500s\n   line: %.*s\n"
                 "help: where it does not know %s, a newer CUDA toolkit does; else this is a fault of hpctrain: please report it",
                 arch, nvrtcGetErrorString(unit->result), told, n < 200 ? n : 200, line, arch);
}

static void image_take(Build *b, void **image, size_t *nbytes) {
  CubinHead head = {.n = (uint64_t)b->n};
  memcpy(head.magic, cubin_magic, sizeof head.magic);
  snprintf(head.arch, sizeof head.arch, "%s", b->arch);
  *nbytes = sizeof head;
  for (int i = 0; i < b->n; i++) *nbytes += head.sizes[i] = (b->units[i].nbytes + 63) / 64 * 64; /* cubins start aligned */
  *image = xmalloc(*nbytes);
  memset(*image, 0, *nbytes);
  memcpy(*image, &head, sizeof head);
  char *at = (char *)*image + sizeof head;
  for (int i = 0; i < b->n; i++) {
    memcpy(at, b->units[i].cubin, b->units[i].nbytes);
    at += head.sizes[i];
  }
}

static bool key_make(const char *arch, const char *const *texts, int n, char key[65], Why *why) {
  int version[2];
  if (nvrtcVersion(&version[0], &version[1]) != NVRTC_SUCCESS)
    return why_not(why, "NVRTC does not tell its version\nhelp: install CUDA's NVRTC library anew");
  Sha256 s;
  sha256_init(&s);
  sha256_add_text(&s, "nvrtc");
  sha256_add(&s, version, sizeof version);
  sha256_add_text(&s, arch);
  for (int i = 0; i < BUILD_FLAGS; i++) sha256_add_text(&s, build_flags[i]);
  for (int i = 0; i < n; i++) sha256_add_text(&s, texts[i]);
  sha256_hex(&s, key);
  return true;
}

bool cuda_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why) {
  const Cuda *cuda = dev->own;
  char key[65];
  CHECK(n >= 1 && n <= (int)(sizeof((CubinHead *)NULL)->sizes / sizeof(uint64_t)));
  if (!key_make(cuda->arch, texts, n, key, why)) return false;
  *hit = cache_try_read(&dev->cache, key, image, nbytes);
  if (*hit) return true;
  Build b = {.arch = cuda->arch, .n = n, .units = xmalloc(sizeof *b.units * (size_t)n)};
  for (int i = 0; i < n; i++) b.units[i] = (Unit){.text = texts[i]};
  build_run(&b, dev->threads);
  bool ok = true;
  text_close(&dev->log);
  for (int i = 0; i < n; i++) {
    if (ok && b.units[i].result != NVRTC_SUCCESS) ok = unit_failed(&b.units[i], cuda->arch, why);
    if (b.units[i].log) text_printf(&dev->log, "%s", b.units[i].log);
  }
  if (ok) {
    image_take(&b, image, nbytes);
    seal_add(image, nbytes);
    cache_write(&dev->cache, key, *image, *nbytes);
  }
  for (int i = 0; i < n; i++) {
    free(b.units[i].log);
    free(b.units[i].cubin);
  }
  free(b.units);
  return ok;
}
