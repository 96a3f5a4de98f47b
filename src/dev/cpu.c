/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu back end: memory by mmap, code by the system's C compiler (compile.c) through a cache (cache.c), loaded from a file
 * in memory so that what runs is what was checked. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/dev/back.h"

enum { HUGE_PAGE = 2 << 20 };

/* --- who this CPU is --------------------------------------------------------------------------------------------------- */

/* The value of a line "name : value" of /proc/cpuinfo's first processor, up to its end; "" when absent. */
static int cpuinfo_find(const char *info, const char *name, const char **value) {
  const char *end = strstr(info, "\n\n");
  size_t n = strlen(name);
  for (const char *line = info; line && *line && (!end || line < end); line = strchr(line, '\n'), line += line != NULL) {
    if (strncmp(line, name, n) || (line[n] != '\t' && line[n] != ' ' && line[n] != ':')) continue;
    const char *colon = strchr(line, ':');
    if (!colon) break;
    *value = colon + 1 + strspn(colon + 1, " \t");
    return (int)strcspn(*value, "\n");
  }
  *value = "";
  return 0;
}

/* The widest vectors by the kernel's name of the feature. */
static const char *cpu_vectors(const char *flags, int n) {
  static const struct {
    const char *flag, *name;
  } vectors[] = {{" avx512f ", "avx512"}, {" avx2 ", "avx2"}, {" sve ", "sve"}, {" asimd ", "neon"}};
  Text padded = {0};
  text_printf(&padded, " %.*s ", n, flags);
  const char *name = "no wide vectors";
  for (size_t i = sizeof vectors / sizeof *vectors; i-- > 0;)
    if (strstr(padded.at, vectors[i].flag)) name = vectors[i].name;
  text_close(&padded);
  return name;
}

static void cpu_open(Dev *dev, const DevOptions *options) {
  size_t nbytes;
  char *info = file_read("/proc/cpuinfo", &nbytes);
  const char *text = info ? info : "", *model, *flags;
  int nmodel = cpuinfo_find(text, "model name", &model);
  int nflags = cpuinfo_find(text, "flags", &flags);
  if (!nflags) nflags = cpuinfo_find(text, "Features", &flags);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  snprintf(dev->describe, sizeof dev->describe, "%.*s, %ld core%s, %s", nmodel ? nmodel : 3, nmodel ? model : "CPU", cores,
           cores == 1 ? "" : "s", cpu_vectors(flags, nflags));
  free(info);
  omp_set_dynamic(0);
  omp_set_num_threads(dev->threads); /* for libraries that ask OpenMP; generated code says its number */
  dev->compiler = strdup(options->compiler ? options->compiler : "cc");
  CHECK(dev->compiler);
  if (strcmp(dev->compiler, "none")) cache_open(&dev->cache, options->cache, options->fallback);
}

static void cpu_close(Dev *dev) {
  cache_close(&dev->cache);
  free(dev->compiler);
}

/* --- memory ------------------------------------------------------------------------------------------------------------- */

/* Large memory starts at a huge page, so that the kernel can use them. */
static size_t memory_span(size_t nbytes) {
  size_t page = nbytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 4096;
  return nbytes ? (nbytes + page - 1) / page * page : page;
}

/* What is more than there is would be granted, and fail when it is touched. */
static void *cpu_alloc(Dev *dev, size_t nbytes, Why *why) {
  DevMemory memory;
  dev_host_memory(dev, &memory);
  if (memory.total && nbytes > memory.available) return NULL;
  size_t span = memory_span(nbytes), slack = span % HUGE_PAGE ? 0 : HUGE_PAGE;
  char *at = mmap(NULL, span + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return why_not(why, "mmap: %s", strerror(errno)), NULL;
  if (!slack) return at;
  size_t before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE, after = slack - before;
  if (before) CHECK(munmap(at, before) == 0);
  if (after) CHECK(munmap(at + before + span, after) == 0);
  madvise(at + before, span, MADV_HUGEPAGE); /* advice: a kernel without huge pages may refuse it */
  return at + before;
}

static void cpu_free(Dev *dev, void *at, size_t nbytes) {
  (void)dev;
  CHECK(munmap(at, memory_span(nbytes)) == 0);
}

/* --- code --------------------------------------------------------------------------------------------------------------- */

void dev_cpu_identity(Sha256 *key) {
  static const char *const names[] = {"vendor_id", "cpu family", "model",    "model name", "stepping",
                                      "flags",     "Features",   "CPU part", "CPU variant"};
  size_t nbytes;
  char *info = file_read("/proc/cpuinfo", &nbytes);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value;
    int n = cpuinfo_find(info ? info : "", names[i], &value);
    sha256_add_text(key, names[i]);
    sha256_add(key, value, (size_t)n);
  }
  free(info);
}

static bool cpu_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why) {
  if (!strcmp(dev->compiler, "none"))
    return why_not(why, "cpu.compiler is none\nhelp: cpu.compiler: cc compiles; none has the slow interpreter instead");
  Sha256 s;
  sha256_init(&s);
  if (!compile_try_identity(dev->compiler, &s, why)) return false;
  dev_cpu_identity(&s);
  for (int i = 0; i < n; i++) sha256_add_text(&s, texts[i]);
  char key[65];
  sha256_hex(&s, key);
  *hit = cache_try_read(&dev->cache, key, image, nbytes);
  if (*hit) return true;
  if (!compile_try(dev->compiler, texts, n, dev->threads, image, nbytes, why)) return false;
  seal_add(image, nbytes);
  cache_write(&dev->cache, key, *image, *nbytes);
  return true;
}

/* The descriptor stays open with the module: dlopen takes two files of one name for the same, and a closed descriptor's
 * number, which is the name, comes again. */
static bool load_memory(DevModule *module, const void *image, size_t nbytes) {
  module->fd = memfd_create("hpctrain-kernels", MFD_CLOEXEC);
  if (module->fd < 0) return false;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", module->fd);
  if (fd_write_at(module->fd, image, nbytes, 0)) module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module->handle) {
    close(module->fd);
    module->fd = -1;
  }
  return module->handle != NULL;
}

/* For systems that do not execute memory files. */
static bool load_file(DevModule *module, const void *image, size_t nbytes) {
  const char *folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/hpctrain-kernels-XXXXXX", folder && *folder ? folder : "/tmp");
  int fd = mkstemp(path);
  if (fd < 0) return false;
  if (fd_write_at(fd, image, nbytes, 0)) module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  close(fd);
  return module->handle != NULL;
}

static void cpu_load(Dev *dev, DevModule *module, const void *image, size_t nbytes) {
  (void)dev;
  if (!seal_holds(image, nbytes))
    fail(FAIL_MACHINE,
         "compiled code of %zu bytes is damaged: its checksum does not hold\nhelp: remove the kernel cache (hpctrain in "
         "$XDG_CACHE_HOME, else in ~/.cache) and start again",
         nbytes);
  size_t object = nbytes - SEAL_SIZE;
  if (load_memory(module, image, object)) return;
  char first[512];
  const char *words = dlerror();
  snprintf(first, sizeof first, "%s", words ? words : strerror(errno));
  if (load_file(module, image, object)) return;
  words = dlerror();
  fail(FAIL_MACHINE,
       "compiled code does not load\n   from memory: %s\n   from a file: %s\nhelp: set TMPDIR to a folder from which programs may "
       "run, or choose cpu.compiler: none",
       first, words ? words : strerror(errno));
}

static void *cpu_symbol(DevModule *module, const char *name) { return dlsym(module->handle, name); }

static void cpu_unload(DevModule *module) {
  CHECK(dlclose(module->handle) == 0);
  if (module->fd >= 0) close(module->fd);
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

static void cpu_copy(Dev *dev, void *to, const void *from, size_t nbytes, Copy direction) {
  (void)dev, (void)direction;
  if (nbytes) memcpy(to, from, nbytes);
}

static void cpu_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch) {
  (void)n, (void)launch;
  union {
    void *at;
    void (*code)(void *const *p, int threads);
  } f = {.at = function};
  f.code(pointers, dev->threads);
}

static void cpu_sync(Dev *dev) { (void)dev; }

static void cpu_event_keep(DevEvent *event) { (void)event; }

static void cpu_event_record(DevEvent *event) { event->seconds = clock_seconds(); }

static double cpu_event_seconds(const DevEvent *a, const DevEvent *b) { return b->seconds - a->seconds; }

const DevOps dev_cpu = {.kind = "cpu",
                        .open = cpu_open,
                        .close = cpu_close,
                        .alloc = cpu_alloc,
                        .free = cpu_free,
                        .memory = dev_host_memory,
                        .sensors = dev_host_sensors,
                        .try_build = cpu_try_build,
                        .load = cpu_load,
                        .symbol = cpu_symbol,
                        .unload = cpu_unload,
                        .copy = cpu_copy,
                        .launch = cpu_launch,
                        .sync = cpu_sync,
                        .event_open = cpu_event_keep,
                        .event_close = cpu_event_keep,
                        .event_record = cpu_event_record,
                        .event_seconds = cpu_event_seconds};
