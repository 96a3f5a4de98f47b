/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/process.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"

int64_t process_peak(void) {
  static const char field[] = "VmHWM:";
  size_t n;
  char *status = file_read("/proc/self/status", &n), *at = status ? strstr(status, field) : NULL;
  int64_t kib = at ? strtoll(at + sizeof field - 1, NULL, 10) : 0;
  free(status);
  return 1024 * kib;
}
