/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual in a run, how far a spike is above it, and what of that is saved. */
#include <math.h>
#include <string.h>

#include "src/train/history.h"
#include "test/check.h"

/* The i-th of values that go up and down by one around 10; norms are ten times as large. */
static double wave(int i) { return 10 + (i % 3) - 1; }

static History *seen(Arena *arena, int n) {
  History *h = history_open(arena);
  for (int i = 0; i < n; i++) history_add(h, wave(i), 10 * wave(i));
  return h;
}

TEST(nothing_is_usual_before_enough_was_seen) {
  Arena *arena = arena_open();
  EXPECT(isinf(history_usual(seen(arena, HISTORY_LEAST - 1), MEASURE_LOSS).deviation));
  EXPECT(isfinite(history_usual(seen(arena, HISTORY_LEAST), MEASURE_LOSS).deviation));
  arena_close(arena);
}

TEST(a_median_and_the_distance_from_it) {
  Arena *arena = arena_open();
  History *h = seen(arena, HISTORY_WINDOW);
  EXPECT(history_usual(h, MEASURE_LOSS).middle == 10 && history_usual(h, MEASURE_NORM).middle == 100);
  EXPECT_NEAR(history_usual(h, MEASURE_LOSS).deviation, 1.4826, 1e-12);
  EXPECT_NEAR(history_usual(h, MEASURE_NORM).deviation, 14.826, 1e-12);
  arena_close(arena);
}

TEST(a_spike_within_the_window_moves_nothing) {
  Arena *arena = arena_open();
  History *h = seen(arena, HISTORY_WINDOW);
  Usual before = history_usual(h, MEASURE_LOSS);
  history_add(h, 1e6, 1e6);
  Usual after = history_usual(h, MEASURE_LOSS);
  EXPECT(after.middle == before.middle && after.deviation == before.deviation);
  arena_close(arena);
}

TEST(a_level_that_stays_is_usual_half_a_window_later) {
  Arena *arena = arena_open();
  History *h = seen(arena, HISTORY_WINDOW);
  for (int i = 0; i <= HISTORY_WINDOW / 2; i++) history_add(h, 1000 + wave(i), 1);
  EXPECT(history_usual(h, MEASURE_LOSS).middle > 900);
  arena_close(arena);
}

TEST(what_is_not_finite_is_no_part_of_it) {
  Arena *arena = arena_open();
  History *h = seen(arena, HISTORY_LEAST - 1);
  history_add(h, NAN, 1);
  history_add(h, 1, INFINITY);
  EXPECT(h->n == HISTORY_LEAST - 1);
  arena_close(arena);
}

/* A part in a thousand is no deviation. */
TEST(a_loss_that_hardly_moves_has_no_spikes) {
  Arena *arena = arena_open();
  History *h = history_open(arena);
  for (int i = 0; i < HISTORY_WINDOW; i++) history_add(h, 2, 1);
  EXPECT_NEAR(history_usual(h, MEASURE_LOSS).deviation, 0.002, 1e-12);
  arena_close(arena);
}

TEST(as_text_and_back_it_is_the_same) {
  Arena *arena = arena_open();
  History *a = seen(arena, HISTORY_WINDOW + 7), *b = seen(arena, 3);
  Text text = {0};
  Why why;
  history_add(a, 1.0 / 3, 2.0 / 3);
  EXPECT(history_jump(a, 40, 17) && history_jump(a, 90, 5) && history_ahead(a) == 22);
  history_print(a, &text);
  EXPECT(try_history_parse(b, text.at, &why));
  EXPECT(a->n == b->n && a->jumps == b->jumps && !memcmp(a->seen, b->seen, sizeof a->seen));
  EXPECT(!memcmp(a->jump, b->jump, sizeof *a->jump * 2));
  EXPECT(try_history_parse(b, "", &why) && b->n == 0 && b->jumps == 0);
  text_close(&text);
  arena_close(arena);
}

TEST(what_is_no_such_text_is_refused) {
  static const char *const texts[] = {
      "seen 1",     "seen 1 2 3",         "seen one 2",           "heard 1 2", "jump -1 2", "jump 1 -2",
      "jump 1 2.5", "jump 1 99999999999", "seen 1 2\n\nseen 1 2", " "};
  Arena *arena = arena_open();
  History *h = history_open(arena);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Why why;
    EXPECT(!try_history_parse(h, texts[i], &why));
  }
  Text many = {0};
  Why why;
  for (int i = 0; i <= HISTORY_JUMPS; i++) text_printf(&many, "jump %d 1\n", i);
  EXPECT(!try_history_parse(h, many.at, &why));
  text_close(&many);
  arena_close(arena);
}
