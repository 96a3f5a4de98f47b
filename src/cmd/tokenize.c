/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain tokenize: text files, one after another, become one token file in which every byte is a token (vocabulary 256).
 * The order-0 entropy of the bytes is what a model that knows only their frequencies would pay: the loss to beat. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/tokens.h"
#include "src/base/fail.h"
#include "src/cmd/cmd.h"

static const char usage[] = "usage: hpctrain tokenize OUT.bin TEXT ...   (- is standard input)";

static void add_file(TokensWriter *out, const char *path, int64_t count[256]) {
  unsigned char bytes[65536];
  int32_t ids[65536];
  bool is_input = !strcmp(path, "-");
  int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(FAIL_INPUT, "%s: %s\nhelp: %s", path, strerror(errno), usage);
  for (;;) {
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(FAIL_INPUT, "%s: %s", path, strerror(errno));
    if (n == 0) break;
    for (ssize_t i = 0; i < n; i++) {
      ids[i] = bytes[i];
      count[bytes[i]]++;
    }
    tokens_writer_add(out, ids, n);
  }
  if (!is_input) close(fd);
}

static double entropy_bits(const int64_t count[256], int64_t n) {
  double bits = 0;
  for (int i = 0; i < 256; i++)
    if (count[i]) bits -= (double)count[i] / (double)n * log2((double)count[i] / (double)n);
  return bits;
}

int cmd_tokenize(int argc, char **argv) {
  int64_t count[256] = {0}, n = 0;
  if (argc < 3 || (argv[1][0] == '-' && argv[1][1])) fail(FAIL_INPUT, "an output file and text files are wanted\nhelp: %s", usage);
  for (int i = 2; i < argc; i++) { /* before anything is written */
    if (!strcmp(argv[i], argv[1])) fail(FAIL_INPUT, "%s is both input and output\nhelp: %s", argv[1], usage);
    if (strcmp(argv[i], "-") && access(argv[i], R_OK)) fail(FAIL_INPUT, "%s: %s\nhelp: %s", argv[i], strerror(errno), usage);
  }
  TokensWriter *out = tokens_writer_open(argv[1], 2);
  for (int i = 2; i < argc; i++) add_file(out, argv[i], count);
  tokens_writer_close(out);
  for (int i = 0; i < 256; i++) n += count[i];
  printf("data   %.3g MB, %" PRId64 " tokens, order-0 entropy %.2f bits/byte\n", (double)n * 1e-6, n, entropy_bits(count, n));
  printf("wrote  %s\n", argv[1]);
  return 0;
}
