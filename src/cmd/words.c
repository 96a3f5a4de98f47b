/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the command line that several commands know. */
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/cmd/cmd.h"

enum { RANKS_MOST = 1 << 20 };

int words_take_ranks(int *argc, char **argv) {
  int64_t ranks = 1;
  int left = 0;
  for (int i = 0; i < *argc; i++) {
    bool alone = !strcmp(argv[i], "--ranks"), joined = !strncmp(argv[i], "--ranks=", 8);
    if (!alone && !joined) {
      argv[left++] = argv[i];
      continue;
    }
    const char *value = joined ? argv[i] + 8 : i + 1 < *argc ? argv[++i] : "";
    if (!num_parse_int(value, &ranks) || ranks < 1 || ranks > RANKS_MOST)
      fail(FAIL_INPUT, "--ranks wants a number from 1 to %d, not '%.40s'", RANKS_MOST, value);
  }
  *argc = left;
  return (int)ranks;
}
