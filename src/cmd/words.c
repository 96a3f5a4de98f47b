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

void words_refuse_keys(const char *command, int argc, char **argv, const char *const *used) {
  for (int i = 1; i < argc; i++) {
    int u = 0;
    while (used[u] && strncmp(argv[i], used[u], strlen(used[u]))) u++;
    if (used[u]) continue;
    Text all = {0};
    for (u = 0; used[u]; u++) text_printf(&all, "%s%s%s", u ? ", " : "", used[u], used[u][strlen(used[u]) - 1] == '.' ? "*" : "");
    fail(FAIL_INPUT, "'%.*s' is of no use to %s\nhelp: it takes %s", (int)strcspn(argv[i], "="), argv[i], command, all.at);
  }
}
