/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain help: the commands, or all that a word means as command, section or key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/cmd/cmd.h"
#include "src/config/config.h"

enum { MEANING = 27 }; /* column of what words mean */

static void print_commands(Text *out) {
  static const char *const groups[] = {"before", "during", "after", "inspect"};
  text_printf(out, "usage: [mpirun -np N] hpctrain [COMMAND] [RUN.yaml] [section.key=value ...]\n");
  for (int g = 0; g < 4; g++)
    for (int i = 0, n = 0; i < ncommands; i++)
      if (!strcmp(commands[i].group, groups[g]))
        text_printf(out, "  %-9s%-11s %s\n", n++ ? "" : groups[g], commands[i].name, commands[i].brief);
  text_printf(out, "more: hpctrain help COMMAND|SECTION|KEY; hpctrain --version\n"
                   "exit: 0 done, or saved for requeue; 1 our bug; 2 your input; 3 this machine; 4 rank lost or hang (mpirun may "
                   "turn it into 137)\n");
}

static void print_usage(const Command *command, Text *out) {
  for (const char *form = command->usage; *form;) {
    size_t start = out->n, n = strcspn(form, "\n");
    text_printf(out, "%s%shpctrain %s ", form == command->usage ? "usage: " : "       ",
                command->ranks == RANKS_USED ? "[mpirun -np N] " : "", command->name);
    text_wrap(out, form, n, (int)(out->n - start), 11);
    form += n + (form[n] == '\n');
  }
}

static void print_help(const Command *command, Text *out) {
  for (const char *line = command->help; *line;) {
    int n = (int)strcspn(line, "\n"), word = (int)strcspn(line, "\t\n");
    text_printf(out, "  ");
    if (word < n) {
      int width = word < MEANING - 3 ? MEANING - 3 : word;
      text_printf(out, "%-*.*s ", width, word, line);
      text_wrap(out, line + word + 1, (size_t)(n - word - 1), width + 3, MEANING);
    } else {
      text_wrap(out, line, (size_t)n, 2, 2);
    }
    line += n + (line[n] == '\n');
  }
}

static void print_command(const Command *command, Text *out) {
  print_usage(command, out);
  print_help(command, out);
}

static void fail_topic(const char *topic) {
  const char **names = xmalloc(sizeof *names * (size_t)ncommands);
  for (int i = 0; i < ncommands; i++) names[i] = commands[i].name;
  const char *near = config_nearest(topic, names, ncommands);
  if (!near) near = config_nearest_key(topic);
  free(names);
  if (near) fail(FAIL_INPUT, "no command, section or key is called '%.60s'\nhelp: did you mean '%s'?", topic, near);
  fail(FAIL_INPUT, "no command, section or key is called '%.60s'\nhelp: hpctrain --help lists commands; doc/keys.md lists keys",
       topic);
}

int cmd_help(int argc, char **argv) {
  Text out = {0};
  if (argc < 2) print_commands(&out);
  for (int i = 1; i < argc; i++) {
    const Command *command = command_find(argv[i]);
    if (command) print_command(command, &out);
    bool known = config_print_help(argv[i], &out);
    if (!command && !known) fail_topic(argv[i]);
  }
  fwrite(out.at, 1, out.n, stdout);
  text_close(&out);
  return 0;
}
