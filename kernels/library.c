/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries found at run time, so that one installation runs wherever any of them, or none, is installed. */
#include <dlfcn.h>
#include <link.h>

#include "kernels/rows.h"
#include "src/base/arena.h"

bool library_try_open(Library *library, const char *const *names, Why *why) {
  for (int i = 0; names[i] && !library->handle; i++) {
    library->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) continue;
    struct link_map *map = NULL;
    bool known = dlinfo(library->handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
    library->path = known ? map->l_name : names[i];
  }
  return library->handle || why_not(why, "no %s", names[0]);
}

void *library_symbol(const Library *library, const char *name) { return dlsym(library->handle, name); }
