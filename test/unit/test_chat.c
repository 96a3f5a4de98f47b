/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations: what they are written as, which of it counts, and what is refused.  test/cli/compare_chats.py holds the ids
 * against the library's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/chat.h"
#include "io/tokens.h"
#include "test/chat_tokenizer.h"
#include "test/check.h"

static Tokenizer *open_style(const char *style, const char *but) {
  char path[4096];
  const char *top = getenv("srcdir");
  snprintf(path, sizeof path, "%s/test/golden/tokenizers/%s-style.json", top ? top : ".", style);
  char *text = chat_tokenizer(path, but);
  Tokenizer *t;
  Why why;
  if (!try_tokenizer_parse("/dev/null/tokenizer.json", text, strlen(text), NULL, &t, &why))
    check_failed(__FILE__, __LINE__, "%s", why.text);
  free(text);
  return t;
}

typedef struct Written {
  Ids ids;
  Text marks, text, counted; /* of all ids, and of those that count */
} Written;

static Written write_line(const Tokenizer *t, const char *name, bool inputs, const char *line) {
  Chat *chat;
  Why why;
  Written w = {.ids = {0}};
  TokenizerWork *work = tokenizer_work_open(t);
  if (!try_chat_open(t, name, inputs, &chat, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  if (!try_chat_encode(chat, work, line, strlen(line), &w.ids, &w.marks, &why))
    check_failed(__FILE__, __LINE__, "%s: %s", line, why.text);
  EXPECT(w.marks.n == (size_t)w.ids.n);
  Ids some = {0};
  for (int64_t i = 0; i < w.ids.n; i++) {
    EXPECT(!(w.marks.at[i] & TOKEN_BEGINS) == (i > 0));
    if (w.marks.at[i] & TOKEN_COUNTS) ids_add(&some, &w.ids.at[i], 1);
  }
  EXPECT(try_tokenizer_show(t, w.ids.at, w.ids.n, &w.text, NULL) && try_tokenizer_show(t, some.at, some.n, &w.counted, NULL));
  ids_close(&some);
  tokenizer_work_close(work);
  chat_close(chat);
  return w;
}

static void written_close(Written *w) {
  ids_close(&w->ids);
  text_close(&w->marks);
  text_close(&w->text);
  text_close(&w->counted);
}

static const char two[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \" Hi \"},"
    "{\"role\": \"assistant\", \"content\": \"Yes?\"}, {\"role\": \"user\", \"content\": \"No\"},"
    "{\"role\": \"assistant\", \"content\": \"\\n OK\"}], \"id\": 7}";
static const char pair[] = "{\"prompt\": \"1+1\", \"completion\": \"2\"}";

/* name, what `two` is written as, what of it counts, what `pair` is. */
static const struct {
  const char *name, *two, *counts, *pair;
} rows[] = {
    {"llama2", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yes? </s><s>[INST] No [/INST] OK </s>", " Yes? </s> OK </s>",
     "<s>[INST] 1+1 [/INST] 2 </s>"},
    {"llama3",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe "
     "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi"
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNo<|eot_"
     "id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nOK<|eot_id|>",
     "Yes?<|eot_id|>OK<|eot_id|>",
     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n1+1<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n2"
     "<|eot_id|>"},
    {"mistral", "<s> [INST] Be brief.\n\n Hi  [/INST] Yes?</s> [INST] No [/INST] \n OK</s>", " Yes?</s>\n OK</s>",
     "<s> [INST] 1+1 [/INST] 2</s>"},
    {"mistral_v3", "<s>[INST] Be brief.\n\n Hi [/INST] Yes?</s>[INST] No[/INST] OK</s>", " Yes?</s> OK</s>",
     "<s>[INST] 1+1[/INST] 2</s>"},
    {"chatml",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\n"
     "No<|im_end|>\n<|im_start|>assistant\n\n OK<|im_end|>\n",
     "Yes?<|im_end|>\n OK<|im_end|>", "<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"},
    {"qwen2", NULL, NULL,
     "<|im_start|>system\nYou are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"},
    {"qwen2.5", NULL, NULL,
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\n1+1<|im_end|>\n"
     "<|im_start|>assistant\n2<|im_end|>\n"},
};

/* The golden tokenizer of bytes spells <s> for none of its own; its beginning and end are the other family's, as text shows. */
static char *with_ends(const Tokenizer *t, const char *text) {
  const char *from[] = {"<s>", "</s>", "<|begin_of_text|>"};
  TokenizerRole roles[] = {TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_BOS};
  Text out = {0};
  text_printf(&out, "%s", "");
  while (*text) {
    int i = 0;
    while (i < 3 && strncmp(text, from[i], strlen(from[i])) != 0) i++;
    size_t n = 1;
    const char *piece = i < 3 ? tokenizer_piece(t, tokenizer_special(t, roles[i]), &n) : text;
    text_add(&out, piece, n);
    text += i < 3 ? strlen(from[i]) : 1;
  }
  return out.at;
}

TEST(conversations_are_written_as_the_template_has_it_and_answers_count) {
  Tokenizer *t = open_style("llama3", NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Written a = write_line(t, rows[i].name, false, two), b = write_line(t, rows[i].name, false, pair);
    char *want = with_ends(t, rows[i].two ? rows[i].two : rows[4].two),
         *counts = with_ends(t, rows[i].counts ? rows[i].counts : rows[4].counts), *short_one = with_ends(t, rows[i].pair);
    EXPECT_TEXT(a.text.at, want);
    EXPECT_TEXT(a.counted.at, counts);
    EXPECT_TEXT(b.text.at, short_one);
    free(want);
    free(counts);
    free(short_one);
    written_close(&a);
    written_close(&b);
  }
  tokenizer_close(t);
}

/* Whoever renders a conversation and encodes it whole gets the same ids, whatever the contents begin and end with. */
TEST(ids_are_those_of_the_whole_text) {
  static const char *const contents[] = {"a",       " a ",    "\\n\\nb\\n",   "", "  ", "caf\xc3\xa9 12345", "x</s>y",
                                         "\\u0000", "[INST]", "\xe3\x80\x80z"};
  enum { N = sizeof contents / sizeof *contents };
  Tokenizer *t = open_style("llama3", NULL);
  TokenizerWork *work = tokenizer_work_open(t);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (int i = 0; i < N; i++) {
      char line[512];
      Ids whole = {0};
      Why why;
      snprintf(line, sizeof line, "{\"prompt\": \"%s\", \"completion\": \"%s\"}", contents[i], contents[N - 1 - i]);
      Written w = write_line(t, rows[r].name, false, line);
      if (!try_tokenizer_encode(work, w.text.at, w.text.n, &whole, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
      EXPECT(whole.n == w.ids.n && !memcmp(whole.at, w.ids.at, sizeof *whole.at * (size_t)whole.n));
      ids_close(&whole);
      written_close(&w);
    }
  tokenizer_work_close(work);
  tokenizer_close(t);
}

TEST(with_inputs_all_counts) {
  Tokenizer *t = open_style("llama3", NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Written some = write_line(t, rows[i].name, false, two), all = write_line(t, rows[i].name, true, two);
    EXPECT_TEXT(all.text.at, some.text.at);
    EXPECT_TEXT(all.counted.at, all.text.at);
    written_close(&some);
    written_close(&all);
  }
  tokenizer_close(t);
}

TEST(forms_of_a_conversation_are_alike) {
  static const char *const forms[] = {
      "{\"messages\": [{\"role\": \"user\", \"content\": \"1+1\"}, {\"role\": \"assistant\", \"content\": \"2\"}]}",
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"1+1\"}, {\"from\": \"gpt\", \"value\": \"2\"}], \"source\": null}",
      pair};
  Tokenizer *t = open_style("llama3", NULL);
  for (int i = 0; i < 3; i++) {
    Written w = write_line(t, "chatml", false, forms[i]);
    EXPECT_TEXT(w.text.at, rows[4].pair);
    written_close(&w);
  }
  tokenizer_close(t);
}

TEST(a_systems_text_beside_the_messages_is_the_systems_message) {
  static const char *const forms[] = {
      "{\"messages\": [{\"role\": \"system\", \"content\": \"Hm\"}, {\"role\": \"user\", \"content\": \"1+1\"}, "
      "{\"role\": \"assistant\", \"content\": \"2\"}]}",
      "{\"system\": \"Hm\", \"conversations\": [{\"from\": \"human\", \"value\": \"1+1\", \"weight\": 0}, "
      "{\"from\": \"gpt\", \"value\": \"2\", \"weight\": 1.0, \"train\": true}], \"tools\": \"[]\"}",
      "{\"prompt\": \"1+1\", \"completion\": \"2\", \"system\": \"Hm\", \"tools\": null}"};
  Tokenizer *t = open_style("llama3", NULL);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    Written want = write_line(t, rows[r].name, false, forms[0]);
    EXPECT(strstr(want.text.at, "Hm"));
    for (int i = 1; i < 3; i++) {
      Written w = write_line(t, rows[r].name, false, forms[i]);
      EXPECT_TEXT(w.text.at, want.text.at);
      EXPECT_TEXT(w.counted.at, want.counted.at);
      written_close(&w);
    }
    written_close(&want);
  }
  tokenizer_close(t);
}

static void refuse(const Chat *chat, TokenizerWork *work, const char *line, const char *want) {
  Ids ids = {0};
  Text marks = {0};
  Why why = {""};
  ids_add(&ids, &(int32_t){5}, 1);
  text_add(&marks, "\1", 1);
  EXPECT(!try_chat_encode(chat, work, line, strlen(line), &ids, &marks, &why));
  if (!strstr(why.text, want)) check_failed(__FILE__, __LINE__, "%s: '%s', not '%s'", line, why.text, want);
  EXPECT(ids.n == 1 && marks.n == 1);
  ids_close(&ids);
  text_close(&marks);
}

TEST(what_is_no_conversation_is_refused_by_what_is_wrong) {
  Tokenizer *t = open_style("llama3", NULL);
  TokenizerWork *work = tokenizer_work_open(t);
  Chat *turns, *chatml;
  Why why;
  CHECK(try_chat_open(t, "mistral", false, &turns, &why) && try_chat_open(t, "chatml", false, &chatml, &why));
  refuse(chatml, work, "{", "JSON:1: ");
  refuse(chatml, work, "[]", "no conversation: it has neither 'messages' nor");
  refuse(chatml, work, "{\"text\": \"x\"}", "no conversation");
  refuse(chatml, work, "{\"prompt\": \"x\"}", "no conversation");
  refuse(chatml, work, "{\"messages\": []}", "'messages' is no list of messages");
  refuse(chatml, work, "{\"messages\": \"x\"}", "'messages' is no list of messages");
  refuse(chatml, work, "{\"messages\": [{\"role\": \"user\"}]}", "a message without texts 'role' and 'content'");
  refuse(chatml, work, "{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}", "a message without texts 'role' and 'content'");
  refuse(chatml, work, "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}",
         "role 'tool' is none of system, user, assistant");
  refuse(chatml, work, "{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}]}",
         "a conversation of a system's message alone");
  refuse(chatml, work, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"system\", \"content\": \"x\"}]}",
         "a message of the system's that is not the first");
  refuse(turns, work, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"x\"}]}",
         "do not take turns, as chat template mistral wants it");
  refuse(turns, work, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}", "do not take turns");
  refuse(chatml, work, "{\"system\": 5, \"prompt\": \"x\", \"completion\": \"y\"}", "'system' is no text");
  refuse(chatml, work, "{\"tools\": [1], \"prompt\": \"x\", \"completion\": \"y\"}",
         "a conversation with 'tools', which no template");
  refuse(chatml, work, "{\"system\": \"x\", \"messages\": [{\"role\": \"system\", \"content\": \"x\"}]}",
         "a message of the system's that is not the first");
  const char *fields[][2] = {{"assistant\", \"weight\": 0", "a message whose 'weight' is not 1, but answers count"},
                             {"assistant\", \"weight\": 0.5", "a message whose 'weight' is not 1"},
                             {"assistant\", \"train\": false", "a message whose 'train' is not 1"},
                             {"user\", \"train\": true", "a message whose 'train' is not 0"},
                             {"assistant\", \"tool_calls\": [{}]", "a message with 'tool_calls', which no template"}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    char line[256];
    snprintf(line, sizeof line, "{\"messages\": [{\"content\": \"x\", \"role\": \"%s}]}", fields[i][0]);
    refuse(chatml, work, line, fields[i][1]);
  }
  chat_close(turns);
  chat_close(chatml);
  tokenizer_work_close(work);
  tokenizer_close(t);
}

TEST(a_template_whose_tokens_the_tokenizer_lacks_is_refused_by_their_names) {
  static const struct {
    const char *name, *lacks;
  } cases[] = {{"llama3", "<|start_header_id|>"},
               {"llama3", "<|eot_id|>"},
               {"chatml", "<|im_end|>"},
               {"qwen2", "<|im_start|>"},
               {"mistral_v3", "[/INST]"}};
  Chat *chat;
  Why why;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Tokenizer *t = open_style("llama3", cases[i].lacks);
    EXPECT(!try_chat_open(t, cases[i].name, false, &chat, &why) && strstr(why.text, "has no token ") &&
           strstr(why.text, cases[i].lacks));
    tokenizer_close(t);
  }
  Tokenizer *bytes;
  CHECK(try_tokenizer_open("bytes", NULL, &bytes, &why));
  EXPECT(!try_chat_open(bytes, "llama2", false, &chat, &why) && strstr(why.text, "has no token that begins a text"));
  EXPECT(!try_chat_open(bytes, "alpaca", false, &chat, &why) &&
         strstr(why.text, "no chat template is called 'alpaca'\nhelp: llama2, llama3, "));
  tokenizer_close(bytes);
}
