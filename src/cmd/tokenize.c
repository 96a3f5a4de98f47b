/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain tokenize: text becomes token files, by a tokenizer; or, in short, one token file in which every byte is a token
 * (vocabulary 256), text after text.  The order-0 entropy of the bytes is what a model that knows only their frequencies would pay:
 * the loss to beat. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/tokens.h"
#include "src/base/fail.h"
#include "src/cmd/cmd.h"
#include "src/cmd/tokenize.h"
#include "src/report/human.h"

static const char usage[] =
    "usage: hpctrain tokenize OUT.bin TEXT ...   (bytes; - is standard input), or\n"
    "      hpctrain tokenize --tokenizer T INPUT ... --out PREFIX [--chat TEMPLATE], or hpctrain tokenize --tokenizer T --print";

static void add_file(TokensWriter *out, const char *path, int64_t count[256]) {
  unsigned char bytes[65536];
  int32_t ids[65536];
  bool is_input = !strcmp(path, "-");
  int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(FAIL_INPUT, "%s: %s\nhelp: %s", path, strerror(errno), usage);
  for (;;) {
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(FAIL_INPUT, "%s: %s", path, strerror(errno));
    if (n == 0) break;
    for (ssize_t i = 0; i < n; i++) {
      ids[i] = bytes[i];
      count[bytes[i]]++;
    }
    tokens_writer_add(out, ids, n);
  }
  if (!is_input) close(fd);
}

static double entropy_bits(const int64_t count[256], int64_t n) {
  double bits = 0;
  for (int i = 0; i < 256; i++)
    if (count[i]) bits -= (double)count[i] / (double)n * log2((double)count[i] / (double)n);
  return bits;
}

static int tokenize_bytes(int argc, char **argv) {
  int64_t count[256] = {0}, n = 0;
  words_refuse_ranks("tokenize OUT.bin"); /* all would write that one file */
  if (argc < 3 || (argv[1][0] == '-' && argv[1][1])) fail(FAIL_INPUT, "an output file and text files are wanted\nhelp: %s", usage);
  for (int i = 2; i < argc; i++) { /* before anything is written */
    if (!strcmp(argv[i], argv[1])) fail(FAIL_INPUT, "%s is both input and output\nhelp: %s", argv[1], usage);
    if (strcmp(argv[i], "-") && access(argv[i], R_OK)) fail(FAIL_INPUT, "%s: %s\nhelp: %s", argv[i], strerror(errno), usage);
  }
  TokensWriter *out = tokens_writer_open(argv[1], 2);
  for (int i = 2; i < argc; i++) add_file(out, argv[i], count);
  tokens_writer_close(out);
  for (int i = 0; i < 256; i++) n += count[i];
  printf("data   %.3g MB, %" PRId64 " tokens, order-0 entropy %.2f bits/byte\n", (double)n * 1e-6, n, entropy_bits(count, n));
  printf("wrote  %s\n", argv[1]);
  return 0;
}

/* --- with a tokenizer ------------------------------------------------------------------------------------------------------ */

Tokenizer *tokenize_open(const char *path, const char *pattern, const char *how) {
  Tokenizer *t;
  Why why;
  if (!path || !*path)
    fail(FAIL_INPUT, "--tokenizer is wanted: tokenizer.json, *.model, *.tiktoken, a folder with one, or bytes\nhelp: %s", how);
  if (!try_tokenizer_open(path, pattern, &t, &why)) fail(FAIL_INPUT, "%s", why.text);
  return t;
}

static int32_t role(const Tokenizer *t, TokenizerRole which, const char *what, const char *remedy) {
  int32_t id = tokenizer_special(t, which);
  if (id < 0) fail(FAIL_INPUT, "%s knows no %s\nhelp: %s", tokenizer_path(t), what, remedy);
  return id;
}

typedef struct Words {
  const char *tokenizer, *pattern, *out, *field, *chat;
  bool print, special, bos, no_eos, lines, inputs;
  int threads, shards;
} Words;

static Words take_words(int *argc, char **argv) {
  Words w = {.tokenizer = words_take(argc, argv, "--tokenizer"),
             .pattern = words_take(argc, argv, "--pattern"),
             .out = words_take(argc, argv, "--out"),
             .field = words_take(argc, argv, "--field"),
             .chat = words_take(argc, argv, "--chat"),
             .inputs = words_take_flag(argc, argv, "--train-on-inputs"),
             .threads = words_take_number(argc, argv, "--threads", 0),
             .shards = words_take_number(argc, argv, "--shards", 0),
             .print = words_take_flag(argc, argv, "--print"),
             .special = words_take_flag(argc, argv, "--add-special-tokens"),
             .bos = words_take_flag(argc, argv, "--bos"),
             .no_eos = words_take_flag(argc, argv, "--no-eos"),
             .lines = words_take_flag(argc, argv, "--lines")};
  for (int i = 1; i < *argc; i++)
    if (argv[i][0] == '-' && argv[i][1]) fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help tokenize", argv[i]);
  return w;
}

static void tell(const TokenizeOptions *o, const TokenizeMade *m) {
  char size[HUMAN_TEXT], documents[HUMAN_TEXT], tokens[HUMAN_TEXT];
  printf("data   %s in %d file%s; %s tokens, %.2f bytes each", human_bytes(m->nbytes, size), m->files, m->files > 1 ? "s" : "",
         human_count((double)m->tokens, tokens), m->nbytes / (double)(m->tokens ? m->tokens : 1));
  if (m->documents)
    printf("; %s document%s in %.1f s", human_count((double)m->documents, documents), m->documents == 1 ? "" : "s", m->seconds);
  printf("\nends   ");
  if (o->bos >= 0) printf("%d before and ", o->bos);
  if (o->chat)
    printf("of the chat template %s; marks beside say where conversations begin and what of them counts\n", o->chat_name);
  else if (o->eos >= 0)
    printf("%d behind each document\n", o->eos);
  else
    printf("none behind documents\n");
  printf("wrote  %s", m->first);
  if (m->shards > 1) printf(" … %s", m->last);
  printf(", uint%d", 8 * m->width);
  if (m->kept) printf("; %" PRId64 " of %d were there", m->kept, m->shards);
  printf("\n");
}

/* A conversation's ends are its template's. */
static Chat *open_chat(const Words *w, const Tokenizer *t) {
  Chat *chat = NULL;
  Why why;
  if (w->inputs && !w->chat) fail(FAIL_INPUT, "--train-on-inputs is for --chat: of texts all tokens count");
  if (w->chat && (w->field || w->bos || w->no_eos || w->lines))
    fail(FAIL_INPUT, "--chat has its own way with fields, lines and ends\nhelp: leave --field, --bos, --no-eos and --lines out");
  if (w->chat && !try_chat_open(t, w->chat, w->inputs, &chat, &why)) fail(FAIL_INPUT, "--chat: %s", why.text);
  return chat;
}

/* Bytes have no token to end a document with, so theirs follow one another. */
static int files(const Words *w, const Tokenizer *t, int argc, char **argv) {
  bool bytes = !strcmp(tokenizer_kind(t), "bytes");
  TokenizeOptions o = {.out = w->out,
                       .field = w->field ? w->field : "text",
                       .asked = w->field,
                       .chat_name = w->chat,
                       .inputs = w->inputs,
                       .bos = -1,
                       .eos = -1,
                       .lines = w->lines,
                       .shards = w->shards};
  if (!w->out || !*w->out) fail(FAIL_INPUT, "--out is wanted: how the names of the token files begin\nhelp: %s", usage);
  if (w->special)
    fail(FAIL_INPUT, "--add-special-tokens is for --print\nhelp: --bos and --no-eos say what documents begin and end with");
  if (argc < 2) fail(FAIL_INPUT, "text files, *.jsonl files or folders are wanted\nhelp: %s", usage);
  Chat *chat = open_chat(w, t);
  o.chat = chat;
  if (w->bos) o.bos = role(t, TOKENIZER_BOS, "token that begins a text", "leave --bos out");
  if (!w->no_eos && !bytes && !chat)
    o.eos = role(t, TOKENIZER_EOS, "token that ends a document", "--no-eos lets documents follow one another");
  Comm *comm = comm_is_launched() ? comm_boot(&argc, &argv) : comm_self();
  o.threads = w->threads ? w->threads : comm_core_share(comm);
  Arena *arena = arena_open();
  TokenizeMade made = tokenize_files(arena, comm, t, &o, argv + 1, argc - 1);
  if (comm_rank(comm) == 0) tell(&o, &made);
  arena_close(arena);
  comm_close(comm);
  chat_close(chat);
  return 0;
}

static int list_chats(void) {
  for (const char *const *name = chat_names(); *name; name++) printf("%s\n", *name);
  return 0;
}

int cmd_tokenize(int argc, char **argv) {
  int given = argc;
  Words w = take_words(&argc, argv);
  if (argc == given) return tokenize_bytes(argc, argv);
  if (w.chat && !strcmp(w.chat, "list")) return list_chats();
  if (w.print) words_refuse_ranks("tokenize --print");
  Tokenizer *t = tokenize_open(w.tokenizer, w.pattern, usage);
  if (w.print && (argc > 1 || w.out || w.field || w.bos || w.no_eos || w.lines || w.chat || w.inputs || w.threads || w.shards))
    fail(FAIL_INPUT, "--print reads standard input and takes --tokenizer, --pattern and --add-special-tokens alone");
  int status = w.print ? tokenize_print(t, w.special) : files(&w, t, argc, argv);
  tokenizer_close(t);
  return status;
}
