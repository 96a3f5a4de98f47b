/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: version 2 has memory.max and memory.current in each folder up to the root, version 1 (below memory/)
 * memory.limit_in_bytes and memory.usage_in_bytes.  Files that are in memory only because nobody needed the room count as use
 * there, but are given back: inactive_file of memory.stat. */
#include "src/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"

typedef struct Version {
  const char *folder, *most, *used, *idle; /* idle: a line of memory.stat */
} Version;
static const Version versions[2] = {{"", "memory.max", "memory.current", "\ninactive_file "},
                                    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "}};

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

static void apply_group(NodeMemory *memory, const Version *v, const char *groups, const char *group) {
  char folder[3072];
  snprintf(folder, sizeof folder, "%s%s%s", groups, v->folder, strcmp(group, "/") ? group : "");
  int64_t most = read_number(folder, v->most, ""), used = read_number(folder, v->used, "");
  int64_t idle = read_number(folder, "memory.stat", v->idle);
  if (most < 0 || used < 0 || most >= memory->total) return; /* no limit: "max", or a huge number */
  int64_t left = most - used + (idle > 0 ? idle : 0);
  left = left < 0 ? 0 : left > most ? most : left;
  if (left >= memory->available) return;
  *memory = (NodeMemory){.total = most, .available = left};
  snprintf(memory->limit, sizeof memory->limit, "control group %.200s", group);
}

/* The group of this process and those it is in. */
static void apply_groups(NodeMemory *memory, const Version *v, const char *groups, const char *path) {
  char group[2048];
  snprintf(group, sizeof group, "%.*s", (int)strcspn(path, "\n"), path);
  if (*group != '/' || strstr(group, "/..")) snprintf(group, sizeof group, "/"); /* outside of what this process sees */
  for (;;) {
    apply_group(memory, v, groups, group);
    char *slash = strrchr(group, '/');
    if (!slash[1] && slash == group) return;
    slash[slash == group] = 0;
  }
}

NodeMemory node_memory_of(const char *proc, const char *groups) {
  NodeMemory memory = {.limit = "this node"};
  char path[4096];
  size_t n;
  int64_t total = read_number(proc, "meminfo", "MemTotal:"), available = read_number(proc, "meminfo", "MemAvailable:");
  if (total <= 0 || available < 0) return memory;
  memory.total = 1024 * total;
  memory.available = 1024 * available;
  snprintf(path, sizeof path, "%s/self/cgroup", proc);
  char *text = file_read(path, &n);
  const char *second = text ? strstr(text, "0::") : NULL, *first = text ? strstr(text, ":memory:") : NULL;
  if (second && (second == text || second[-1] == '\n')) apply_groups(&memory, &versions[0], groups, second + 3);
  if (first) apply_groups(&memory, &versions[1], groups, first + 8);
  free(text);
  return memory;
}

NodeMemory node_memory(void) { return node_memory_of("/proc", "/sys/fs/cgroup"); }
