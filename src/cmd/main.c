/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: [COMMAND] [RUN.yaml] [section.key=value ...]; without a command it trains. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/base/version.h"
#include "src/cmd/cmd.h"
#include "src/comm/comm.h"
#include "src/config/config.h"
#include "src/model/model.h"

static _Noreturn void fail_word(const char *word) {
  const char *names[64];
  CHECK(ncommands <= 64);
  for (int i = 0; i < ncommands; i++) names[i] = commands[i].name;
  const char *near = config_nearest(word, names, ncommands);
  fail(FAIL_INPUT, "'%.60s' is no command, no run file (NAME.yaml) and no section.key=value\nhelp: %s%s%s", word,
       near ? "did you mean '" : "", near ? near : "hpctrain --help lists the commands", near ? "'?" : "");
}

static int run(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  if (!strcmp(word, "--version")) return printf("hpctrain %s\n", version_text) < 0;
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return cmd_help(argc - 1, argv + 1);
  const Command *command = command_find(word);
  if (command && argc == 3 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) return cmd_help(2, argv);
  if (command && command->ranks == RANKS_REFUSED) words_refuse_ranks(word);
  if (command) return command->run(argc - 1, argv + 1);
  if (*word && !config_is_run_file(word) && !strchr(word, '=')) fail_word(word);
  return cmd_train(argc, argv);
}

int main(int argc, char **argv) {
  text_pin_locale();
  fail_undo_on_signals();
  comm_launch();
  config_set_presets(model_presets());
  int status = run(argc, argv);
  if (fflush(stdout) != 0 || ferror(stdout)) fail(FAIL_MACHINE, "cannot write to standard output: %s", strerror(errno));
  return status;
}
