/* SPDX-License-Identifier: Apache-2.0 */
/* What a device has of memory, and the end of a job that finds none: never without who holds what and what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "src/base/memory.h"
#include "src/dev/back.h"

static Dev *opened; /* first, and not closed: whose memory libraries find too little of */

void dev_memory_opened(Dev *dev) {
  if (!opened) opened = dev;
}

void dev_memory_closed(const Dev *dev) {
  if (opened == dev) opened = NULL;
}

DevMemory dev_memory(const Dev *dev) {
  DevMemory memory = {.place = ""};
  if (dev->ops->memory) dev->ops->memory(dev, &memory);
  return memory;
}

void dev_host_memory(const Dev *dev, DevMemory *memory) {
  (void)dev;
  NodeMemory node = node_memory();
  *memory = (DevMemory){.total = (size_t)node.total, .available = (size_t)node.available, .shared = true};
  snprintf(memory->place, sizeof memory->place, "%s", node.limit);
}

size_t dev_memory_beside(const DevMemory *memory, size_t allocated) {
  size_t known = memory->available + memory->others + allocated;
  return memory->shared || memory->total < known ? 0 : memory->total - known;
}

void dev_holders(Dev *dev, void (*tell)(void *self, Text *out), void *self) {
  dev->tell = tell;
  dev->tell_self = self;
}

/* --- ends of jobs ------------------------------------------------------------------------------------------------------------ */

static double gib(size_t nbytes) { return (double)nbytes / 0x1p30; }

/* "138.200 GiB free of 139.800 on GPU 0 (NVIDIA H200)" */
static void print_room(Text *out, const DevMemory *m) {
  if (m->total) text_printf(out, ", %.3f GiB free of %.3f on %s", gib(m->available), gib(m->total), m->place);
}

static void print_holders(Text *out, const Dev *dev, const DevMemory *m) {
  size_t beside = dev_memory_beside(m, dev->allocated);
  text_printf(out, "\n   %.3f GiB held before by this process", gib(dev->allocated));
  if (beside)
    text_printf(out, "; %.3f beside it: CUDA's context, NCCL, libraries%s", gib(beside), m->others ? "" : ", other processes");
  text_printf(out, "\n");
  if (dev->ops->holders) dev->ops->holders(dev, out);
  if (dev->tell) dev->tell(dev->tell_self, out);
}

/* The last of an error about memory.  dev may be NULL. */
static _Noreturn void end(Text *text, const Dev *dev, const DevMemory *m) {
  static const char many[] =
      "memory.recompute: block, a smaller train.micro_batch_size, parallel.strategy: full_shard over more ranks";
  fail(FAIL_MACHINE, "%shelp: %s%s; hpctrain plan RUN.yaml says what each saves%s", text->at,
       m->others ? "end these processes, or use another GPU; else " : "", dev && *dev->advice ? dev->advice : many,
       m->shared ? "" : ", and --gpu h200 on which GPUs it fits");
}

void dev_memory_short(const Dev *dev, size_t nbytes, const char *what, const char *words) {
  DevMemory m = dev_memory(dev);
  Text text = {0};
  text_printf(&text, "no memory for %s: %.3f GiB wanted", what, gib(nbytes));
  print_room(&text, &m);
  if (m.total && nbytes > m.available) text_printf(&text, ": %.3f short", gib(nbytes - m.available));
  if (*words) text_printf(&text, "\n   %s", words);
  print_holders(&text, dev, &m);
  end(&text, dev, &m);
}

void dev_memory_failed(const char *what, const char *words) {
  DevMemory m = opened ? dev_memory(opened) : (DevMemory){.place = ""};
  Text text = {0};
  text_printf(&text, "no memory for %s", what);
  print_room(&text, &m);
  text_printf(&text, "\n   %s", words);
  if (opened)
    print_holders(&text, opened, &m);
  else
    text_printf(&text, "\n");
  end(&text, opened, &m);
}

static void print_limit(Text *out) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit)) return;
  if (limit.rlim_cur == RLIM_INFINITY)
    text_printf(out, "; no limit of locked memory");
  else
    text_printf(out, "; at most %.3f GiB may be locked (ulimit -l)", gib(limit.rlim_cur));
}

void dev_host_memory_failed(size_t nbytes, const char *what, const char *words) {
  DevMemory m;
  Text text = {0};
  dev_host_memory(NULL, &m);
  text_printf(&text, "no pinned memory of the host for %s: ", what);
  if (nbytes) text_printf(&text, "%.3f GiB wanted, ", gib(nbytes));
  text_printf(&text, "%.3f GiB free of %.3f on %s", gib(m.available), gib(m.total), m.place);
  print_limit(&text);
  text_printf(&text, "\n   %s\n", words);
  if (opened && opened->tell) opened->tell(opened->tell_self, &text);
  fail(FAIL_MACHINE,
       "%shelp: less in the host's memory (fewer ranks a node, less offloaded), or higher limits: ulimit -l unlimited, the "
       "batch system's memory of the job",
       text.at);
}
