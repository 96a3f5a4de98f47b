/* SPDX-License-Identifier: Apache-2.0 */
#include "io/h5.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checksums are of the bytes in memory");

/* The first failure's words since h5_start or h5_why; whatever fails while cleaning up after it is of no interest. */
static _Thread_local char words[512];

/* The two innermost descriptions; of a file driver's long list only the system's words. */
static herr_t add_words(unsigned depth, const H5E_error2_t *error, void *unused) {
  static const char mark[] = "error message = '";
  const char *text = error->desc ? error->desc : "", *from = strstr(text, mark);
  size_t n = strlen(words), length = strlen(text);
  (void)unused;
  if (depth > 1 || !length) return 0;
  if (from) {
    text = from + strlen(mark);
    length = strcspn(text, "'");
  }
  snprintf(words + n, sizeof words - n, "%s%.*s", n ? "; " : "", length < 200 ? (int)length : 200, text);
  return 0;
}

static herr_t keep_words(hid_t stack, void *unused) {
  if (!*words) H5Ewalk2(stack, H5E_WALK_UPWARD, add_words, unused);
  return 0;
}

static void start(void) {
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  struct sigaction now;
  if (!sigaction(SIGXFSZ, NULL, &now) && now.sa_handler == SIG_DFL) signal(SIGXFSZ, SIG_IGN);
  CHECK(H5open() >= 0);
}

void h5_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  CHECK(H5Eset_auto2(H5E_DEFAULT, keep_words, NULL) >= 0); /* of this thread, where HDF5 knows threads */
  *words = 0;
}

bool h5_why(Why *why, const char *what) {
  why_not(why, "%s: %s", what, *words ? words : "HDF5 gives no reason");
  *words = 0;
  return false;
}

hid_t h5_file_access(size_t alignment) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  CHECK(access >= 0 && H5Pset_alignment(access, alignment, alignment) >= 0 && H5Pset_sieve_buf_size(access, 0) >= 0);
  return access;
}

static herr_t refuse_link(const char *parent_file, const char *parent_group, const char *child_file, const char *child_group,
                          unsigned *flags, hid_t access, void *argument) {
  (void)parent_file, (void)parent_group, (void)child_file, (void)child_group, (void)flags, (void)access, (void)argument;
  return -1;
}

hid_t h5_within_file(void) {
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  CHECK(access >= 0 && H5Pset_elink_cb(access, refuse_link, NULL) >= 0);
  return access;
}

/* HDF5 has no names for floats of 16 bits; exponent's place, bits and bias. */
static hid_t narrow_type(size_t place, size_t bits, size_t bias) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  CHECK(type >= 0 && H5Tset_fields(type, 15, place, bits, 0, place) >= 0 && H5Tset_precision(type, 16) >= 0);
  CHECK(H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, bias) >= 0);
  return type;
}

hid_t h5_type(DType dtype) {
  static hid_t bf16, f16;
  if (!bf16) bf16 = narrow_type(7, 8, 127);
  if (!f16) f16 = narrow_type(10, 5, 15);
  const hid_t types[DT_COUNT] = {[DT_F32] = H5T_IEEE_F32LE,
                                 [DT_I32] = H5T_STD_I32LE,
                                 [DT_I64] = H5T_STD_I64LE,
                                 [DT_PRED] = H5T_STD_U8LE,
                                 [DT_I16] = H5T_STD_I16LE,
                                 [DT_BF16] = bf16,
                                 [DT_F16] = f16};
  CHECK(dtype < DT_COUNT);
  return types[dtype];
}

int64_t h5_select(hid_t space, int rank, const int64_t *shape, int64_t first, int64_t n) {
  hsize_t from[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK];
  int64_t stride = 1, rest = first;
  if (rank == 0) return H5Sselect_all(space) < 0 ? 0 : 1;
  for (int d = 0; d < rank; d++) stride *= shape[d];
  for (int d = 0; d < rank; d++) {
    stride /= shape[d]; /* elements of one step along d */
    from[d] = (hsize_t)(rest / stride);
    rest %= stride;
    count[d] = 1;
    if (rest || n < stride) continue;
    /* whole steps along d: as many as are left, wanted or not, before a slower index changes */
    int64_t steps = n / stride, room = shape[d] - (int64_t)from[d];
    count[d] = (hsize_t)(steps < room ? steps : room);
    int64_t taken = (int64_t)count[d] * stride;
    for (int k = d + 1; k < rank; k++) count[k] = (hsize_t)shape[k];
    return H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, count, NULL) < 0 ? 0 : taken;
  }
  return 0;
}
