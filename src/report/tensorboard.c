/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord framing (length, its checksum, bytes, their checksum; little endian) around protocol buffers written by hand:
 *   Event   { 1: double wall_time; 2: int64 step; 3: string file_version; 5: Summary; 7: SessionLog { 1: START = 1 } }
 *   Summary { 1: repeated Value { 1: string tag; 2: float simple_value } } */
#include "src/report/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/report/append.h"

struct TensorBoard {
  Append *file;
};

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add_little(Text *out, uint64_t bits, int nbytes) {
  for (int i = 0; i < nbytes; i++) text_add(out, &(char){(char)(bits >> 8 * i)}, 1);
}

static void add_varint(Text *out, uint64_t value) {
  for (; value >= 128; value >>= 7) add_little(out, value | 128, 1);
  add_little(out, value, 1);
}

static void add_field(Text *out, int number, int wire) { add_varint(out, (uint64_t)(number << 3 | wire)); }

static void add_varint_field(Text *out, int number, uint64_t value) {
  add_field(out, number, VARINT);
  add_varint(out, value);
}

static void add_bytes(Text *out, int number, const void *bytes, size_t n) {
  add_field(out, number, BYTES);
  add_varint(out, n);
  text_add(out, bytes, n);
}

static uint32_t masked_crc(const void *bytes, size_t n) {
  uint32_t crc = crc32c(0, bytes, n);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void add_record(TensorBoard *board, const Text *event) {
  Text record = {0};
  add_little(&record, event->n, 8);
  add_little(&record, masked_crc(record.at, 8), 4);
  text_add(&record, event->at, event->n);
  add_little(&record, masked_crc(event->at, event->n), 4);
  append_add(board->file, record.at, record.n);
  text_close(&record);
}

static void add_event(TensorBoard *board, int64_t step, int number, const void *bytes, size_t n) {
  Text event = {0};
  double now = clock_wall();
  uint64_t bits;
  memcpy(&bits, &now, sizeof bits);
  add_field(&event, 1, FIXED64);
  add_little(&event, bits, 8);
  if (step) add_varint_field(&event, 2, (uint64_t)step);
  add_bytes(&event, number, bytes, n);
  add_record(board, &event);
  text_close(&event);
}

/* TensorBoard reads a folder's files in the order of their names and needs "tfevents" in them. */
static void name_file(const char *folder, char path[PATH_MAX]) {
  char host[64] = "localhost";
  if (gethostname(host, sizeof host)) strcpy(host, "localhost");
  host[sizeof host - 1] = 0;
  for (long long second = (long long)clock_wall();; second++) {
    int n = snprintf(path, PATH_MAX, "%s/events.out.tfevents.%010lld.%s", folder, second, host);
    if (n >= PATH_MAX) fail(FAIL_INPUT, "%s: %s\nhelp: give run.folder a shorter path", folder, strerror(ENAMETOOLONG));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0 || close(fd))
      fail(FAIL_MACHINE, "%s: %s\nhelp: give run.folder=PATH where this user can write", path, strerror(errno));
    return;
  }
}

TensorBoard *tensorboard_open(const char *folder, int64_t step) {
  char path[PATH_MAX];
  name_file(folder, path);
  TensorBoard *board = xmalloc(sizeof *board);
  *board = (TensorBoard){.file = append_open(path)};
  static const char version[] = "brain.Event:2";
  add_event(board, 0, 3, version, strlen(version));
  Text start = {0};
  add_varint_field(&start, 1, 1);
  if (step) add_event(board, step + 1, 7, start.at, start.n);
  text_close(&start);
  return board;
}

void tensorboard_add(TensorBoard *board, int64_t step, const Scalar *scalars, int n) {
  Text summary = {0};
  for (int i = 0; i < n; i++) {
    Text value = {0};
    float number = (float)scalars[i].value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    add_bytes(&value, 1, scalars[i].tag, strlen(scalars[i].tag));
    add_field(&value, 2, FIXED32);
    add_little(&value, bits, 4);
    add_bytes(&summary, 1, value.at, value.n);
    text_close(&value);
  }
  add_event(board, step, 5, summary.at, summary.n);
  text_close(&summary);
}

bool tensorboard_close(TensorBoard *board, Why *why) {
  if (!board) return true;
  bool ok = append_close(board->file, why);
  free(board);
  return ok;
}
