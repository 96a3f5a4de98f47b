/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.jsonl and TensorBoard files. */
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/text.h"
#include "src/report/metrics.h"
#include "test/check.h"

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
  return n;
}

static StepEvent step_event(int64_t step) {
  return (StepEvent){.step = step,
                     .tokens = step * 4194304,
                     .step_tokens = 4194304,
                     .loss = 2.14371,
                     .grad_norm = 0.312,
                     .lr = 2.997e-4,
                     .seconds = 4.745,
                     .memory_gib = 77.4};
}

static void metrics_path(char path[300], const char *name) { snprintf(path, 300, "%s/%s", check_folder(), name); }

static json_t *metrics_read(const char *path, size_t *n) {
  FILE *f = fopen(path, "r");
  EXPECT(f);
  json_t *all = json_array();
  char line[4096];
  while (fgets(line, sizeof line, f)) {
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    EXPECT(object);
    json_array_append_new(all, object);
  }
  fclose(f);
  *n = json_array_size(all);
  return all;
}

static const Speed speed = {.per_token = {1e6, 2e6}, .devices = 2, .peak = 1e12};

static void steps(Metrics *m, int first, int last) {
  for (int i = first; i <= last; i++) {
    StepEvent e = step_event(i);
    metrics_step(m, &speed, &e);
  }
}

TEST(metrics_read_back_as_the_same_numbers) {
  char path[300];
  metrics_path(path, "metrics.jsonl");
  Metrics *m = metrics_open(check_folder(), 0, NULL);
  StepEvent e = {.step = 1,
                 .tokens = 3000000000,
                 .step_tokens = 1000,
                 .loss = 0.1 + 0.2,
                 .grad_norm = (double)2.1437f,
                 .lr = 1e-300,
                 .seconds = 1.0 / 3,
                 .memory_gib = 0,
                 .connect = 0.5,
                 .connect_waited = 0.125};
  metrics_step(m, &speed, &e);
  e.connect = 0;
  e.loss = NAN;
  e.grad_norm = INFINITY;
  metrics_step(m, &(Speed){0}, &e);
  metrics_eval(m, &(EvalEvent){.step = 1, .name = "a \"b\"\\\n\x01", .loss = -INFINITY, .tokens = 5, .seconds = 1});
  metrics_save(m, &(SaveEvent){.step = 1, .bytes = 1e12, .seconds = 2, .stalled = 0});
  Phases phases = {.n = 2, .at = {{"mpi", 0.25}, {"folder and data", 1.0 / 3}}};
  metrics_start(
      m, &(StartEvent){
             .step = 1, .attempt = 2, .ranks = 3, .kernels = 4, .cached = true, .seconds = 0.1, .load = 0.3, .phases = &phases});
  Why why;
  EXPECT(metrics_sync(m, &why));
  metrics_close(m);
  size_t n;
  json_t *all = metrics_read(path, &n), *first = json_array_get(all, 0), *second = json_array_get(all, 1),
         *third = json_array_get(all, 2);
  EXPECT(n == 5);
  EXPECT_TEXT(json_string_value(json_object_get(first, "type")), "step");
  EXPECT(json_integer_value(json_object_get(first, "tokens")) == 3000000000);
  EXPECT(json_number_value(json_object_get(first, "loss")) == 0.1 + 0.2);
  EXPECT(json_number_value(json_object_get(first, "grad_norm")) == (double)2.1437f);
  EXPECT(json_number_value(json_object_get(first, "lr")) == 1e-300);
  EXPECT(json_number_value(json_object_get(first, "seconds")) == 1.0 / 3);
  EXPECT_NEAR(json_number_value(json_object_get(first, "tokens_per_second")), 3000, 1e-12);
  EXPECT_NEAR(json_number_value(json_object_get(first, "mfu_causal")), 3000 * 1e6 / 2 / 1e12, 1e-12);
  EXPECT_NEAR(json_number_value(json_object_get(first, "mfu_full")), 3000 * 2e6 / 2 / 1e12, 1e-12);
  EXPECT(json_is_null(json_object_get(first, "memory_gib")));
  EXPECT(json_number_value(json_object_get(first, "connect_seconds")) == 0.5);
  EXPECT(json_number_value(json_object_get(first, "connect_waited_seconds")) == 0.125);
  EXPECT(!json_object_get(second, "connect_seconds"));
  EXPECT(json_number_value(json_object_get(first, "time")) > 1.7e9);
  const char *const nulls[] = {"loss", "grad_norm", "mfu_causal", "mfu_full"};
  for (int i = 0; i < 4; i++) EXPECT(json_is_null(json_object_get(second, nulls[i])));
  EXPECT_TEXT(json_string_value(json_object_get(third, "name")), "a \"b\"\\\n\x01");
  EXPECT(json_is_null(json_object_get(third, "loss")) && json_is_null(json_object_get(third, "bits_per_byte")));
  EXPECT(json_number_value(json_object_get(json_array_get(all, 3), "bytes")) == 1e12);
  json_t *start = json_array_get(all, 4);
  EXPECT(json_integer_value(json_object_get(start, "attempt")) == 2 && json_integer_value(json_object_get(start, "ranks")) == 3);
  EXPECT(json_is_true(json_object_get(start, "cached")) && json_is_null(json_object_get(start, "planned_gib")));
  EXPECT(json_number_value(json_object_get(start, "seconds")) == 0.1);
  EXPECT(json_number_value(json_object_get(start, "load_seconds")) == 0.3);
  const json_t *told = json_object_get(start, "phases");
  EXPECT(json_object_size(told) == 2 && json_number_value(json_object_get(told, "mpi")) == 0.25);
  EXPECT_NEAR(json_number_value(json_object_get(told, "folder and data")), 1.0 / 3, 1e-6);
  json_decref(all);
}

/* Attention over shorter rows costs less a token. */
TEST(a_step_of_shortened_passes_counts_its_own_arithmetic_and_padding) {
  char path[300];
  metrics_path(path, "metrics.jsonl");
  Metrics *m = metrics_open(check_folder(), 0, NULL);
  StepEvent e = step_event(1);
  e.step_tokens = 1000;
  e.seconds = 1;
  e.per_token = (Flops){4e5, 7e5};
  e.padding = 0.25;
  metrics_step(m, &speed, &e);
  metrics_close(m);
  size_t n;
  json_t *all = metrics_read(path, &n), *step = json_array_get(all, 0);
  EXPECT_NEAR(json_number_value(json_object_get(step, "mfu_causal")), 1000 * 4e5 / 2 / 1e12, 1e-12);
  EXPECT_NEAR(json_number_value(json_object_get(step, "mfu_full")), 1000 * 7e5 / 2 / 1e12, 1e-12);
  EXPECT(json_number_value(json_object_get(step, "padding")) == 0.25);
  json_decref(all);
}

TEST(metrics_have_a_point_in_every_locale) {
  const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
  for (int i = 0; i < 4; i++)
    if (setlocale(LC_ALL, locales[i])) break; /* where none is installed the C locale is tried again */
  text_pin_locale();
  char path[300], comma[] = "2,14", point[] = "2.14";
  metrics_path(path, "metrics.jsonl");
  Metrics *m = metrics_open(check_folder(), 0, NULL);
  steps(m, 1, 1);
  metrics_close(m);
  size_t n;
  char *text = file_read(path, &n);
  EXPECT(text && strstr(text, point) && !strstr(text, comma));
  free(text);
  setlocale(LC_ALL, "C");
}

TEST(a_resumed_run_has_each_step_once) {
  char path[300], cut[300];
  metrics_path(path, "metrics.jsonl");
  metrics_path(cut, "cut.jsonl");
  Metrics *m = metrics_open(check_folder(), 0, cut);
  steps(m, 1, 10);
  metrics_eval(m, &(EvalEvent){.step = 10, .name = "val", .loss = 1, .tokens = 5, .seconds = 1});
  metrics_close(m);
  FILE *f = fopen(path, "a");
  EXPECT(f && fputs("{\"type\":\"step\",\"step\":11,\"tok", f) >= 0 && !fclose(f)); /* killed in the middle */
  EXPECT(access(cut, F_OK));

  m = metrics_open(check_folder(), 7, cut);
  steps(m, 8, 12);
  metrics_close(m);
  size_t n;
  json_t *all = metrics_read(path, &n);
  EXPECT(n == 12);
  for (size_t i = 0; i < n; i++) EXPECT(json_integer_value(json_object_get(json_array_get(all, i), "step")) == (json_int_t)i + 1);
  json_decref(all);
  all = metrics_read(cut, &n);
  EXPECT(n == 4); /* 8 9 10 and the evaluation */
  json_decref(all);

  struct stat before, after;
  EXPECT(!stat(path, &before));
  metrics_close(metrics_open(check_folder(), 12, cut)); /* nothing to cut: not rewritten */
  EXPECT(!stat(path, &after) && before.st_ino == after.st_ino && before.st_size == after.st_size);
  metrics_close(metrics_open(check_folder(), 0, cut)); /* from the start again */
  EXPECT(!stat(path, &after) && after.st_size == 0);
}

TEST(foreign_lines_in_metrics_are_cut) {
  static const char *const foreign[] = {"",
                                        "x",
                                        "{\"type\":\"step\"}",
                                        "{\"type\":\"step\",\"step\":99999999999999999999999999}",
                                        "{\"type\":\"step\",\"step\":-1}",
                                        "{\"type\":\"step\",\"step\":1",
                                        "{\"type\":\"step\",\"step\":}",
                                        "{\"type\":\""};
  char path[300], cut[300];
  metrics_path(path, "metrics.jsonl");
  metrics_path(cut, "cut.jsonl");
  FILE *f = fopen(path, "w");
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) fprintf(f, "%s\n", foreign[i]);
  fprintf(f, "{\"type\":\"step\",\"step\":3}\n");
  EXPECT(!fclose(f));
  metrics_close(metrics_open(check_folder(), 5, cut));
  size_t n;
  json_decref(metrics_read(path, &n));
  EXPECT(n == 1);
  char *text = file_read(cut, &n);
  EXPECT(count(text, "\n") == sizeof foreign / sizeof *foreign);
  free(text);
}

/* TensorBoard: a reader that shares no code with the writer. */

static uint32_t slow_crc32c(const unsigned char *p, size_t n) {
  uint32_t crc = ~0u;
  while (n--) {
    crc ^= *p++;
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

static uint64_t little(const unsigned char *p, int n) {
  uint64_t value = 0;
  while (n--) value = value << 8 | p[n];
  return value;
}

static bool crc_holds(const unsigned char *p, size_t n, const unsigned char *stored) {
  uint32_t masked = (uint32_t)little(stored, 4) - 0xa282ead8u;
  return slow_crc32c(p, n) == (masked << 15 | masked >> 17);
}

typedef struct Field {
  int number;
  uint64_t value; /* or the length of bytes */
  const unsigned char *bytes;
} Field;

static uint64_t varint(const unsigned char **p, const unsigned char *end) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    EXPECT(*p < end && shift < 64);
    value |= (uint64_t)(**p & 127) << shift;
    if (!(*(*p)++ & 128)) return value;
  }
}

static bool field_next(const unsigned char **p, const unsigned char *end, Field *f) {
  if (*p == end) return false;
  uint64_t key = varint(p, end);
  *f = (Field){.number = (int)(key >> 3)};
  switch (key & 7) {
  case 0:
    f->value = varint(p, end);
    return true;
  case 1:
    f->value = little(*p, 8), *p += 8;
    break;
  case 2:
    f->value = varint(p, end), f->bytes = *p, *p += f->value;
    break;
  case 5:
    f->value = little(*p, 4), *p += 4;
    break;
  default:
    EXPECT(!"a wire type that exists");
  }
  EXPECT(*p <= end);
  return true;
}

/* "3:train/loss=2.5 " for each scalar, "version ", "start 8 ". */
static void event_describe(const unsigned char *p, const unsigned char *end, Text *out) {
  long long step = 0;
  Field f, v, s;
  while (field_next(&p, end, &f)) {
    if (f.number == 1) {
      double wall;
      memcpy(&wall, &f.value, 8);
      EXPECT(wall > 1.7e9 && wall < 1e11);
    } else if (f.number == 2)
      step = (long long)f.value;
    else if (f.number == 3)
      EXPECT(f.value == 13 && !memcmp(f.bytes, "brain.Event:2", 13)), text_printf(out, "version ");
    else if (f.number == 7) {
      const unsigned char *at = f.bytes;
      EXPECT(field_next(&at, f.bytes + f.value, &v) && v.number == 1 && v.value == 1);
      text_printf(out, "start %lld ", step);
    } else {
      EXPECT(f.number == 5);
      const unsigned char *at = f.bytes;
      while (field_next(&at, f.bytes + f.value, &v)) {
        const unsigned char *in = v.bytes, *in_end = v.bytes + v.value;
        EXPECT(v.number == 1 && field_next(&in, in_end, &s) && s.number == 1);
        text_printf(out, "%lld:%.*s=", step, (int)s.value, (const char *)s.bytes);
        EXPECT(field_next(&in, in_end, &s) && s.number == 2);
        float number;
        memcpy(&number, &s.value, 4);
        text_printf(out, "%g ", (double)number);
      }
    }
  }
}

/* The files come in the order of their names. */
static void board_describe(const char *folder, Text *out) {
  char command[400], path[400];
  snprintf(command, sizeof command, "ls %s/events.out.tfevents.*", folder);
  FILE *names = popen(command, "r");
  EXPECT(names);
  while (fgets(path, sizeof path, names)) {
    path[strcspn(path, "\n")] = 0;
    size_t n;
    unsigned char *bytes = (unsigned char *)file_read(path, &n);
    EXPECT(bytes);
    for (size_t at = 0; at < n;) {
      EXPECT(n - at >= 16 && crc_holds(bytes + at, 8, bytes + at + 8));
      uint64_t length = little(bytes + at, 8);
      EXPECT(length <= n - at - 16 && crc_holds(bytes + at + 12, length, bytes + at + 12 + length));
      event_describe(bytes + at + 12, bytes + at + 12 + length, out);
      at += 16 + length;
    }
    free(bytes);
    text_printf(out, "\n");
  }
  EXPECT(!pclose(names));
}

static void board_write(void) {
  Metrics *m = metrics_open(check_folder(), 0, NULL);
  StepEvent e = {.step = 1, .tokens = 8, .step_tokens = 8, .loss = 2.5, .grad_norm = 0.5, .lr = 0.25, .seconds = 2};
  metrics_step(m, &speed, &e);
  e.step = 300; /* two bytes of varint */
  e.loss = NAN;
  e.seconds = 0;
  metrics_step(m, &speed, &e);
  metrics_close(m);
  m = metrics_open(check_folder(), 150, NULL);
  metrics_eval(m, &(EvalEvent){.step = 151, .name = "web", .loss = 1.5, .bits_per_byte = 0.5, .tokens = 5, .seconds = 1});
  metrics_close(m);
}

TEST(a_tensorboard_file_reads_back_with_its_checksums) {
  board_write();
  Text text = {0};
  board_describe(check_folder(), &text);
  EXPECT_TEXT(text.at, "version 1:train/loss=2.5 1:train/grad_norm=0.5 1:train/lr=0.25 1:perf/tokens_per_second=4 "
                       "300:train/loss=nan 300:train/grad_norm=0.5 300:train/lr=0.25 \n"
                       "version start 151 151:eval/web=1.5 151:bits_per_byte/web=0.5 \n");
  text_close(&text);
}

/* Where Python has the package: it also forgets step 300, which the second attempt's START is behind. */
TEST(tensorboard_itself_reads_the_files) {
  if (system("python3 -c 'import tensorboard' > /dev/null 2>&1")) return;
  board_write();
  char command[800];
  snprintf(command, sizeof command,
           "python3 -c 'from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
           "a = E(\"%s\"); a.Reload()\n"
           "assert [(s.step, s.value) for s in a.Scalars(\"train/loss\")] == [(1, 2.5)], a.Scalars(\"train/loss\")\n"
           "assert [(s.step, s.value) for s in a.Scalars(\"eval/web\")] == [(151, 1.5)]' 2> /dev/null",
           check_folder());
  EXPECT(system(command) == 0);
}
