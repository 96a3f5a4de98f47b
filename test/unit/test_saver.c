/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread saves beside the training is what the states were, whatever is done to them meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/train/saver.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { SEQUENCES = 2, POSITIONS = 12, TOKENS = SEQUENCES * POSITIONS, VOCAB = 61 };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

static EngineOptions options(void) {
  EngineOptions o = small_options(&(SmallModel){1, VOCAB, 4, 6}, SEQUENCES, POSITIONS, 1, 1);
  o.choices.threads = 1;
  o.choices.offload.moments = HOME_HOST;
  return o;
}

static void passes(SmallRun *t, int step) {
  int32_t ids[TOKENS], labels[TOKENS];
  Rng rng = rng_make((uint64_t)step, RNG_TEST, "tokens", 0);
  for (int i = 0; i < TOKENS; i++) {
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
    labels[i] = (ids[i] * 5 + 3) % VOCAB;
  }
  engine_batch(t->engine, ids, labels);
  engine_micro(t->engine, 0);
}

static void step(SmallRun *t, int step) {
  passes(t, step);
  engine_update(t->engine, step, 1e-2);
}

/* Checksums of two steps' datasets. */
static bool same_steps(const char *a, int m, const char *b, int n) {
  Why why;
  char one[4300], other[4300];
  snprintf(one, sizeof one, "%s/step-%08d", a, m);
  snprintf(other, sizeof other, "%s/step-%08d", b, n);
  Ckpt *x = try_ckpt_open(one, &why), *y = x ? try_ckpt_open(other, &why) : NULL;
  if (!y) check_failed(__FILE__, __LINE__, "%s", why.text);
  bool same = ckpt_n(x) == ckpt_n(y) && ckpt_n(x) > 10;
  for (int i = 0; same && i < ckpt_n(x); i++)
    same = !strcmp(ckpt_at(x, i)->path, ckpt_at(y, i)->path) && ckpt_at(x, i)->crc32c == ckpt_at(y, i)->crc32c;
  ckpt_close(x);
  ckpt_close(y);
  return same;
}

/* A step, saved by the training itself; then two more, during the first of which a thread saves the same step. */
static void expect_same_saves(const EngineOptions *o, const char *kind) {
  Why why;
  char waits[4200], beside[4200];
  snprintf(waits, sizeof waits, "%s/%s-waits", check_folder(), kind);
  snprintf(beside, sizeof beside, "%s/%s-beside", check_folder(), kind);
  SmallRun t = small_run_open(kind, o);
  Saver *saver = saver_open(t.arena, t.comm, t.dev, states_copy_open(t.arena, t.engine, true), (SaverKeep){9, 0});
  EXPECT(try_saver_ready(saver, t.comm, &why));
  for (int s = 1; s <= 5; s += 2) {
    StatesSave save = {.folder = waits, .step = s};
    SaverResult result;
    step(&t, s);
    saver_start(saver);
    EXPECT(try_states_save(t.comm, t.engine, &save, &why));
    save.folder = beside;
    passes(&t, s + 1);
    saver_write(saver, s == 3 ? NULL : &save);
    saver_release(saver);
    engine_update(t.engine, s + 1, 1e-2);
    saver_end(saver, &result);
    EXPECT(result.ok == (s != 3) && saver_over(saver) == saver_asked(saver) && saver_asked(saver) == s / 2 + 1);
  }
  saver_close(saver);
  small_run_close(&t);
  EXPECT(same_steps(waits, 1, beside, 1) && same_steps(waits, 5, beside, 5) && !same_steps(waits, 1, waits, 5));
  char dropped[4300];
  snprintf(dropped, sizeof dropped, "%s/step-00000003", beside);
  EXPECT(access(dropped, F_OK));
}

TEST(what_is_saved_beside_is_what_the_states_were) {
  EngineOptions o = options();
  expect_same_saves(&o, "cpu");
  expect_same_saves(&o, "apart");
}

TEST(halves_small_moments_and_what_is_offloaded_too) {
  EngineOptions o = options();
  o.choices.compute = DT_BF16;
  o.moments = DT_BF16;
  o.choices.offload.what = OFFLOAD_MASTERS | OFFLOAD_MOMENTS;
  expect_same_saves(&o, "apart");
}

/* No stack for the thread, or no room for the copy. */
TEST(a_copy_without_memory_is_no_error) {
  EngineOptions o = options();
  Why why = {""};
  struct rlimit all, little = {16 << 20, RLIM_INFINITY};
  if (!check_has_few_addresses()) return;
  SmallRun t = small_run_open("cpu", &o);
  StatesCopy *copy = states_copy_open(t.arena, t.engine, true);
  CHECK(!getrlimit(RLIMIT_AS, &all));
  little.rlim_max = all.rlim_max;
  CHECK(!setrlimit(RLIMIT_AS, &little));
  Saver *saver = saver_open(t.arena, t.comm, t.dev, copy, (SaverKeep){9, 0});
  bool ready = try_saver_ready(saver, t.comm, &why);
  CHECK(!setrlimit(RLIMIT_AS, &all));
  EXPECT(!ready && *why.text);
  saver_close(saver);
  small_run_close(&t);
}
