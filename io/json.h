/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from elsewhere (jansson): one reading for the whole folder.  Keys that come twice are errors, texts may hold NULs. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "src/base/fail.h"

/* NULL and why: path:line and the parser's words.  The caller drops the reference. */
json_t *json_parse(const char *text, size_t n, const char *path, Why *why);
json_t *json_parse_file(const char *path, Why *why); /* at most 64 MiB */

/* Indented, with keys in their order; the file is whole or as it was.  Takes root. */
bool try_json_write_take(const char *path, json_t *root, Why *why);

#endif
