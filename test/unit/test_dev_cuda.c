/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda device without a GPU: what it builds and what it refuses to.  test/gpu/test_cuda.c has the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/cuda_kernels.h"

static const char good[] = "extern \"C\" __global__ void good(int *x) { x[threadIdx.x] = 1; }\n";
static const char more[] = "extern \"C\" __global__ void more(int *x) { x[threadIdx.x] = 2; }\n";
static const char wrong[] = "extern \"C\" __global__ void wrong(int *x) {\n  x[0] = nothing;\n}\n";

static Dev *device_open(const char *arch) {
  return dev_open(&(DevOptions){.kind = "cuda", .cache = check_folder(), .threads = 2, .arch = arch, .module = cuda_module_file()});
}

static bool built(void) {
  if (!cuda_module_file()) fprintf(stderr, "note  skipped: built without CUDA\n");
  return cuda_module_file() != NULL;
}

TEST(texts_are_built_once_and_found_again) {
  if (!built()) return;
  for (int i = 0; i < 3; i++) { /* the third for another GPU */
    Dev *dev = device_open(i < 2 ? "sm_90a" : "sm_80");
    void *image;
    size_t nbytes;
    bool hit;
    Why why = {""};
    bool ok = dev_try_build(dev, (const char *[]){good, more}, 2, &image, &nbytes, &hit, &why);
    EXPECT_TEXT(why.text, "");
    EXPECT(ok && hit == (i == 1) && dev_cache_note(dev) == NULL);
    EXPECT(!strstr(dev_build_log(dev), "registers") == hit);
    free(image);
    dev_close(dev);
  }
}

TEST(an_error_of_nvrtc_is_told_with_its_line) {
  if (!built()) return;
  Dev *dev = device_open("sm_80");
  void *image;
  size_t nbytes;
  Why why;
  EXPECT(!dev_try_build(dev, (const char *[]){good, wrong, more}, 3, &image, &nbytes, NULL, &why));
  EXPECT(strstr(why.text, "k1.cu(2): error: identifier \"nothing\" is undefined"));
  EXPECT(strstr(why.text, "\n   line:   x[0] = nothing;\n"));
  dev_close(dev);
}

TEST(a_gpu_that_nvrtc_does_not_know_is_named) {
  if (!built()) return;
  Dev *dev = device_open("sm_7");
  void *image;
  size_t nbytes;
  Why why;
  EXPECT(!dev_try_build(dev, (const char *[]){good}, 1, &image, &nbytes, NULL, &why));
  EXPECT(strstr(why.text, "NVRTC cannot build the kernels for sm_7") && strstr(why.text, "a newer CUDA toolkit"));
  dev_close(dev);
}

TEST(without_a_gpu_the_device_does_not_open) {
  if (!built() || cuda_has_gpu()) return;
  EXPECT_FAIL(FAIL_MACHINE, "error: CUDA: ", { device_open(NULL); });
  EXPECT_FAIL(FAIL_MACHINE, "help: there is no NVIDIA driver on this node", { device_open(NULL); });
}

TEST(without_a_gpu_none_is_seen_and_no_time_is_lost) {
  DevCard cards[4];
  Why why = {""};
  if (cuda_has_gpu()) return;
  double begin = check_cpu_seconds();
  EXPECT(dev_try_cards(cards, 4, true, &why) == -1);
  EXPECT(check_cpu_seconds() - begin < 0.01);
  EXPECT_TEXT(why.text, "no NVIDIA GPU here (there is no /dev/nvidiactl)");
}

/* --- who takes which GPU -------------------------------------------------------------------------------------------------- */

enum { RANKS_MOST = 16 };

/* A rank that sees GPUs from…from+n-1 of a node whose GPU g is near NUMA node numa[g]. */
static DevSeat seat(int from, int n, const int *numa, uint64_t mine) {
  DevSeat s = {.n = n, .numa = mine};
  for (int i = 0; i < n; i++) {
    s.cards[i].uuid[0] = (unsigned char)(from + i + 1);
    s.cards[i].numa = numa[from + i];
  }
  return s;
}

/* All ranks take a GPU, no two the same; to `taken` if it is not NULL. */
static void expect_dealt(const DevSeat *seats, int n, const int *taken) {
  bool used[256] = {false};
  for (int r = 0; r < n; r++) {
    int card = seats_deal(seats, n, r);
    EXPECT(card >= 0 && card < seats[r].n);
    int uuid = seats[r].cards[card].uuid[0];
    EXPECT(!used[uuid]);
    used[uuid] = true;
    EXPECT(!taken || uuid - 1 == taken[r]);
  }
}

static const int two_sockets[] = {0, 0, 0, 0, 1, 1, 1, 1}, unknown[] = {-1, -1, -1, -1, -1, -1, -1, -1};

TEST(rank_i_takes_gpu_i_where_nothing_tells_them_apart) {
  DevSeat seats[RANKS_MOST];
  static const int same[] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, two_sockets, 0);
  expect_dealt(seats, 8, same);
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, two_sockets, 3);
  expect_dealt(seats, 8, same);
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, unknown, (uint64_t)1 << r % 2);
  expect_dealt(seats, 8, same);
}

TEST(bound_ranks_take_gpus_of_their_numa_node) {
  DevSeat seats[RANKS_MOST];
  static const int in_turns[] = {0, 4, 2, 5, 1, 6, 3, 7}, few[] = {4, 1};
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, two_sockets, (uint64_t)1 << r % 2);
  expect_dealt(seats, 8, in_turns);
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, two_sockets, r < 4 ? 2 : 1);
  for (int r = 0; r < 8; r++) EXPECT(two_sockets[seats_deal(seats, 8, r)] == (r < 4));
  expect_dealt(seats, 8, NULL);
  seats[0] = seat(0, 8, two_sockets, 2);
  seats[1] = seat(0, 8, two_sockets, 1);
  expect_dealt(seats, 2, few);
}

TEST(ranks_of_one_socket_spread_to_the_other_gpus_when_theirs_are_taken) {
  DevSeat seats[RANKS_MOST];
  int near = 0;
  for (int r = 0; r < 8; r++) seats[r] = seat(0, 8, two_sockets, 1);
  expect_dealt(seats, 8, NULL);
  for (int r = 0; r < 8; r++) near += two_sockets[seats_deal(seats, 8, r)] == 0;
  EXPECT(near == 4);
}

/* Eight ranks see 256 GPUs that no other sees; a ninth as many as it can beyond these, and one of theirs, which it takes. */
TEST(gpus_beyond_what_a_node_can_have_are_nobodys) {
  DevSeat seats[9];
  for (int r = 0; r < 9; r++) {
    seats[r] = (DevSeat){.n = SEAT_CARDS};
    for (int i = 0; i < SEAT_CARDS; i++) seats[r].cards[i] = (DevCard){.uuid = {(unsigned char)r, (unsigned char)i}, .numa = -1};
  }
  seats[8].cards[SEAT_CARDS - 1] = seats[0].cards[0];
  EXPECT(seats_deal(seats, 9, 8) == SEAT_CARDS - 1);
  for (int r = 0; r < 8; r++) EXPECT(seats_deal(seats, 9, r) >= 0);
  EXPECT(seats_cards(seats, 9) == 8 * SEAT_CARDS);
}

TEST(an_unbound_rank_makes_room_for_a_bound_one) {
  static const int numa[] = {0, 1};
  DevSeat seats[2] = {seat(0, 2, numa, 0), seat(0, 2, numa, 1)}; /* rank 0 would take GPU 0, which rank 1 is near */
  static const int taken[] = {1, 0};
  expect_dealt(seats, 2, taken);
}

TEST(ranks_that_see_a_gpu_each_take_it) {
  DevSeat seats[RANKS_MOST];
  static const int turned[] = {3, 2, 1, 0};
  for (int r = 0; r < 4; r++) seats[r] = seat(3 - r, 1, two_sockets, 0);
  expect_dealt(seats, 4, turned);
  EXPECT(seats_cards(seats, 4) == 4);
}

TEST(more_ranks_than_gpus_are_too_many) {
  DevSeat seats[RANKS_MOST];
  for (int r = 0; r < 3; r++) seats[r] = seat(0, 2, two_sockets, 0);
  for (int r = 0; r < 3; r++) EXPECT(seats_deal(seats, 3, r) == -1);
  EXPECT(seats_cards(seats, 3) == 2 && seats_deal(seats, 2, 1) == 1);
  for (int r = 0; r < 3; r++) seats[r] = seat(0, 1, two_sockets, 0);
  EXPECT(seats_deal(seats, 3, 0) == -1 && seats_deal(seats, 1, 0) == 0);
}

/* Every set of bindings of up to 4 ranks to 2 sockets with 2 GPUs each. */
TEST(as_many_ranks_as_possible_sit_near_their_gpus) {
  static const int numa[] = {0, 0, 1, 1};
  for (int n = 1; n <= 4; n++)
    for (int bits = 0; bits < 1 << n; bits++) {
      DevSeat seats[4];
      int wants[2] = {0, 0}, near = 0;
      for (int r = 0; r < n; r++) {
        seats[r] = seat(0, 4, numa, (uint64_t)1 << (bits >> r & 1));
        wants[bits >> r & 1]++;
      }
      expect_dealt(seats, n, NULL);
      for (int r = 0; r < n; r++) near += numa[seats_deal(seats, n, r)] == (bits >> r & 1);
      EXPECT(near == (wants[0] < 2 ? wants[0] : 2) + (wants[1] < 2 ? wants[1] : 2));
    }
}

TEST(cores_near_a_gpu_are_some_of_this_thread_s) {
  EXPECT(seat_stay_near(-1, 5) == 5 && seat_stay_near(63, 5) == 5);
  uint64_t nodes = seat_numa();
  if (nodes & 1) EXPECT(seat_stay_near(0, 4) >= 1 && seat_stay_near(0, 4) <= 4);
}
