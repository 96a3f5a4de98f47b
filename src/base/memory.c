/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: version 2 has memory.max and memory.current in each folder up to the root, version 1 (below memory/)
 * memory.limit_in_bytes and memory.usage_in_bytes.  Files that are in memory only because nobody needed the room count as use
 * there, but are given back: inactive_file of memory.stat. */
#include "src/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/process.h"
#include "src/base/text.h"

typedef struct Version {
  const char *most, *used, *idle; /* idle: a line of memory.stat */
} Version;
static const Version versions[2] = {{"memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "},
                                    {"memory.max", "memory.current", "\ninactive_file "}};

typedef struct Look {
  NodeMemory memory;
  const char *groups; /* the folder of all groups */
} Look;

/* The number behind `field` in a file, or with "" the one that it begins with; -1: none ("max"). */
static int64_t read_number(const char *folder, const char *name, const char *field) {
  char path[4096];
  size_t n;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  char *text = file_read(path, &n), *at = text ? strstr(text, field) : NULL, *end = at;
  long long value = at ? strtoll(at + strlen(field), &end, 10) : -1;
  bool ok = at && end > at + strlen(field);
  free(text);
  return ok ? value : -1;
}

static void apply_group(void *self, const char *folder, bool second) {
  Look *look = self;
  NodeMemory *memory = &look->memory;
  const Version *v = &versions[second];
  int64_t most = read_number(folder, v->most, ""), used = read_number(folder, v->used, "");
  int64_t idle = read_number(folder, "memory.stat", v->idle);
  if (most < 0 || most >= memory->total) return; /* no limit: "max", or a huge number */
  memory->total = most;
  int64_t left = used < 0 ? most : most - used + (idle > 0 ? idle : 0);
  left = left < 0 ? 0 : left > most ? most : left;
  if (left >= memory->available) return;
  memory->available = left;
  snprintf(memory->limit, sizeof memory->limit, "control group %.200s",
           folder[strlen(look->groups)] ? folder + strlen(look->groups) : "/");
}

NodeMemory node_memory_of(const char *proc, const char *groups) {
  Look look = {.memory = {.limit = "this node"}, .groups = groups};
  int64_t total = read_number(proc, "meminfo", "MemTotal:"), available = read_number(proc, "meminfo", "MemAvailable:");
  if (total <= 0 || available < 0) return look.memory;
  look.memory.total = 1024 * total;
  look.memory.available = 1024 * available;
  process_cgroups_of(proc, groups, "memory", apply_group, &look);
  return look.memory;
}

NodeMemory node_memory(void) { return node_memory_of("/proc", "/sys/fs/cgroup"); }
