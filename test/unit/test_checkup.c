/* SPDX-License-Identifier: Apache-2.0 */
/* Who of an allocation is sick, from what ranks have measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/comm/comm.h"
#include "src/train/checkup.h"
#include "test/check.h"

enum { N = 8, ROUNDS = 3 };

/* Two nodes of four, all alike. */
static void well(Checkup all[N]) {
  memset(all, 0, N * sizeof *all);
  for (int r = 0; r < N; r++) {
    strcpy(all[r].node, r < N / 2 ? "n1" : "n2");
    all[r].sensors = (DevSensors){.gpu = r % 4, .mhz = 1980, .mhz_most = 1980};
    for (int i = 0; i < CHECK_RATES; i++) all[r].rates[i] = 1e9;
    for (int k = 0; k < ROUNDS; k++) all[r].links[k] = k < 2 ? 4e11 : 5e10; /* within a node, and between them */
  }
}

static void expect_findings(const Checkup all[N], int findings, const char *lines, const char *nodes) {
  Text out = {0}, where = {0};
  int n = checkup_judge(all, N, ROUNDS, 0.9, &out, &where);
  EXPECT_TEXT(out.n ? out.at : "", lines);
  EXPECT_TEXT(where.n ? where.at : "", nodes);
  EXPECT(n == findings);
  text_close(&out);
  text_close(&where);
}

static void link_is(Checkup all[N], int a, int round, double rate) {
  int b = comm_partner(N, a, round);
  all[a].links[round] = all[b].links[round] = rate;
}

TEST(where_all_are_alike_nobody_is_sick) {
  Checkup all[N];
  well(all);
  expect_findings(all, 0, "", "");
  all[3].rates[CHECK_PRODUCTS] *= 0.91; /* within the bound */
  all[3].rates[CHECK_WRITE] *= 0.5;     /* files vary */
  expect_findings(all, 0, "", "");
}

TEST(a_slow_rank_has_a_line_with_all_that_is_slow_and_its_clock) {
  Checkup all[N];
  well(all);
  all[5].rates[CHECK_PRODUCTS] = 7e8;
  all[5].rates[CHECK_WRITE] = 1e8;
  all[5].sensors.mhz = 1410;
  strcpy(all[5].sensors.slowed, "heat");
  expect_findings(
      all, 1,
      "rank 5 (n2 GPU 1): products 700M FLOP/s, 70 % of the median; files, writing 100 MB/s, 10 % of the median; clock 1410 of "
      "1980 MHz, held down by heat\n",
      "n2");
}

TEST(what_was_not_measured_is_no_finding) {
  Checkup all[N];
  well(all);
  for (int r = 0; r < N; r++) all[r].rates[CHECK_TO_GPU] = 0;
  all[1].rates[CHECK_PRODUCTS] = 0;
  expect_findings(all, 0, "", "");
}

TEST(memory_errors_are_found_however_fast_a_rank_is) {
  Checkup all[N];
  well(all);
  all[0].sensors.uncorrected = 2;
  all[0].sensors.corrected = 9;
  all[7].sensors.worn = true;
  all[6].sensors.corrected = 9; /* costs nothing */
  expect_findings(all, 2,
                  "rank 0 (n1 GPU 0): 2 errors of its memory that could not be corrected; clock 1980 of 1980 MHz\n"
                  "rank 7 (n2 GPU 3): rows of its memory wait to be replaced, or could not be; clock 1980 of 1980 MHz\n",
                  "n1,n2");
}

TEST(a_rank_that_is_slow_with_all_partners_is_named_and_they_are_not) {
  Checkup all[N];
  well(all);
  for (int k = 0; k < ROUNDS; k++) link_is(all, 6, k, 2e10);
  expect_findings(
      all, 1,
      "rank 6 (n2 GPU 2): pairs on a node 20.0 GB/s, 5 % of the median; pairs of nodes 20.0 GB/s, 40 % of the median; clock "
      "1980 of 1980 MHz\n",
      "n2");
}

TEST(a_pair_that_is_slow_alone_is_named_as_a_pair) {
  Checkup all[N];
  well(all);
  link_is(all, 2, 2, 1e10);
  expect_findings(all, 1, "rank 2 (n1 GPU 2) and rank 6 (n2 GPU 2): pairs of nodes 10.0 GB/s, 20 % of the median\n", "n1,n2");
}

/* Between nodes is slower than within, and that is as it should be. */
TEST(links_are_compared_with_their_like) {
  Checkup all[N];
  well(all);
  for (int r = 0; r < N; r++) all[r].links[2] = 1e9;
  expect_findings(all, 0, "", "");
}

TEST(the_table_tells_the_median_and_the_least) {
  Checkup all[N];
  Text out = {0};
  well(all);
  all[3].rates[CHECK_PRODUCTS] = 5e8;
  all[4].sensors.mhz = 1500;
  checkup_print(all, N, ROUNDS, &out);
  EXPECT(strstr(out.at, "rate   products           1.00G FLOP/s median,    500M FLOP/s least: rank 3 (n1 GPU 3)\n"));
  EXPECT(strstr(out.at, "rate   pairs on a node        400 GB/s median,       400 GB/s least: rank 0 (n1 GPU 0)\n"));
  EXPECT(strstr(out.at, "; 8.00 GB/s together\n"));
  EXPECT(strstr(out.at, "clock  1500 to 1980 MHz at work\n"));
  text_close(&out);
}

TEST(partners_find_one_another_and_all_ranks_in_as_many_rounds_as_a_number_has_bits) {
  for (int n = 1; n <= 64; n++)
    for (int r = 0; r < n; r++)
      for (int round = 0; round < 6; round++) {
        int partner = comm_partner(n, r, round);
        EXPECT(partner < n && partner != r && (partner < 0 || comm_partner(n, partner, round) == r));
      }
}
