/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/file.h"
#include "src/base/text.h"

enum { FILE_MAX = 64 << 20 }; /* bytes; an index of a million tensors */

json_t *json_parse(const char *text, size_t n, const char *path, Why *why) {
  json_error_t error;
  json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (!root) why_not(why, "%s:%d: %s", path, error.line, error.text);
  return root;
}

json_t *json_parse_file(const char *path, Why *why) {
  struct stat info;
  size_t n;
  if (stat(path, &info)) return why_not(why, "%s: %s", path, strerror(errno)), NULL;
  if (!S_ISREG(info.st_mode) || info.st_size > FILE_MAX)
    return why_not(why, "%s: not a JSON file (no plain file, or larger than 64 MiB)", path), NULL;
  char *text = file_read(path, &n);
  if (!text) return why_not(why, "%s: %s", path, strerror(errno)), NULL;
  json_t *root = json_parse(text, n, path, why);
  free(text);
  return root;
}

bool try_json_write_take(const char *path, json_t *root, Why *why) {
  char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  json_decref(root);
  CHECK(text);
  Text whole = {0};
  text_printf(&whole, "%s\n", text);
  bool ok = try_file_write(path, whole.at, whole.n, why);
  text_close(&whole);
  free(text);
  return ok;
}
