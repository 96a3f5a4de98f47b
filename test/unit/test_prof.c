/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: every instant is charged once, to whom the rules say; trace and table tell the same; what is recorded nests; a
 * table reads back, and what is no table is refused. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/prof/impl.h"
#include "test/check.h"

enum { PRODUCT, ATTENTION, GATHER, GATHER_WAIT, ITEMS };
static const ProfItem items[ITEMS] = {{"matmul", PROF_PRODUCTS, 2e9, 3e6, true},
                                      {"attention", PROF_ATTENTION, 1e9, 2e6, true},
                                      {"all_gather", PROF_GATHERS, 0, 1e6, false},
                                      {"all_gather", PROF_GATHERS, 0, 0, false}};

static Prof *open_prof(Dev **dev) {
  *dev = dev_open(&(DevOptions){.kind = "null", .threads = 1});
  Prof *prof = prof_open(*dev, 0, 1);
  prof_program(prof, "micro", items, ITEMS);
  prof_program(prof, "update", items, ITEMS);
  return prof;
}

static void close_prof(Prof *prof, Dev *dev) {
  prof_close(prof);
  dev_close(dev);
}

/* --- by hand ------------------------------------------------------------------------------------------------------------- */

static void put_span(Prof *prof, const char *name, int program, double begin, double end) {
  vec_push(prof->arena, &prof->spans, (ProfSpan){name, program, begin, end});
}

/* An item of the last span that ran on the device from begin to end. */
static void put_event(Prof *prof, int item, double begin, double end) {
  const ProfSpan *span = &prof->spans.at[prof->spans.n - 1];
  vec_push(prof->arena, &prof->brackets, (ProfBracket){prof->spans.n - 1, item, span->begin, span->begin});
  vec_push(prof->arena, &prof->events,
           (ProfEvent){.name = items[item].name, .begin = begin, .end = end, .bracket = prof->brackets.n - 1});
}

static void put_step(Prof *prof, double begin, double end) {
  vec_push(prof->arena, &prof->steps, (ProfStep){prof->steps.n + 1, begin, end});
}

static double own(const ProfTable *t, const char *program, ProfKind kind) {
  double sum = 0;
  for (int i = 0; i < t->rows.n; i++)
    if (t->rows.at[i].kind == kind && (!program || !strcmp(t->rows.at[i].program, program))) sum += t->rows.at[i].own;
  return sum;
}

static double own_all(const ProfTable *t) {
  double sum = 0;
  for (int kind = 0; kind < PROF_KINDS; kind++) sum += own(t, NULL, (ProfKind)kind);
  return sum;
}

static double busy_all(const ProfTable *t) {
  double sum = 0;
  for (int i = 0; i < t->rows.n; i++) sum += t->rows.at[i].busy;
  return sum;
}

TEST(computing_hides_talking_and_idle_time_is_the_hosts_or_a_gap) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  put_step(prof, 0, 20);
  put_span(prof, "data", -1, 0, 2);
  put_span(prof, "micro", 0, 2, 4);
  put_event(prof, PRODUCT, 3, 6); /* 3: a product; 2 to 3: a gap before micro's */
  put_event(prof, GATHER, 5, 9);  /* 6 to 8: exposed */
  put_event(prof, ATTENTION, 8, 10);
  put_span(prof, "update", 1, 10, 11);
  put_event(prof, PRODUCT, 12, 15);      /* 10 to 12: a gap before update's */
  put_span(prof, "metrics", -1, 16, 19); /* 15 to 16 and 19 to 20: gaps of none */
  ProfTable *t = prof_table(prof, prof->arena);
  EXPECT_NEAR(own(t, "micro", PROF_PRODUCTS), 3, 1e-12);
  EXPECT_NEAR(own(t, "micro", PROF_GATHERS), 2, 1e-12);
  EXPECT_NEAR(own(t, "micro", PROF_ATTENTION), 2, 1e-12);
  EXPECT_NEAR(own(t, "micro", PROF_GAPS), 1, 1e-12);
  EXPECT_NEAR(own(t, "update", PROF_PRODUCTS), 3, 1e-12);
  EXPECT_NEAR(own(t, "update", PROF_GAPS), 2, 1e-12);
  EXPECT_NEAR(own(t, "", PROF_HOST), 5, 1e-12);
  EXPECT_NEAR(own(t, "", PROF_GAPS), 2, 1e-12);
  EXPECT_NEAR(t->seconds, 20, 1e-12);
  EXPECT_NEAR(busy_all(t), 12, 1e-12); /* the gather's four, of which two are hidden */
  close_prof(prof, dev);
}

/* A counter stands where what is alive changes, at the time at which the device came to it. */
TEST(memory_is_counted_along_the_trace) {
  static const char *const classes[] = {"activations", "moments"};
  static const size_t alive[ITEMS * 2] = {10, 5, 10, 5, 30, 5, 0, 5};
  Dev *dev;
  Prof *prof = open_prof(&dev);
  Text text = {0};
  prof_memory(prof, 0, classes, 2, alive);
  put_step(prof, 0, 20);
  put_span(prof, "micro", 0, 2, 4);
  put_event(prof, PRODUCT, 3, 6);
  put_event(prof, ATTENTION, 6, 7); /* as much as before */
  put_event(prof, GATHER, 8, 9);
  prof_trace_print(prof, &text);
  const char *first = strstr(text.at, "\"ph\": \"C\""), *second = first ? strstr(first + 1, "\"ph\": \"C\"") : NULL;
  EXPECT(first && second && !strstr(second + 1, "\"ph\": \"C\""));
  EXPECT(strstr(first, "\"ts\": 3000000.000, \"args\": {\"activations\": 10, \"moments\": 5}}") > first);
  EXPECT(strstr(second, "\"ts\": 8000000.000, \"args\": {\"activations\": 30, \"moments\": 5}}") > second);
  text_close(&text);
  close_prof(prof, dev);
}

TEST(the_last_step_ends_when_the_device_is_done) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  put_step(prof, 0, 2);
  put_span(prof, "micro", 0, 0, 2);
  put_event(prof, PRODUCT, 1, 3);
  ProfTable *t = prof_table(prof, prof->arena);
  EXPECT_NEAR(t->seconds, 3, 1e-12);
  EXPECT_NEAR(own_all(t), 3, 1e-12);
  close_prof(prof, dev);
}

TEST(what_is_started_between_steps_is_not_counted) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  put_step(prof, 0, 2);
  put_step(prof, 5, 7);
  put_span(prof, "micro", 0, 1, 2);
  put_event(prof, PRODUCT, 1, 2);
  put_span(prof, "micro", 0, 3, 4); /* an evaluation, say */
  put_event(prof, PRODUCT, 3, 6);
  put_span(prof, "update", 1, 5, 7);
  put_event(prof, PRODUCT, 6, 7);
  ProfTable *t = prof_table(prof, prof->arena);
  EXPECT_NEAR(t->seconds, 4, 1e-12);
  EXPECT_NEAR(own(t, NULL, PROF_PRODUCTS), 2, 1e-12);
  EXPECT_NEAR(busy_all(t), 2, 1e-12);
  close_prof(prof, dev);
}

/* Events on some streams, spans that nest, some of no length. */
static void put_random(Prof *prof, uint64_t seed) {
  Rng rng = rng_make(seed, RNG_TEST, "profile", 0);
  double at[3] = {0}, time = 0;
  uint64_t draw = 0;
  for (int s = 0; s < 4; s++) {
    double begin = time;
    for (int i = 0; i < 20; i++) {
      double u = rng_uniform(&rng, draw++), length = i % 5 ? u : 0;
      bool runs = i % 2;
      put_span(prof, runs ? "micro" : "data", runs ? 0 : -1, time, time + length);
      int stream = i % 3, item = i / 2 % ITEMS;
      if (at[stream] < time) at[stream] = time;
      double end = at[stream] + (i % 7 ? rng_uniform(&rng, draw++) : 0);
      if (runs) put_event(prof, item, at[stream], end);
      if (runs) at[stream] = end;
      time += length;
    }
    put_step(prof, begin, time);
    time += s % 2;
  }
}

static int by_begin(const void *a, const void *b) {
  const ProfEvent *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

TEST(every_instant_is_charged_once) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    Dev *dev;
    Prof *prof = open_prof(&dev);
    put_random(prof, seed);
    qsort(prof->events.at, (size_t)prof->events.n, sizeof *prof->events.at, by_begin);
    ProfTable *t = prof_table(prof, prof->arena);
    double steps = 0, last = 0;
    for (int i = 0; i < prof->steps.n; i++) steps += prof->steps.at[i].end - prof->steps.at[i].begin;
    for (int i = 0; i < prof->events.n; i++) last = fmax(last, prof->events.at[i].end - prof->steps.at[prof->steps.n - 1].end);
    EXPECT_NEAR(t->seconds, steps + last, 1e-9);
    EXPECT_NEAR(own_all(t), t->seconds, 1e-9);
    for (int i = 0; i < t->rows.n; i++) EXPECT(t->rows.at[i].own >= 0);
    close_prof(prof, dev);
  }
}

/* --- recorded ---------------------------------------------------------------------------------------------------------------- */

static void wait_some(double seconds) {
  for (double end = clock_seconds() + seconds; clock_seconds() < end;) continue;
}

static void record(Prof *prof) {
  prof_arm(prof);
  prof_start(prof, 1.75e9);
  for (int s = 10; s < 12; s++) {
    prof_step_begin(prof, s);
    prof_span_begin(prof, "data");
    wait_some(1e-4);
    prof_span_end(prof);
    for (int program = 0; program < 2; program++) {
      prof_run_begin(prof, program);
      for (int i = 0; i < ITEMS; i++) {
        prof_item_begin(prof, i);
        wait_some(5e-5);
        prof_item_end(prof);
      }
      prof_run_end(prof);
    }
    prof_step_end(prof);
  }
  prof_stop(prof);
}

static bool within(double begin, double end, double outer_begin, double outer_end) {
  return outer_begin <= begin && begin <= end && end <= outer_end;
}

TEST(spans_and_items_nest_in_steps) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  record(prof);
  EXPECT(prof->steps.n == 2 && prof->spans.n == 6 && prof->brackets.n == 4 * ITEMS && prof->events.n == 4 * ITEMS);
  for (int i = 0; i < prof->spans.n; i++) {
    const ProfStep *step = &prof->steps.at[i / 3];
    EXPECT(within(prof->spans.at[i].begin, prof->spans.at[i].end, step->begin, step->end));
  }
  for (int i = 0; i < prof->brackets.n; i++) {
    const ProfBracket *b = &prof->brackets.at[i];
    EXPECT(within(b->begin, b->end, prof->spans.at[b->span].begin, prof->spans.at[b->span].end));
    EXPECT(i == 0 || prof->brackets.at[i - 1].end <= b->begin);
  }
  close_prof(prof, dev);
}

TEST(a_hosts_items_are_charged_all_of_their_time) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  record(prof);
  ProfTable *t = prof_table(prof, prof->arena);
  double steps = 0;
  for (int i = 0; i < prof->steps.n; i++) steps += prof->steps.at[i].end - prof->steps.at[i].begin;
  EXPECT_NEAR(t->seconds, steps, 1e-9);
  EXPECT_NEAR(own_all(t), steps, 1e-9);
  EXPECT(own(t, NULL, PROF_HOST) >= 2e-4); /* two spans of 0.1 ms or more */
  for (int i = 0; i < t->rows.n; i++) {
    const ProfRow *r = &t->rows.at[i];
    if (r->kind == PROF_GAPS || r->kind == PROF_HOST) continue;
    EXPECT_NEAR(r->own, r->busy, 1e-9);
    EXPECT(r->calls == 2); /* a collective's wait is no call of its own */
    EXPECT(r->kind != PROF_PRODUCTS || (r->flops == 4e9 && r->nbytes == 6e6));
  }
  EXPECT(t->first == 10 && t->last == 11 && t->steps == 2 && t->strays == 0);
  close_prof(prof, dev);
}

TEST(nothing_is_recorded_unless_asked_for) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  for (int i = 0; i < 2; i++) {
    Prof *p = i ? prof : NULL;
    prof_step_begin(p, 1);
    prof_span_begin(p, "data");
    prof_run_begin(p, 0);
    prof_item_begin(p, 0);
    prof_item_end(p);
    prof_run_end(p);
    prof_span_end(p);
    prof_step_end(p);
    prof_stop(p);
    EXPECT(!prof_on(p));
  }
  EXPECT(!prof->steps.n && !prof->spans.n && !prof->brackets.n && !prof->events.n);
  close_prof(prof, dev);
}

/* --- a device ------------------------------------------------------------------------------------------------------------------
 */

static uint64_t entered[64];
static int nentered;

static void fake_arm(void) { nentered = 0; }
static void fake_enter(uint64_t bracket) { entered[nentered++] = bracket; }
static void fake_leave(void) {}

/* A kernel a bracket, every second one without its number; each by a call that another call makes. */
static void fake_stop(Prof *prof, void (*add)(Prof *prof, const ProfEvent *event)) {
  for (int i = 0; i < nentered; i++) {
    double begin = prof->brackets.at[i].begin, end = prof->brackets.at[i].end;
    uint32_t correlation = (uint32_t)(100 - i);
    char name[32];
    snprintf(name, sizeof name, "kernel \"%d\"", i % 2); /* gone when this returns */
    ProfEvent inner = {.what = PROF_CALL, .name = "cuLaunchKernel", .begin = end, .end = end, .correlation = correlation};
    ProfEvent outer = {.what = PROF_CALL, .name = "cudaLaunchKernel", .begin = begin, .end = end, .correlation = correlation};
    ProfEvent kernel = {.name = name, .begin = end, .end = end + 2e-5, .bracket = i % 2 ? i : -1, .stream = 7};
    kernel.correlation = correlation;
    add(prof, &inner);
    add(prof, &outer);
    add(prof, &kernel);
  }
  add(prof, &(ProfEvent){.what = PROF_SET, .name = "Memset", .begin = prof->zero, .end = prof->zero, .bracket = -1, .stream = 13});
}

static const ProfBack fake = {fake_arm, fake_enter, fake_leave, fake_stop};

TEST(kernels_belong_to_the_items_that_started_them) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  prof->back = &fake;
  record(prof);
  EXPECT(nentered == 4 * ITEMS && prof->events.n == nentered + 1 && prof->calls.n == nentered);
  for (int i = 0; i < nentered; i++) {
    EXPECT(entered[i] == (uint64_t)i);
    const ProfEvent *e = &prof->events.at[i + 1], *call = prof_call(prof, e->correlation); /* behind the memset */
    EXPECT(e->bracket == i && call && !strcmp(call->name, "cudaLaunchKernel"));
    EXPECT(e->begin >= call->begin);
  }
  EXPECT(!prof_call(prof, 7));
  EXPECT(prof_table(prof, prof->arena)->strays == 0);
  close_prof(prof, dev);
}

/* --- trace -----------------------------------------------------------------------------------------------------------------------
 */

static json_t *trace_of(const Prof *prof) {
  Text text = {0};
  json_error_t error;
  prof_trace_print(prof, &text);
  EXPECT(strstr(text.at, "\"rank\": 0"));
  json_t *trace = json_loads(text.at, JSON_REJECT_DUPLICATES, &error);
  if (!trace) check_failed(__FILE__, __LINE__, "line %d: %s", error.line, error.text);
  text_close(&text);
  return trace;
}

/* Microseconds of all events of a category, and how many that are. */
static double trace_sum(json_t *trace, const char *category, bool of_items, int *n) {
  double sum = 0;
  size_t i;
  json_t *e;
  *n = 0;
  json_array_foreach(json_object_get(trace, "traceEvents"), i, e) {
    const char *cat = json_string_value(json_object_get(e, "cat"));
    if (!cat || strcmp(cat, category) || (of_items && !json_object_get(json_object_get(e, "args"), "step"))) continue;
    sum += json_number_value(json_object_get(e, "dur"));
    ++*n;
  }
  return sum;
}

TEST(the_tables_time_is_the_traces) {
  for (int device = 0; device < 2; device++) {
    Dev *dev;
    Prof *prof = open_prof(&dev);
    int n;
    if (device) prof->back = &fake;
    record(prof);
    json_t *trace = trace_of(prof);
    ProfTable *t = prof_table(prof, prof->arena);
    EXPECT_NEAR(1e-6 * trace_sum(trace, device ? "kernel" : "cpu_op", true, &n), busy_all(t), 1e-3);
    EXPECT(n == 4 * ITEMS);
    trace_sum(trace, "user_annotation", false, &n);
    EXPECT(n == 2 + 2); /* steps, data */
    trace_sum(trace, "cuda_runtime", false, &n);
    EXPECT(n == (device ? 4 * ITEMS : 0));
    trace_sum(trace, "ac2g", false, &n);
    EXPECT(n == (device ? 8 * ITEMS : 0));
    json_decref(trace);
    close_prof(prof, dev);
  }
}

/* --- table -----------------------------------------------------------------------------------------------------------------------
 */

static void write_bytes(const char *path, const char *bytes, size_t n) {
  FILE *f = fopen(path, "w");
  EXPECT(f && fwrite(bytes, 1, n, f) == n);
  EXPECT(fclose(f) == 0);
}

static const char *write_table(const ProfTable *t, const char *name, Text *text) {
  static char path[512];
  prof_table_write(t, text);
  snprintf(path, sizeof path, "%s/%s", check_folder(), name);
  write_bytes(path, text->at, text->n);
  return path;
}

static void tell_peak(Prof *prof) {
  ProfPeak peak = {.nbytes = 3e9, .place = "backward of layers.1, matmul, in micro"};
  vec_push(prof->arena, &peak.holders, (ProfHolder){2e9, "moments", "m/layers.0"});
  vec_push(prof->arena, &peak.holders, (ProfHolder){1e9, "activations", "matmul"});
  prof_peak(prof, &peak);
}

TEST(a_table_reads_back) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  tell_peak(prof);
  record(prof);
  ProfTable *t = prof_table(prof, prof->arena), *back;
  Text text = {0}, again = {0};
  Why why;
  t->rows.at[0].name = "a\tname\nwith breaks"; /* becomes one field */
  const char *path = write_table(t, "t.tsv", &text);
  if (!prof_table_try_read(prof->arena, path, &back, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  prof_table_write(back, &again);
  EXPECT_TEXT(again.at, text.at);
  EXPECT(back->rows.n == t->rows.n && back->first == 10 && back->ranks == 1);
  EXPECT(back->peak.nbytes == 3e9 && back->peak.holders.n == 2 && back->peak.holders.at[1].nbytes == 1e9);
  text.n = 0;
  prof_table_print(&back, 1, 0, 100, &text);
  EXPECT(strstr(text.at, "rank 0, memory: 2.794 GiB planned, most of it in use in backward of layers.1, matmul, in micro\n"));
  EXPECT(strstr(text.at, "    1.863  moments      m/layers.0\n"));
  text_close(&text);
  text_close(&again);
  close_prof(prof, dev);
}

TEST(what_is_no_table_is_refused) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  tell_peak(prof);
  record(prof);
  Text text = {0};
  Why why;
  ProfTable *back;
  const char *path = write_table(prof_table(prof, prof->arena), "t.tsv", &text);
  for (size_t n = 0; n < text.n; n++) { /* cut short */
    write_bytes(path, text.at, n);
    EXPECT(!prof_table_try_read(prof->arena, path, &back, &why));
  }
  Rng rng = rng_make(1, RNG_TEST, "flips", 0);
  for (uint64_t i = 0; i < 2000; i++) { /* no crash, whatever it holds */
    uint32_t words[4];
    rng_words(&rng, i, words);
    char *copy = arena_strndup(prof->arena, text.at, text.n);
    copy[words[0] % text.n] = (char)words[1];
    write_bytes(path, copy, text.n);
    prof_table_try_read(prof->arena, path, &back, &why);
  }
  EXPECT(!prof_table_try_read(prof->arena, "/no/such/file", &back, &why) && strstr(why.text, "/no/such/file"));
  text_close(&text);
  close_prof(prof, dev);
}

TEST(printed_shares_add_up) {
  Dev *dev;
  Prof *prof = open_prof(&dev);
  record(prof);
  ProfTable *t = prof_table(prof, prof->arena);
  for (int nrows = 1; nrows <= 100; nrows += 99) { /* most rows in one, and each for itself */
    Text text = {0};
    double sum = 0, ms = 0, percent;
    prof_table_print(&t, 1, 0, nrows, &text);
    const char *at = strstr(text.at, "by item\n");
    EXPECT(at && (at = strchr(at + 8, '\n')));
    for (int n; sscanf(at, "%lf %lf %n", &ms, &percent, &n) == 2; at = strchr(at + n, '\n')) sum += ms;
    EXPECT_NEAR(sum, 1e3 * t->seconds / 2, 1e-2);
    text_close(&text);
  }
  close_prof(prof, dev);
}

TEST(floors_are_the_slower_of_arithmetic_and_memory) {
  ProfRates h200 = prof_rates("NVIDIA H200, 140 GiB, sm_90a"), cpu = prof_rates("AMD EPYC, 2 cores, avx512");
  EXPECT_NEAR(h200.narrow, 672.5e12, 1e-3);
  EXPECT_NEAR(h200.bytes, 4.27e12, 1e-3);
  EXPECT(cpu.narrow == 0 && cpu.wide == 0 && cpu.bytes == 0);
}
