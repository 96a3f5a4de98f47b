/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame, from what ranks tell. */
#include <string.h>

#include "src/comm/watch.h"
#include "test/check.h"

enum { N = 4 };
static const double timeout = 10;
static const char nodes[N][NODE_NAME] = {"a", "a", "b", "b"};

/* All wait in collective 5 for so long. */
static void all_wait(Hearing ranks[N], double waited) {
  memset(ranks, 0, N * sizeof *ranks);
  for (int r = 0; r < N; r++) {
    ranks[r].beat = (Beat){.entered = 5, .waiting = 5, .waited = waited, .busy = waited, .step = 3};
    strcpy(ranks[r].beat.collective, "all_gather 'x'");
  }
}

static void is_busy(Hearing *rank, uint64_t entered, double busy, const char *doing) {
  rank->beat = (Beat){.entered = entered, .busy = busy, .step = 3};
  strcpy(rank->beat.doing, doing);
}

static void expect_verdict(const Hearing ranks[N], const char *expected) {
  Text text = {0};
  bool hang = watch_judge(ranks, N, nodes, timeout, &text);
  EXPECT(hang == (*expected != 0));
  if (hang) text.at[strcspn(text.at, "\0")] = 0;
  char *help = hang ? strstr(text.at, "\nhelp: ") : NULL;
  EXPECT(!hang || help);
  if (help) *help = 0;
  EXPECT_TEXT(hang ? text.at : "", expected);
  text_close(&text);
}

TEST(waits_within_the_timeout_are_no_hang) {
  Hearing ranks[N];
  all_wait(ranks, 9);
  is_busy(&ranks[2], 4, 9, "");
  expect_verdict(ranks, "");
}

TEST(who_has_not_come_is_named) {
  Hearing ranks[N];
  all_wait(ranks, 11);
  is_busy(&ranks[1], 4, 12, "reading x.bin");
  is_busy(&ranks[2], 4, 11, "");
  expect_verdict(ranks, "hang: 2 of 4 ranks in all_gather 'x', step 3, 11 s\n"
                        "   missing  rank 1 (a): reading x.bin for 12 s\n"
                        "            rank 2 (b): computing for 11 s");
}

/* Ranks of another group wait for a collective before; who waits is to blame for nothing. */
TEST(who_waits_is_not_missing) {
  Hearing ranks[N];
  all_wait(ranks, 11);
  ranks[2].beat.waiting = 4;
  strcpy(ranks[2].beat.collective, "reduce_scatter 'y'");
  is_busy(&ranks[3], 3, 11, "");
  expect_verdict(ranks, "hang: 3 of 4 ranks in reduce_scatter 'y', step 3, 11 s\n   missing  rank 3 (b): computing for 11 s");
}

TEST(who_has_come_and_gone_on_is_missing_where_nobody_else_is) {
  Hearing ranks[N];
  all_wait(ranks, 11);
  is_busy(&ranks[0], 6, 11, "");
  expect_verdict(ranks, "hang: 3 of 4 ranks in all_gather 'x', step 3, 11 s\n   missing  rank 0 (a): computing for 11 s");
}

TEST(who_may_take_long_is_excused_until_it_takes_too_long) {
  Hearing ranks[N];
  all_wait(ranks, 149);
  is_busy(&ranks[0], 4, 149, "writing checkpoint");
  ranks[0].beat.patient = true;
  expect_verdict(ranks, "");
  ranks[0].beat.busy = 151;
  expect_verdict(ranks, "hang: 3 of 4 ranks in all_gather 'x', step 3, 149 s\n"
                        "   missing  rank 0 (a): writing checkpoint for 151 s");
}

TEST(who_is_not_heard_of_is_missing_wherever_it_was) {
  Hearing ranks[N];
  all_wait(ranks, 11);
  ranks[3].silent = 12;
  ranks[3].beat.waited = 1;
  expect_verdict(ranks, "hang: 3 of 4 ranks in all_gather 'x', step 3, 11 s\n"
                        "   missing  rank 3 (b): not heard of for 12 s; it was in all_gather 'x'");
}

/* Threads beside the job save: one is stuck in it, the others' wait for it, and their ranks for them. */
TEST(who_waits_for_another_ranks_thread_is_not_to_blame) {
  Hearing ranks[N];
  all_wait(ranks, 0);
  for (int r = 0; r < N; r++) {
    is_busy(&ranks[r], 5, 160 - r, "waiting for the other ranks' threads");
    ranks[r].beat.patient = ranks[r].beat.idle = true;
  }
  is_busy(&ranks[2], 5, 149, "writing step-00000010.tmp/model.h5");
  ranks[2].beat.patient = true;
  expect_verdict(ranks, "");
  ranks[2].beat.busy = 151;
  expect_verdict(ranks, "hang: not all of 4 ranks go on, step 3\n"
                        "   missing  rank 2 (b): writing step-00000010.tmp/model.h5 for 151 s");
}

TEST(where_all_wait_for_one_anothers_threads_all_are_named) {
  Hearing ranks[N];
  all_wait(ranks, 0);
  for (int r = 0; r < N; r++) {
    is_busy(&ranks[r], 5, 149, "waiting for the other ranks' threads");
    ranks[r].beat.patient = ranks[r].beat.idle = true;
  }
  expect_verdict(ranks, "");
  ranks[0].beat.busy = ranks[3].beat.busy = 151;
  expect_verdict(ranks, "hang: not all of 4 ranks go on, step 3\n"
                        "   missing  rank 0 (a): waiting for the other ranks' threads for 151 s\n"
                        "            rank 3 (b): waiting for the other ranks' threads for 151 s");
}

/* It wrote a checkpoint until now; the others have not told yet that they go on. */
TEST(who_has_just_done_something_is_not_to_blame) {
  Hearing ranks[N];
  all_wait(ranks, 149);
  is_busy(&ranks[0], 6, 1, "");
  expect_verdict(ranks, "");
  ranks[0].beat = (Beat){.entered = 7, .waiting = 7, .waited = 1, .busy = 1};
  expect_verdict(ranks, "");
}

/* While all write a checkpoint, say. */
TEST(who_is_not_heard_of_is_a_hang_where_nobody_waits) {
  Hearing ranks[N];
  all_wait(ranks, 0);
  for (int r = 0; r < N; r++) is_busy(&ranks[r], 5, 2, "writing checkpoint");
  ranks[1].silent = 12;
  expect_verdict(ranks, "");
  ranks[1].silent = 13;
  expect_verdict(ranks, "hang: not all of 4 ranks go on, step 3\n"
                        "   missing  rank 1 (a): not heard of for 13 s; it was writing checkpoint");
}

/* GPUs tell which collective they are in, not how many they have come to. */
TEST(whose_gpu_is_in_no_collective_is_missing) {
  Hearing ranks[N];
  all_wait(ranks, 11);
  for (int r = 0; r < N; r++) ranks[r].beat.waiting = WAITS_ON_DEVICE;
  is_busy(&ranks[1], 5, 11, "");
  expect_verdict(ranks, "hang: 3 of 4 ranks in all_gather 'x', step 3, 11 s\n   missing  rank 1 (a): computing for 11 s");
}

TEST(where_nobody_is_missing_the_network_has_twice_as_long) {
  Hearing ranks[N];
  all_wait(ranks, 19);
  expect_verdict(ranks, "");
  all_wait(ranks, 21);
  expect_verdict(ranks, "hang: 4 of 4 ranks in all_gather 'x', step 3, 21 s\n   all ranks wait");
}
