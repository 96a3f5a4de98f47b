/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/text.h"

int64_t process_peak(void) {
  static const char field[] = "VmHWM:";
  size_t n;
  char *status = file_read("/proc/self/status", &n), *at = status ? strstr(status, field) : NULL;
  int64_t kib = at ? strtoll(at + sizeof field - 1, NULL, 10) : 0;
  free(status);
  return 1024 * kib;
}

void process_cgroups(const char *controller, CgroupVisit *visit, void *self) {
  size_t n;
  char *groups = file_read("/proc/self/cgroup", &n), *save = NULL;
  for (char *line = groups ? strtok_r(groups, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    bool second = !strcmp(names, ":");
    if (!second && !strstr(names, controller)) continue;
    for (;;) {
      char folder[4096];
      snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s%s", second ? "" : "/", second ? "" : controller, path);
      visit(self, folder, second);
      char *slash = strrchr(path, '/');
      if (!slash) break;
      *slash = 0;
    }
  }
  free(groups);
}

static void least_limit(void *self, const char *folder, bool second) {
  char file[4160];
  size_t n;
  snprintf(file, sizeof file, "%s/%s", folder, second ? "memory.max" : "memory.limit_in_bytes");
  char *text = file_read(file, &n);
  int64_t limit = text ? strtoll(text, NULL, 10) : 0, *least = self; /* "max" is none */
  if (limit > 0 && limit < *least) *least = limit;
  free(text);
}

int64_t process_room(void) {
  int64_t least = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
  process_cgroups("memory", least_limit, &least);
  return least;
}
