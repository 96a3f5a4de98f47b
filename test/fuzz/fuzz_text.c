/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and ids from elsewhere, by good tokenizers of every kind.  A case's first byte says which; the second whether the rest is a
 * text, or ids of 16 bits. */
#include <stdlib.h>
#include <string.h>

#include "io/tokenizer.h"
#include "src/base/module.h"
#include "src/base/utf8.h"
#include "test/fuzz/fuzz.h"
#include "test/tiktoken_ranks.h"

enum { MOST = 1 << 9, KINDS_MOST = 16 };

static struct {
  Tokenizer *t;
  TokenizerWork *w;
  const char *exact; /* NULL: what comes back may be another text; else it is the same, unless one of these bytes is in it */
} kinds[KINDS_MOST];
static int n_kinds;

/* One of many stages: those that make more of a text, and those that make less.  Patterns that give up: fuzz_tokenizer.c. */
static const char stages[] =
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
    "\"\\\\p{L}+\\\\p{M}\"},\"content\":\"aa\"},{\"type\":\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":true,"
    "\"strip_right\":true},{\"type\":\"Prepend\",\"prepend\":\"_\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"Punctuation\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"}]},"
    "\"added_tokens\":[{\"id\":8,\"content\":\" \",\"lstrip\":true,\"rstrip\":true,\"normalized\":false},{\"id\":9,\"content\":"
    "\"ab\",\"single_word\":true,\"normalized\":true,\"special\":true}],\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
    "\"ByteFallback\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"},{\"type\":\"Strip\",\"content\":\"a\",\"start\":2,\"stop\":1}"
    ","
    "{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(b|_)+$\"},\"content\":\"\\ufffd\"}]},\"model\":{"
    "\"unk_token\":\"u\",\"fuse_unk\":true,\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"_\":3,\"_a\":4,\"<0xE9>\":5,\"bb\":6,\"0\":7},"
    "\"merges\":[\"_ a\",\"b b\"]}}";

static void encode(int k, const char *text, size_t n) {
  const Tokenizer *t = kinds[k].t;
  Ids ids = {0};
  Text out = {0};
  Why why;
  bool exact = kinds[k].exact;
  for (const char *byte = exact ? kinds[k].exact : ""; *byte; byte++) exact = exact && !memchr(text, *byte, n);
  bool encoded = try_tokenizer_encode(kinds[k].w, text, n, &ids, &why);
  for (int64_t i = 0; i < ids.n; i++) CHECK(tokenizer_has(t, ids.at[i]));
  bool decoded = encoded && try_tokenizer_decode(t, ids.at, ids.n, true, &out, &why);
  if (exact) CHECK(decoded && out.n == n && !memcmp(out.at, text, n));
  text_close(&out);
  ids_close(&ids);
}

/* From one id too few to one too many. */
static void decode(int k, const uint8_t *bytes, size_t n) {
  const Tokenizer *t = kinds[k].t;
  Ids ids = {0};
  Text out = {0};
  for (size_t i = 0; i + 1 < n; i += 2) {
    int32_t id = (int32_t)((bytes[i] + 256 * bytes[i + 1]) % (tokenizer_vocab(t) + 2)) - 1;
    ids_add(&ids, &id, 1);
  }
  try_tokenizer_decode(t, ids.at, ids.n, true, &out, NULL);
  out.n = 0;
  if (try_tokenizer_decode(t, ids.at, ids.n, false, &out, NULL)) CHECK(utf8_valid(out.at, out.n) == out.n);
  out.n = 0;
  if (try_tokenizer_show(t, ids.at, ids.n, &out, NULL)) CHECK(utf8_valid(out.at, out.n) == out.n);
  text_close(&out);
  ids_close(&ids);
}

static void try_case(const uint8_t *bytes, size_t n) {
  if (n < 2) return;
  int k = bytes[0] % n_kinds;
  if (bytes[1] % 2)
    decode(k, bytes + 2, n - 2);
  else
    encode(k, (const char *)bytes + 2, n - 2);
}

static void add_kind(FuzzBytes file, const char *path, const char *pattern, const char *exact) {
  Why why;
  Tokenizer *t;
  bool ok = file.at ? try_tokenizer_parse(path, (const char *)file.at, file.n, pattern, &t, &why)
                    : try_tokenizer_open(path, pattern, &t, &why);
  if (!ok) fail(FAIL_BUG, "%s", why.text);
  CHECK(n_kinds < KINDS_MOST);
  kinds[n_kinds].t = t;
  kinds[n_kinds].w = tokenizer_work_open(t);
  kinds[n_kinds++].exact = exact;
}

static void open_kinds(Arena *arena) {
  static const struct {
    const char *name;
    const char *exact;
  } golden[] = {{"gpt2-style.json", ""},
                {"llama3-style.json", ""},
                {"llama2-style.json", "<\xe2"},
                {"sp-bpe.model", NULL},
                {"sp-unigram.model", NULL}};
  const char *build = getenv("builddir");
  module_look_in(build ? build : ".");
  for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
    add_kind(fuzz_file(arena, arena_printf(arena, "test/golden/tokenizers/%s", golden[i].name)), "/dev/null/tokenizer", NULL,
             golden[i].exact);
  Text ranks = {0};
  tiktoken_ranks(&ranks);
  add_kind((FuzzBytes){(const uint8_t *)ranks.at, ranks.n}, "/dev/null/tokenizer", "gpt2", "");
  text_close(&ranks);
  add_kind(fuzz_text(stages), "/dev/null/tokenizer", NULL, NULL);
  add_kind((FuzzBytes){0}, "bytes", NULL, "");
}

static int seeds(Arena *arena, FuzzBytes out[FUZZ_SEEDS]) {
  static const char text[] =
      "  The quick brown\tfox's 1234 caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xff\xe2\x82 </s>\r\n\n<|endoftext|>"
      "e\xcc\x81_ab bbbbb\xef\xbf\xbd\xf0\x9f\x98\x80";
  open_kinds(arena);
  for (int i = 0; i < 2 * n_kinds; i++) {
    uint8_t *copy = arena_alloc(arena, 2 + sizeof text);
    copy[0] = (uint8_t)(i / 2);
    copy[1] = (uint8_t)(i % 2);
    memcpy(copy + 2, text, sizeof text);
    out[i] = (FuzzBytes){copy, 2 + sizeof text};
  }
  return 2 * n_kinds;
}

static const char *const words[] = {
    "\xef\xbf\xbd", "\xe2\x96\x81", "<0x0A>",   "<|endoftext|>",    "</s>",     "<s>",      "\xed\xb0\x80",
    "\xcc\x81",     "\xef\xac\x83", "\xc2\xa0", "aaaaaaaaaaaaaaaa", "        ", "\r\n\r\n", NULL};

const FuzzTarget fuzz_target = {"texts_and_ids_are_encoded_and_decoded", try_case, seeds, words, MOST};
