/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain eval: what a model thinks of a text, or of the answers to multiple-choice questions, by one process or all ranks of a
 * launcher, with the same result to the last bit (src/train/scorer.h).
 *
 * A text is whole documents.  A document stands behind the tokenizer's first token (else its end token; without either its first
 * token is not scored).  One that is longer than the window is scored in several: each goes `stride` tokens further than the one
 * before and scores only what is new, so that all tokens but the first window's have window - stride tokens before them or more.
 *
 * A choice's score is the log-probability of its tokens behind those of the context alone: what the tokens of both as one text have
 * beyond as many as the context's.  acc takes the highest score, acc_norm the highest per character of the choice, acc_bytes per
 * byte; the blank before it does not count.  This is how EleutherAI's evaluation harness scores HellaSwag and ARC. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json_lines.h"
#include "io/questions.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"
#include "src/cmd/cmd.h"
#include "src/report/human.h"
#include "src/train/scorer.h"

static const char *const use_keys[] = {
    "data.tokenizer", "data.tokenizer_pattern", "precision.compute", "parallel.units_alive", "device.", "cpu.", "gpu.", NULL};

enum { WINDOW_MOST = 2048, SPEAK_EVERY = 10 }; /* tokens, where nobody says; seconds */

/* A document, or a choice: its ids, how many bytes of text they stand for, or characters, and the rows that it is scored in. */
typedef struct Piece {
  int64_t first, n; /* of all ids */
  int64_t bytes, characters, scored;
  int64_t row, rows;
  double nats;
} Piece;

typedef struct Eval {
  Arena *arena;
  Comm *comm;
  Loaded loaded;
  const char *folder, *text, *choices, *field, *each;
  int64_t window, stride; /* ids; 0: not said */
  bool json, special;
  TokenizerWork *work;
  int32_t *bytes; /* of each id; NULL until they are wanted */
  Ids ids;
  VEC(Piece) pieces;
  VEC(ScoreRow) rows;
  Question *questions;
  int n_questions;
  double begin, spoke;
} Eval;

static bool speaks(const Eval *e) { return comm_rank(e->comm) == 0; }

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* --- rows ----------------------------------------------------------------------------------------------------------------- */

static void add_ids(Eval *e, const char *place, const char *text, size_t n) {
  Why why;
  if (n >= 1 << 30) fail(FAIL_INPUT, "%s: a text of 1 GiB or more\nhelp: cut it into documents, as JSON lines", place);
  if (!try_tokenizer_encode(e->work, text, n, &e->ids, &why)) fail(FAIL_INPUT, "%s: %s", place, why.text);
}

/* What the first token of a text stands behind: that many ids. */
static int64_t add_front(Eval *e, bool special) {
  const Tokenizer *t = e->loaded.tokenizer;
  const Ids *before, *after;
  int32_t front = loaded_special(&e->loaded, TOKENIZER_BOS);
  if (front < 0) front = loaded_special(&e->loaded, TOKENIZER_EOS);
  tokenizer_template(t, &before, &after);
  if (special) ids_add(&e->ids, before->at, before->n);
  if (special && before->n) return before->n;
  if (front >= 0) ids_add(&e->ids, &front, 1);
  return front >= 0;
}

static void add_row(Eval *e, Piece *p, int64_t at, int64_t n, int64_t from) {
  vec_push(e->arena, &e->rows, (ScoreRow){.at = at, .n = n, .from = from});
  p->rows++;
  p->scored += n - from;
}

/* --- texts ---------------------------------------------------------------------------------------------------------------- */

static void add_document(Eval *e, const char *place, const char *text, size_t n) {
  Piece p = {.first = e->ids.n, .bytes = (int64_t)n, .row = e->rows.n};
  int64_t done = add_front(e, false);
  add_ids(e, place, text, n);
  p.n = e->ids.n - p.first;
  loaded_check_ids(&e->loaded, place, e->ids.at + p.first, p.n);
  if (!done && p.n) {
    if (!e->bytes) e->bytes = tokenizer_bytes(e->loaded.tokenizer);
    p.bytes -= e->bytes[e->ids.at[p.first]];
    done = 1;
  }
  for (int64_t at = 0; done < p.n; at += e->stride) {
    int64_t end = at + e->window + 1 < p.n ? at + e->window + 1 : p.n;
    add_row(e, &p, p.first + at, end - at, done - at);
    done = end;
  }
  vec_push(e->arena, &e->pieces, p);
}

static void add_line(void *self, const char *place, const json_t *value) {
  Eval *e = self;
  const json_t *text = json_is_object(value) ? json_object_get(value, e->field) : value;
  if (!json_is_string(text))
    fail(FAIL_INPUT, "%s: no text \"%s\"\nhelp: --field NAME says which field is the text", place, e->field);
  add_document(e, place, json_string_value(text), json_string_length(text));
}

static void read_text(Eval *e) {
  int64_t most = model_positions(&e->loaded.model);
  if (!e->window) e->window = most < WINDOW_MOST ? most : WINDOW_MOST;
  if (e->window > most)
    fail(FAIL_INPUT, "--window %lld: the model is made for %lld positions", (long long)e->window, (long long)most);
  if (!e->stride) e->stride = e->window > 1 ? e->window / 2 : 1;
  if (e->stride > e->window)
    fail(FAIL_INPUT, "--stride %lld: at most the window, %lld", (long long)e->stride, (long long)e->window);
  if (config_is_json(e->text)) {
    json_lines_read(e->text, add_line, e);
  } else {
    size_t n;
    char *text = file_read(e->text, &n);
    if (!text) fail(FAIL_INPUT, "%s: %s", e->text, strerror(errno));
    add_document(e, e->text, text, n);
    free(text);
  }
  if (!e->rows.n) fail(FAIL_INPUT, "%s: no text is there that could be scored", e->text);
}

/* --- choices -------------------------------------------------------------------------------------------------------------- */

static int64_t count_characters(const char *text, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
  return count;
}

/* Blanks that a context ends with go to the choice: a token seldom ends with one.  Where the last of the context and the first of
 * the choice have become one token, the context's own stays in front. */
static void add_choice(Eval *e, const Question *q, const Choice *c) {
  Piece p = {.first = e->ids.n, .bytes = (int64_t)c->n, .characters = count_characters(c->text, c->n), .row = e->rows.n};
  int64_t most = model_positions(&e->loaded.model) + 1;
  size_t kept = utf8_trimmed(q->context, q->n);
  Text text = {0};
  Ids before = {0};
  int64_t front = e->special || !kept ? add_front(e, e->special) : 0;
  add_ids(e, q->place, q->context, kept);
  int64_t from = e->ids.n - p.first;
  ids_add(&before, e->ids.at + p.first, from);
  e->ids.n = p.first + front;
  text_add(&text, q->context, q->n);
  if (q->apart || (kept == q->n && kept && !utf8_spaces(c->text, c->n))) text_add(&text, " ", 1);
  text_add(&text, c->text, c->n);
  add_ids(e, q->place, text.at, text.n);
  text_close(&text);
  p.n = e->ids.n - p.first;
  loaded_check_ids(&e->loaded, q->place, e->ids.at + p.first, p.n);
  loaded_check_ids(&e->loaded, q->place, before.at, before.n);
  if (from && from < p.n) memcpy(e->ids.at + p.first, before.at, sizeof *before.at * (size_t)from);
  ids_close(&before);
  from = from < 1 ? 1 : from < p.n ? from : p.n - 1; /* where nothing is left of the choice, the last token is scored */
  int64_t cut = p.n > most ? p.n - most : 0;         /* of the context's beginning */
  if (p.n < 2) fail(FAIL_INPUT, "%s: no token comes before a choice of one\nhelp: a context, or --add-special-tokens", q->place);
  if (from - cut < 1)
    fail(FAIL_INPUT, "%s: a choice of %lld tokens cannot be scored by a model of %lld positions", q->place, (long long)(p.n - from),
         (long long)most - 1);
  add_row(e, &p, p.first + cut, p.n - cut, from - cut);
  vec_push(e->arena, &e->pieces, p);
}

static void read_choices(Eval *e) {
  e->questions = questions_read(e->arena, e->choices, &e->n_questions);
  for (int i = 0; i < e->n_questions; i++)
    for (int k = 0; k < e->questions[i].n_choices; k++) add_choice(e, &e->questions[i], &e->questions[i].choices[k]);
}

/* --- results -------------------------------------------------------------------------------------------------------------- */

static void tell_progress(void *self, int64_t done, int64_t all) {
  Eval *e = self;
  double now = clock_seconds(), spent = now - e->begin;
  char left[HUMAN_TEXT];
  if (e->json || now - e->spoke < SPEAK_EVERY || done == all) return;
  e->spoke = now;
  printf("eval   %s %lld of %lld rows, %s left\n", base_name(e->text ? e->text : e->choices), (long long)done, (long long)all,
         human_duration(spent * (double)(all - done) / (double)done, left));
  fflush(stdout);
}

static void open_object(const Eval *e, Text *line, const char *kind, const char *path) {
  text_printf(line, "{\"type\": \"eval\", \"kind\": \"%s\", \"model\": ", kind);
  json_text_add(line, model_folder_path(e->loaded.from), strlen(model_folder_path(e->loaded.from)));
  text_printf(line, ", \"file\": ");
  json_text_add(line, path, strlen(path));
}

static void add_number(Text *line, const char *name, double value) {
  char text[NUM_TEXT];
  text_printf(line, ", \"%s\": %s", name, isfinite(value) ? num_double(value, text) : "null");
}

static void close_object_take(const Eval *e, Text *line) {
  add_number(line, "seconds", clock_seconds() - e->begin);
  printf("%s}\n", line->at);
  text_close(line);
}

static FILE *open_each(const Eval *e) {
  FILE *f = e->each ? fopen(e->each, "w") : NULL;
  if (e->each && !f) fail(FAIL_MACHINE, "%s: %s", e->each, strerror(errno));
  return f;
}

static void close_each(const Eval *e, FILE *f) {
  if (f && fclose(f)) fail(FAIL_MACHINE, "%s: %s", e->each, strerror(errno));
}

static void tell_text(const Eval *e) {
  Piece all = {0};
  FILE *each = open_each(e);
  char nats[NUM_TEXT], count[HUMAN_TEXT], seconds[HUMAN_TEXT], word[HUMAN_TEXT], bits[HUMAN_TEXT], loss[HUMAN_TEXT];
  for (int i = 0; i < e->pieces.n; i++) {
    const Piece *p = &e->pieces.at[i];
    if (each)
      fprintf(each, "{\"nats\": %s, \"tokens\": %lld, \"bytes\": %lld}\n", num_double(p->nats, nats), (long long)p->scored,
              (long long)p->bytes);
    all.nats += p->nats;
    all.bytes += p->bytes;
    all.scored += p->scored;
  }
  close_each(e, each);
  double mean = all.nats / (double)all.scored, per_byte = all.bytes ? all.nats / M_LN2 / (double)all.bytes : NAN;
  if (e->json) {
    Text line = {0};
    open_object(e, &line, "text", e->text);
    text_printf(&line, ", \"documents\": %d, \"tokens\": %lld, \"bytes\": %lld", e->pieces.n, (long long)all.scored,
                (long long)all.bytes);
    text_printf(&line, ", \"window\": %lld, \"stride\": %lld", (long long)e->window, (long long)e->stride);
    add_number(&line, "loss", mean);
    add_number(&line, "bits_per_byte", per_byte);
    add_number(&line, "perplexity", exp(mean));
    close_object_take(e, &line);
    return;
  }
  printf("eval   %s %s nats, %s bits/byte, perplexity %s, %s tokens in %d document%s, %s s\n", base_name(e->text),
         human_fixed(mean, 9, 4, loss), human_fixed(per_byte, 9, 3, bits), human_fixed(exp(mean), 9, 3, word),
         human_count((double)all.scored, count), e->pieces.n, e->pieces.n == 1 ? "" : "s",
         human_fixed(clock_seconds() - e->begin, 9, 1, seconds));
}

/* By what a score is divided. */
enum { WHOLE, PER_CHARACTER, PER_BYTE, WAYS };

/* The choice of the highest score; of equal ones the first. */
static int best_of(const Question *q, const Piece *p, int way) {
  int best = 0;
  double least = INFINITY;
  for (int k = 0; k < q->n_choices; k++) {
    const int64_t sizes[WAYS] = {1, p[k].characters, p[k].bytes};
    double nats = p[k].nats / (double)sizes[way];
    if (nats < least) least = nats, best = k;
  }
  return best;
}

static void print_question(FILE *f, const Question *q, const Piece *p) {
  char nats[NUM_TEXT];
  fprintf(f, "{\"nats\": [");
  for (int k = 0; k < q->n_choices; k++) fprintf(f, "%s%s", k ? ", " : "", num_double(p[k].nats, nats));
  fprintf(f, "], \"best\": %d, \"best_norm\": %d, \"label\": %d}\n", best_of(q, p, WHOLE), best_of(q, p, PER_CHARACTER), q->label);
}

static double standard_error(double share, int n) { return n > 1 ? sqrt(share * (1 - share) / (n - 1)) : 0; }

static void tell_choices(const Eval *e) {
  int right[WAYS] = {0}, n = e->n_questions;
  FILE *each = open_each(e);
  const Piece *p = e->pieces.at;
  for (int i = 0; i < n; p += e->questions[i++].n_choices) {
    for (int way = 0; way < WAYS; way++) right[way] += best_of(&e->questions[i], p, way) == e->questions[i].label;
    if (each) print_question(each, &e->questions[i], p);
  }
  close_each(e, each);
  double acc = (double)right[WHOLE] / n, norm = (double)right[PER_CHARACTER] / n, bytes = (double)right[PER_BYTE] / n;
  char seconds[HUMAN_TEXT];
  if (e->json) {
    Text line = {0};
    open_object(e, &line, "choices", e->choices);
    text_printf(&line, ", \"questions\": %d", n);
    add_number(&line, "acc", acc);
    add_number(&line, "acc_stderr", standard_error(acc, n));
    add_number(&line, "acc_norm", norm);
    add_number(&line, "acc_norm_stderr", standard_error(norm, n));
    add_number(&line, "acc_bytes", bytes);
    add_number(&line, "acc_bytes_stderr", standard_error(bytes, n));
    close_object_take(e, &line);
    return;
  }
  printf("eval   %s acc %.4f (stderr %.4f), acc_norm %.4f (stderr %.4f), %d question%s, %s s\n", base_name(e->choices), acc,
         standard_error(acc, n), norm, standard_error(norm, n), n, n == 1 ? "" : "s",
         human_fixed(clock_seconds() - e->begin, 9, 1, seconds));
}

/* --- the command ---------------------------------------------------------------------------------------------------------- */

static int64_t take_count(int *argc, char **argv, const char *name) {
  const char *word = words_take(argc, argv, name);
  int64_t n = 0;
  if (word && (!num_parse_int(word, &n) || n < 1 || n > 1 << 30)) fail(FAIL_INPUT, "%s %.40s: a number from 1 on", name, word);
  return n;
}

/* What is left in argv is the model's folder and keys; these are left in keys, argv[0] first. */
static int take_words(Eval *e, int argc, char **argv, char **keys) {
  int n = 1;
  e->text = words_take(&argc, argv, "--text");
  e->choices = words_take(&argc, argv, "--choices");
  e->field = words_take(&argc, argv, "--field");
  e->each = words_take(&argc, argv, "--each");
  e->window = take_count(&argc, argv, "--window");
  e->stride = take_count(&argc, argv, "--stride");
  e->json = words_take_flag(&argc, argv, "--json");
  e->special = words_take_flag(&argc, argv, "--add-special-tokens");
  keys[0] = argv[0];
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-' && strchr(argv[i], '='))
      keys[n++] = argv[i];
    else if (argv[i][0] != '-' && !e->folder)
      e->folder = argv[i];
    else
      fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help eval", argv[i]);
  }
  if (!e->folder || !e->text == !e->choices)
    fail(FAIL_INPUT, "eval needs a model's folder, and --text FILE or --choices FILE\nhelp: hpctrain help eval");
  if (e->field && (e->choices || !config_is_json(e->text)))
    fail(FAIL_INPUT, "--field is for --text *.jsonl or *.ndjson\nhelp: hpctrain help eval");
  if (!e->field) e->field = "text";
  if (e->choices && (e->window || e->stride)) fail(FAIL_INPUT, "--window and --stride are for --text\nhelp: hpctrain help eval");
  return n;
}

static void sum_pieces(Eval *e) {
  for (int i = 0; i < e->pieces.n; i++)
    for (int64_t k = 0; k < e->pieces.at[i].rows; k++) e->pieces.at[i].nats += e->rows.at[e->pieces.at[i].row + k].nats;
}

static void run(Eval *e) {
  int64_t longest = 2;
  loaded_tokenizer(&e->loaded, "eval");
  e->work = tokenizer_work_open(e->loaded.tokenizer);
  e->text ? read_text(e) : read_choices(e);
  tokenizer_work_close(e->work);
  for (int i = 0; i < e->rows.n; i++) longest = e->rows.at[i].n > longest ? e->rows.at[i].n : longest;
  scorer_start(&e->loaded, longest);
  if (speaks(e)) fprintf(stderr, "model  %s\n", model_folder_path(e->loaded.from));
  e->begin = e->spoke = clock_seconds();
  scorer_run(&e->loaded, e->ids.at, e->rows.at, e->rows.n, tell_progress, e);
  sum_pieces(e);
  if (speaks(e)) e->text ? tell_text(e) : tell_choices(e);
  if (fflush(stdout)) fail(FAIL_MACHINE, "cannot write to standard output");
}

int cmd_eval(int argc, char **argv) {
  Eval e = {.arena = arena_open(), .comm = comm_boot(&argc, &argv)};
  char **keys = arena_array(e.arena, char *, argc + 2);
  int nkeys = take_words(&e, argc, argv, keys);
  words_refuse_keys("eval", nkeys, keys, use_keys);
  loaded_open(&e.loaded, e.arena, e.comm, e.folder, nkeys, keys);
  run(&e);
  ids_close(&e.ids);
  free(e.bytes);
  loaded_close(&e.loaded);
  comm_close(e.comm);
  arena_close(e.arena);
  return 0;
}
