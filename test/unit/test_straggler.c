/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is slow, from what ranks tell; and what the host's sensors tell. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/dev/dev.h"
#include "src/train/straggler.h"
#include "test/check.h"

enum { N = 4 };

/* All have steps of 10 s, and wait for so long of them. */
static void told(Pace paces[N], double a, double b, double c, double d) {
  const double waited[N] = {a, b, c, d};
  for (int r = 0; r < N; r++) paces[r] = (Pace){.seconds = 10, .waited = waited[r]};
}

TEST(who_computes_longer_is_slow_once_it_lasts_and_is_told_once) {
  Pace paces[N];
  Episode episodes[N] = {{0}};
  Straggler found[N];
  told(paces, 5, 5, 4, 5); /* computes 6 s where others compute 5 */
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 1);
  EXPECT(found[0].rank == 2 && !found[0].over && found[0].slower > 0.19 && found[0].slower < 0.21);
  for (int i = 0; i < 5; i++) EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
}

TEST(an_episode_ends_once_the_rank_is_even_for_as_long_and_another_is_told_again) {
  Pace paces[N];
  Episode episodes[N] = {{0}};
  Straggler found[N];
  told(paces, 4, 5, 5, 5);
  for (int i = 0; i < LASTING; i++) stragglers_find(paces, N, false, 10, episodes, found);
  told(paces, 5, 5, 5, 5);
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 1);
  EXPECT(found[0].rank == 0 && found[0].over);
  told(paces, 4, 5, 5, 5);
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
  EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 1);
}

TEST(what_does_not_last_is_not_told) {
  Pace paces[N];
  Episode episodes[N] = {{0}};
  Straggler found[N];
  for (int i = 0; i < 10; i++) {
    told(paces, i % 2 ? 2 : 5, i % 2 ? 5 : 2, 5, 5);
    EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
  }
}

TEST(even_ranks_are_not_slow_nor_is_one_within_the_bound) {
  Pace paces[N];
  Episode episodes[N] = {{0}};
  Straggler found[N];
  told(paces, 5, 4.6, 5, 5);
  for (int i = 0; i < 10; i++) EXPECT(stragglers_find(paces, N, false, 10, episodes, found) == 0);
}

/* All are in collectives for 8 of 10 s, since a GPU computes beside them; the slow one for 7. */
TEST(where_computing_hides_waits_only_what_others_wait_longer_counts) {
  Pace paces[N];
  Episode episodes[N] = {{0}};
  Straggler found[N];
  told(paces, 8, 8, 8, 7);
  stragglers_find(paces, N, true, 10, episodes, found);
  EXPECT(stragglers_find(paces, N, true, 10, episodes, found) == 1);
  EXPECT(found[0].rank == 3 && fabs(found[0].slower - 1.0 / 9) < 1e-12);
}

TEST(of_two_ranks_the_slower_is_named) {
  Pace paces[2] = {{.seconds = 10, .waited = 1}, {.seconds = 10, .waited = 6}};
  Episode episodes[2] = {{0}};
  Straggler found[2];
  stragglers_find(paces, 2, false, 10, episodes, found);
  EXPECT(stragglers_find(paces, 2, false, 10, episodes, found) == 1);
  EXPECT(found[0].rank == 0 && fabs(found[0].slower - 1.25) < 1e-12);
}

/* In the test's folder. */
static const char *own(char path[512], const char *name) {
  CHECK(snprintf(path, 512, "%s/%s", check_folder(), name) < 512);
  return path;
}

static void put_file(const char *name, const char *text) {
  char path[512];
  Why why;
  EXPECT(try_file_write(own(path, name), text, strlen(text), &why));
}

/* Every CPU that this process may use is 0 to 63 here. */
TEST(the_clock_is_told_by_cpufreq_or_by_cpuinfo) {
  DevSensors s = {0};
  Text info = {0};
  Why why;
  char cpuinfo[512], sys[512], absent[512];
  own(cpuinfo, "cpuinfo"), own(sys, "sys"), own(absent, "absent");
  for (int cpu = 0; cpu < 64; cpu++) text_printf(&info, "processor\t: %d\nmodel name\t: X\ncpu MHz\t\t: 2100.5\n\n", cpu);
  put_file("cpuinfo", info.at);
  sensors_clock_of(absent, cpuinfo, &s);
  EXPECT(fabs(s.mhz - 2100.5) < 1e-6 && s.mhz_most == 0);
  for (int cpu = 0; cpu < 64; cpu++) {
    char path[96], folder[512];
    snprintf(path, sizeof path, "sys/cpu%d/cpufreq", cpu);
    EXPECT(try_folder_make(own(folder, path), &why));
    snprintf(path, sizeof path, "sys/cpu%d/cpufreq/scaling_cur_freq", cpu);
    put_file(path, "1400000\n");
    snprintf(path, sizeof path, "sys/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
    put_file(path, "3000000\n");
  }
  sensors_clock_of(sys, cpuinfo, &s);
  EXPECT(fabs(s.mhz - 1400) < 1e-6 && fabs(s.mhz_most - 3000) < 1e-6);
  s = (DevSensors){0};
  sensors_clock_of(absent, absent, &s);
  EXPECT(s.mhz == 0 && s.mhz_most == 0);
  text_close(&info);
}
