/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the command line that several commands know. */
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/cmd/cmd.h"
#include "src/comm/comm.h"

enum { RANKS_MOST = 1 << 20 };

const char *words_take(int *argc, char **argv, const char *name) {
  const char *value = NULL;
  size_t n = strlen(name);
  int left = 0;
  for (int i = 0; i < *argc; i++) {
    bool alone = !strcmp(argv[i], name), joined = !strncmp(argv[i], name, n) && argv[i][n] == '=';
    if (alone && i + 1 == *argc) fail(FAIL_INPUT, "%s wants a value, and nothing is behind it\nhelp: hpctrain --help", name);
    if (!alone && !joined)
      argv[left++] = argv[i];
    else
      value = joined ? argv[i] + n + 1 : argv[++i];
  }
  *argc = left;
  return value;
}

bool words_take_flag(int *argc, char **argv, const char *name) {
  int left = 0;
  for (int i = 0; i < *argc; i++)
    if (strcmp(argv[i], name)) argv[left++] = argv[i];
  bool found = left < *argc;
  *argc = left;
  return found;
}

int words_take_number(int *argc, char **argv, const char *name, int fallback) {
  const char *text = words_take(argc, argv, name);
  int64_t value;
  if (!text) return fallback;
  if (!num_parse_int(text, &value) || value < 1 || value > RANKS_MOST)
    fail(FAIL_INPUT, "%s wants a number from 1 to %d, not '%.40s'", name, RANKS_MOST, text);
  return (int)value;
}

int words_take_ranks(int *argc, char **argv) { return words_take_number(argc, argv, "--ranks", 1); }

void words_refuse_ranks(const char *words) {
  int ranks = comm_launched_ranks();
  if (ranks > 1)
    fail(FAIL_INPUT,
         "%s takes no ranks, and %d were started\nhelp: hpctrain %s without mpirun, or env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE in "
         "a rank's own shell",
         words, ranks, words);
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
