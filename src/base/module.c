/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char first_folder[PATH_MAX];

void module_look_in(const char *folder) { snprintf(first_folder, sizeof first_folder, "%s/", folder); }

/* The folder of this program, with a "/" at its end. */
static void program_folder(char out[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
  out[n < 0 ? 0 : n] = 0;
  char *slash = strrchr(out, '/');
  out[slash ? slash - out + 1 : 0] = 0;
}

static bool try_open(const char *path, void **handle, Text *tried) {
  *handle = NULL;
  if (access(path, F_OK)) {
    text_printf(tried, "   %s: not there\n", path);
    return false;
  }
  *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*handle) text_printf(tried, "   %s\n", dlerror());
  return *handle != NULL;
}

void *module_open(const char *name, const char *file, Text *tried) {
  char folder[PATH_MAX], path[PATH_MAX + 64];
  void *handle;
  if (file) {
    try_open(file, &handle, tried);
    return handle;
  }
  program_folder(folder);
  const char *places[][2] = {{first_folder, ""}, {folder, ""}, {folder, "../lib/hpctrain/"}, {PKGLIBDIR, "/"}};
  for (size_t i = !*first_folder; i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s%s%s", places[i][0], places[i][1], name);
    if (try_open(path, &handle, tried)) return handle;
  }
  return NULL;
}

const void *module_symbol(const char *name, const char *symbol, Why *why) {
  Text tried = {0};
  text_add(&tried, "", 0);
  void *handle = module_open(name, NULL, &tried);
  if (!handle)
    why_not(why,
            "this part of the program, %s, does not load\n%shelp: where a library is missing, install it: jobs/install-deps.sh",
            name, tried.at);
  text_close(&tried);
  if (!handle) return NULL;
  const void *found = dlsym(handle, symbol);
  if (!found) why_not(why, "%s is of another build than this program\nhelp: install both from one build", name);
  return found;
}
