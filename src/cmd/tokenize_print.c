/* SPDX-License-Identifier: Apache-2.0 */
/* One text a line, for other programs: hpctrain tokenize --print reads JSON strings and writes arrays of ids, hpctrain detokenize
 * the reverse.  Each answer is written before the next line is read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "src/cmd/cmd.h"
#include "src/cmd/tokenize.h"

/* Calls answer with each line of standard input that is not empty, as JSON. */
static void each_line(void (*answer)(void *self, json_t *json, int64_t line), void *self) {
  char *line = NULL;
  size_t cap = 0;
  ssize_t n;
  for (int64_t number = 1; (n = getline(&line, &cap, stdin)) >= 0; number++) {
    if (strspn(line, " \t\r\n") == (size_t)n) continue;
    json_error_t error;
    json_t *json = json_loadb(line, (size_t)n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!json) fail(FAIL_INPUT, "standard input:%lld: no JSON: %s", (long long)number, error.text);
    answer(self, json, number);
    json_decref(json);
    if (fflush(stdout)) fail(FAIL_MACHINE, "cannot write to standard output: %s", strerror(errno));
  }
  free(line);
}

typedef struct Print {
  const Tokenizer *t;
  TokenizerWork *work;
  Ids ids;
  Text out;
  bool special;
} Print;

static void print_ids(void *self, json_t *json, int64_t line) {
  Print *p = self;
  Why why;
  const Ids *before, *after;
  if (!json_is_string(json))
    fail(FAIL_INPUT, "standard input:%lld: no JSON string\nhelp: each line is one text, as \"text\"", (long long)line);
  p->ids.n = 0;
  p->out.n = 0;
  tokenizer_template(p->t, &before, &after);
  if (p->special) ids_add(&p->ids, before->at, before->n);
  if (!try_tokenizer_encode(p->work, json_string_value(json), json_string_length(json), &p->ids, &why))
    fail(FAIL_INPUT, "standard input:%lld: %s", (long long)line, why.text);
  if (p->special) ids_add(&p->ids, after->at, after->n);
  for (int64_t i = 0; i < p->ids.n; i++) text_printf(&p->out, "%s%d", i ? ", " : "", p->ids.at[i]);
  printf("[%.*s]\n", (int)p->out.n, p->out.n ? p->out.at : "");
}

int tokenize_print(const Tokenizer *t, bool special) {
  Print p = {.t = t, .work = tokenizer_work_open(t), .special = special};
  each_line(print_ids, &p);
  ids_close(&p.ids);
  text_close(&p.out);
  tokenizer_work_close(p.work);
  return 0;
}

static void print_text(void *self, json_t *json, int64_t line) {
  Print *p = self;
  Why why;
  if (!json_is_array(json))
    fail(FAIL_INPUT, "standard input:%lld: no JSON array\nhelp: each line is one text's ids, as [1, 2]", (long long)line);
  p->ids.n = 0;
  p->out.n = 0;
  for (size_t i = 0; i < json_array_size(json); i++) {
    const json_t *id = json_array_get(json, i);
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= tokenizer_vocab(p->t) || !tokenizer_has(p->t, (int32_t)value))
      fail(FAIL_INPUT, "standard input:%lld: element %zu is no id of %s, which has those below %lld", (long long)line, i,
           tokenizer_path(p->t), (long long)tokenizer_vocab(p->t));
    ids_add(&p->ids, &(int32_t){(int32_t)value}, 1);
  }
  if (!try_tokenizer_decode(p->t, p->ids.at, p->ids.n, false, &p->out, &why))
    fail(FAIL_INPUT, "standard input:%lld: %s", (long long)line, why.text);
  json_t *text = json_stringn_nocheck(p->out.at, p->out.n);
  char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII); /* or U+2028 would end lines for some */
  CHECK(quoted);
  puts(quoted);
  free(quoted);
  json_decref(text);
}

static const char usage[] = "usage: hpctrain detokenize --tokenizer T   (JSON arrays of ids on standard input, one a line)";

int cmd_detokenize(int argc, char **argv) {
  const char *path = words_take(&argc, argv, "--tokenizer"), *pattern = words_take(&argc, argv, "--pattern");
  if (argc > 1) fail(FAIL_INPUT, "what is '%.60s'?\nhelp: %s", argv[1], usage);
  Tokenizer *t = tokenize_open(path, pattern, usage);
  Print p = {.t = t};
  each_line(print_text, &p);
  ids_close(&p.ids);
  text_close(&p.out);
  tokenizer_close(t);
  return 0;
}
