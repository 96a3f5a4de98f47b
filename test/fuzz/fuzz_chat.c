/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of conversations: refused with a reason, or written with a mark an id.  A case's first byte chooses the template. */
#include <stdlib.h>
#include <string.h>

#include "io/chat.h"
#include "io/tokens.h"
#include "test/chat_tokenizer.h"
#include "test/fuzz/fuzz.h"

enum { MOST = 1 << 12 };

static Tokenizer *tokenizer(void) {
  static Tokenizer *t;
  Why why;
  if (t) return t;
  char path[4096];
  const char *top = getenv("srcdir");
  snprintf(path, sizeof path, "%s/test/golden/tokenizers/llama3-style.json", top ? top : ".");
  char *text = chat_tokenizer(path, NULL);
  if (!try_tokenizer_parse("/dev/null/tokenizer.json", text, strlen(text), NULL, &t, &why)) fail(FAIL_INPUT, "%s", why.text);
  free(text);
  return t;
}

static void try_case(const uint8_t *bytes, size_t n) {
  static TokenizerWork *work;
  static Chat *chats[16];
  static int n_chats;
  Why why = {""};
  if (!work) work = tokenizer_work_open(tokenizer());
  for (; chat_names()[n_chats]; n_chats++)
    if (!try_chat_open(tokenizer(), chat_names()[n_chats], false, &chats[n_chats], &why)) fail(FAIL_INPUT, "%s", why.text);
  if (!n) return;
  Ids ids = {0};
  Text marks = {0};
  bool ok = try_chat_encode(chats[bytes[0] % n_chats], work, (const char *)bytes + 1, n - 1, &ids, &marks, &why);
  CHECK(ok ? marks.n == (size_t)ids.n && ids.n : *why.text && !ids.n && !marks.n);
  for (int64_t i = 0; i < ids.n; i++)
    CHECK(tokenizer_has(tokenizer(), ids.at[i]) && (marks.at[i] & TOKEN_BEGINS) == (i ? 0 : TOKEN_BEGINS));
  ids_close(&ids);
  text_close(&marks);
}

static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  (void)arena;
  seeds[0] = fuzz_text(
      "0{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b c\"}, {\"role\": "
      "\"assistant\", \"content\": \"d\\n\"}, {\"role\": \"user\", \"content\": \"\"}]}");
  seeds[1] = fuzz_text(
      "1{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b <|eot_id|>\"}]}");
  seeds[2] = fuzz_text("2{\"prompt\": \"what?\", \"completion\": \" that\", \"more\": [1, null, {}]}");
  seeds[3] = fuzz_text("6{\"prompt\": \"\\u0000\\ud83d\\ude00\", \"completion\": \"\"}");
  return 4;
}

static const char *const words[] = {"\"role\"",
                                    "\"content\"",
                                    "\"system\"",
                                    "\"user\"",
                                    "\"assistant\"",
                                    "\"messages\"",
                                    "<|im_start|>",
                                    "</s>",
                                    "\\u0000",
                                    "[INST]",
                                    "[]",
                                    "{}",
                                    "<|end_header_id|>",
                                    NULL};

const FuzzTarget fuzz_target = {"chats_are_written_or_refused", try_case, make_seeds, words, MOST};
