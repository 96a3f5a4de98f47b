/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a JSON value a line. */
#ifndef IO_JSON_LINES_H
#define IO_JSON_LINES_H

#include "io/json.h"
#include "src/base/text.h"

/* Calls visit with each line that is not blank; place is "path:line", for messages, and what is wrong ends the job with it.  A file
 * that cannot be read is an input error. */
typedef void JsonLineVisit(void *self, const char *place, const json_t *value);
void json_lines_read(const char *path, JsonLineVisit *visit, void *self);
/* The same of lines of plain text, without their ends. */
typedef void TextLineVisit(void *self, const char *place, const char *line, size_t n);
void text_lines_read(const char *path, TextLineVisit *visit, void *self);
/* Bytes of the mark that some programs put before JSON, where none belongs (RFC 8259, 8.1). */
size_t json_mark(const char *text, size_t n);

/* Adds n bytes as a JSON string; what is no UTF-8 becomes U+FFFD. */
void json_text_add(Text *out, const char *bytes, size_t n);

#endif
