/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain bench data: what the loader makes by itself, beside what the run takes.  Each rank makes the rows that it would train
 * on, by one thread, as a run does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "src/base/clock.h"
#include "src/cmd/cmd.h"
#include "src/comm/comm.h"
#include "src/report/human.h"
#include "src/train/chat.h"
#include "src/train/data.h"
#include "src/train/setup.h"

enum { SECONDS = 3 };

typedef struct Bench {
  Arena *arena;
  Comm *comm;
  const Config *config;
  Batch batch;
  Data *data;
  DataRoom room;
  int32_t *ids, *labels, *starts; /* of a pass */
} Bench;

/* Of one rank. */
typedef struct Found {
  double open, first; /* seconds */
  double seconds, tokens;
  double disk; /* times that it waited for the disk */
  DataSpent spent;
} Found;

static void make_rows(Bench *b, int64_t at) {
  Why why;
  if (!try_data_train(b->data, &b->room, at, b->batch.micro, b->ids, b->labels, b->starts, &why)) fail(FAIL_INPUT, "%s", why.text);
}

static void open_data(Bench *b, Found *f) {
  const Config *c = b->config;
  Text warnings = {0};
  int64_t vocab = setup_model(b->arena, c, &warnings).vocab;
  const ChatFiles *made = chat_files_aside(b->arena, c, b->comm, vocab);
  double begin = clock_seconds();
  b->data = data_open(b->arena, c, made, vocab);
  f->open = clock_seconds() - begin;
  chat_files_drop(b->comm);
  Tokenizer *t = data_tokenizer(b->data, c, vocab, &warnings);
  data_set_end(b->data, c, vocab, t ? tokenizer_special(t, TOKENIZER_EOS) : -1);
  tokenizer_close(t);
  text_close(&warnings);
}

static double disk_waits(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? NAN : (double)usage.ru_majflt;
}

/* The first batch, then as many as fit into the time. */
static Found measure(Bench *b, int seconds) {
  Found f = {0};
  int64_t micro = b->batch.micro, rank = comm_rank(b->comm), stride = micro * comm_size(b->comm), at = rank * micro;
  Lengths lengths = config_buckets(b->config);
  open_data(b, &f);
  b->room = data_room(b->data, b->arena);
  b->room.spent = &f.spent;
  b->ids = arena_array(b->arena, int32_t, b->batch.micro_tokens);
  b->labels = arena_array(b->arena, int32_t, b->batch.micro_tokens);
  b->starts = b->config->data.packing ? arena_array(b->arena, int32_t, b->batch.micro_tokens) : NULL;
  double begin = clock_seconds();
  make_rows(b, at);
  f.first = clock_seconds() - begin;
  comm_barrier(b->comm);
  f.spent = (DataSpent){0};
  f.disk = disk_waits();
  begin = clock_seconds();
  do {
    make_rows(b, at += stride);
    RowLengths of = data_lengths(b->data, &b->room, at - rank * micro, stride);
    f.tokens += (double)(micro * lengths.at[lengths_holding(&lengths, of.longest)]);
    f.seconds = clock_seconds() - begin;
  } while (f.seconds < seconds);
  f.disk = disk_waits() - f.disk;
  return f;
}

/* Tokens a second of the last step that the run has told; NaN: of none. */
static double run_rate(const Config *c, Arena *arena) {
  static const char field[] = "\"tokens_per_second\":";
  size_t n;
  double rate = NAN;
  char *text = file_read(arena_printf(arena, "%s/metrics.jsonl", c->run.folder), &n);
  for (const char *at = text; at && (at = strstr(at, field)); at += strlen(field)) {
    char *end;
    double value = strtod(at + strlen(field), &end);
    if (end > at + strlen(field)) rate = value;
  }
  free(text);
  return rate;
}

static void tell(const Bench *b, const Found *all) {
  int n = comm_size(b->comm);
  Found worst = {0}, sum = {0};
  char one[HUMAN_TEXT], every[HUMAN_TEXT], needed[HUMAN_TEXT], bytes[HUMAN_TEXT];
  for (int r = 0; r < n; r++) {
    const Found *f = &all[r];
    worst.open = fmax(worst.open, f->open);
    worst.first = fmax(worst.first, f->first);
    sum.tokens += f->tokens / f->seconds;
    sum.disk += f->disk;
    sum.spent.order += f->spent.order;
    sum.spent.rows += f->spent.rows;
  }
  double spent = sum.spent.order + sum.spent.rows, rate = run_rate(b->config, b->arena);
  printf("data   %s tokens in %d file set%s; rows of %lld, %lld at a time\n", human_count((double)data_tokens(b->data), one),
         data_sets(b->data), data_sets(b->data) > 1 ? "s" : "", (long long)b->config->train.seq_len, (long long)b->batch.micro);
  printf("first  %.4f s: files opened in %.4f, rows made in %.4f\n", worst.open + worst.first, worst.open, worst.first);
  printf("speed  %s tokens/s a rank, by one thread; %s of %d rank%s; in ids and labels %s/s\n", human_count(sum.tokens / n, one),
         human_count(sum.tokens, every), n, n > 1 ? "s" : "", human_bytes(8 * sum.tokens, bytes));
  printf("time   which row comes %.1f %%, ids and labels of it %.1f %%; %.0f waits for the disk\n", 100 * sum.spent.order / spent,
         100 * sum.spent.rows / spent, sum.disk);
  if (isnan(rate))
    printf("run    not known: %s/metrics.jsonl tells of no step yet\n", b->config->run.folder);
  else
    printf("run    took %s tokens/s in its last step; the loader makes %.3g times that\n", human_count(rate, needed),
           sum.tokens / rate);
}

int cmd_bench(int argc, char **argv) {
  Bench b = {.arena = arena_open()};
  int seconds = words_take_number(&argc, argv, "--seconds", SECONDS);
  if (argc < 2 || strcmp(argv[1], "data")) fail(FAIL_INPUT, "bench wants to know what: data\nhelp: hpctrain help bench");
  b.comm = comm_is_launched() ? comm_boot(&argc, &argv) : comm_self();
  b.config = config_load(b.arena, argc - 1, argv + 1, comm_size(b.comm));
  if (b.config->demo) fail(FAIL_INPUT, "bench data wants a run file: the demo's data are made when it is run");
  b.batch = config_check_batch(b.config, comm_size(b.comm));
  Found mine = measure(&b, seconds), *all = arena_array(b.arena, Found, comm_size(b.comm));
  comm_gather(b.comm, &mine, sizeof mine, all);
  if (comm_rank(b.comm) == 0) tell(&b, all);
  data_close(b.data);
  comm_close(b.comm);
  arena_close(b.arena);
  return 0;
}
