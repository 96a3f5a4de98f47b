/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens as text: which tokenizer, whether it suits model and files, and how the data begin. */
#include <stdlib.h>
#include <string.h>

#include "src/base/utf8.h"
#include "src/train/data.h"

enum { FIRST_TEXT = 48, FIRST_IDS = 8 }; /* bytes; ids */

static bool is_auto(const Config *c) { return !strcmp(c->data.tokenizer, "auto"); }

static bool try_open(const Config *c, const char *path, int64_t vocab, Tokenizer **t, Why *why) {
  if (!try_tokenizer_open(path, c->data.tokenizer_pattern, t, why)) return false;
  if (tokenizer_vocab(*t) <= vocab) return true;
  why_not(why, "%s has %lld ids, but the model's vocabulary %lld", tokenizer_path(*t), (long long)tokenizer_vocab(*t),
          (long long)vocab);
  tokenizer_close(*t);
  *t = NULL;
  return false;
}

Tokenizer *data_open_tokenizer(const Config *c, int64_t vocab, Text *warnings) {
  Tokenizer *t = NULL;
  Why why;
  if (!strcmp(c->data.tokenizer, "none") || (is_auto(c) && !c->model.from)) return NULL;
  if (try_open(c, is_auto(c) ? c->model.from : c->data.tokenizer, vocab, &t, &why)) return t;
  if (!is_auto(c))
    config_fail(c, "data.tokenizer", "the model's own tokenizer, or none: tokens are then shown as numbers", "%s", why.text);
  if (tokenizer_is_there(c->model.from))
    text_printf(warnings, "model.from: its tokenizer is not used: %.*s\n", (int)strcspn(why.text, "\n"), why.text);
  return NULL;
}

/* A file that notes another tokenizer, or NULL. */
static const char *other_file(const Data *d, const Tokenizer *t) {
  for (int set = 0; set < data_sets(d); set++)
    for (int i = 0; i < tokens_files(data_files(d, set)); i++) {
      const TokenNote *note;
      const char *path = tokens_note(data_files(d, set), i, &note);
      if (note && strcmp(note->tokenizer, tokenizer_hash(t))) return path;
    }
  return NULL;
}

Tokenizer *data_tokenizer(const Data *d, const Config *c, int64_t vocab, Text *warnings) {
  Tokenizer *t = data_open_tokenizer(c, vocab, warnings);
  const char *other = t ? other_file(d, t) : NULL;
  if (!other) return t;
  if (!is_auto(c))
    config_fail(c, "data.tokenizer", "the tokenizer that they were made with, or tokenize them anew",
                "%s was made with another tokenizer than %s", other, tokenizer_path(t));
  text_printf(warnings, "model.from: its tokenizer is not used: %s was made with another\n", other);
  tokenizer_close(t);
  return NULL;
}

/* In quotation marks; what would not print, or would end them, as \n or \x0a. */
static void quote(const char *text, size_t n, Text *out) {
  text_printf(out, "\"");
  for (size_t at = 0; at < n && at < FIRST_TEXT;) {
    uint32_t c = 0;
    int length = utf8_next(text + at, n - at, &c);
    unsigned char byte = (unsigned char)text[at];
    bool plain =
        length > 0 && c >= 32 && c != 127 && (c < 0x80 || c >= 0xA0) && c != '"' && c != '\\' && c != 0x2028 && c != 0x2029;
    if (byte == '\n')
      text_printf(out, "\\n");
    else if (plain)
      text_add(out, text + at, (size_t)length);
    else
      text_printf(out, "\\x%02x", byte);
    at += plain ? (size_t)length : 1;
  }
  text_printf(out, " ...\"");
}

void data_first(const Data *d, const Tokenizer *t, Text *out) {
  int32_t *ids;
  int64_t n = data_peek(d, &ids);
  Text text = {0};
  bool shown = t && try_tokenizer_show(t, ids, n < FIRST_TEXT ? n : FIRST_TEXT, &text, NULL);
  if (shown) quote(text.at, text.n, out);
  text_close(&text);
  for (int64_t i = 0; !shown && i < n && i < FIRST_IDS; i++) text_printf(out, "%s%d", i ? " " : "", ids[i]);
  if (!shown) text_printf(out, " ...");
  free(ids);
}
