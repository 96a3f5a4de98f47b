/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"

/* Fields from 3 on, behind the name, which may hold anything, ") R 1" too: the state, the parent, and field 22. */
bool process_stat(int pid, ProcessStat *out) {
  static const char fields[] = " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNd64;
  char path[64];
  size_t n;
  snprintf(path, sizeof path, pid ? "/proc/%d/stat" : "/proc/self/stat", pid);
  char *text = file_read(path, &n), *open = text ? strchr(text, '(') : NULL, *close = open ? strrchr(open, ')') : NULL;
  bool ok = close && sscanf(close + 1, fields, &out->state, &out->parent, &out->started) == 3;
  if (ok) snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
  free(text);
  return ok;
}

int64_t process_peak(void) {
  static const char field[] = "VmHWM:";
  size_t n;
  char *status = file_read("/proc/self/status", &n), *at = status ? strstr(status, field) : NULL;
  int64_t kib = at ? strtoll(at + sizeof field - 1, NULL, 10) : 0;
  free(status);
  return 1024 * kib;
}

/* A path from outside of what this process sees begins with "/..": what it does see is the root. */
static void visit_groups(const char *root, char *path, bool second, CgroupVisit *visit, void *self) {
  char folder[4096];
  if (*path != '/' || !path[1] || strstr(path, "/..")) *path = 0;
  for (;;) {
    snprintf(folder, sizeof folder, "%s%s", root, path);
    visit(self, folder, second);
    char *slash = strrchr(path, '/');
    if (!slash) break;
    *slash = 0;
  }
}

void process_cgroups_of(const char *proc, const char *groups, const char *controller, CgroupVisit *visit, void *self) {
  char path[4096];
  size_t n;
  snprintf(path, sizeof path, "%s/self/cgroup", proc);
  char *text = file_read(path, &n), *save = NULL;
  for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    bool second = !strcmp(names, ":");
    if (!second && !strstr(names, controller)) continue;
    snprintf(path, sizeof path, "%s%s%s", groups, second ? "" : "/", second ? "" : controller);
    visit_groups(path, group, second, visit, self);
  }
  free(text);
}

void process_cgroups(const char *controller, CgroupVisit *visit, void *self) {
  process_cgroups_of("/proc", "/sys/fs/cgroup", controller, visit, self);
}
