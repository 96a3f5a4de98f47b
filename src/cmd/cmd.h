/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands.  Each gets the words after its name as argv[1…] (argv[0] is the name) and returns the exit status. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdbool.h>

/* Of mpirun, or of a shell that is itself a rank (srun --pty) and hands on what its launcher told it. */
typedef enum CommandRanks {
  RANKS_REFUSED,  /* one process, which never starts MPI: each rank would do all of it */
  RANKS_HARMLESS, /* the same, but it only tells */
  RANKS_USED,     /* made for mpirun */
} CommandRanks;

typedef struct Command {
  const char *name;
  const char *group; /* before, during, after or inspect a run */
  const char *brief; /* a line */
  const char *usage; /* the words after the name, a line a form */
  const char *help;  /* lines: a sentence, or a word of usage, a tab and what it means */
  CommandRanks ranks;
  int (*run)(int argc, char **argv);
} Command;

extern const Command commands[];
extern const int ncommands;
const Command *command_find(const char *name); /* or NULL */

/* Take a word out of argv.  NAME VALUE or NAME=VALUE: the value, NULL when it is not there; as a number from 1 on; 1 of --ranks. */
const char *words_take(int *argc, char **argv, const char *name);
int words_take_number(int *argc, char **argv, const char *name, int fallback);
int words_take_ranks(int *argc, char **argv);
bool words_take_flag(int *argc, char **argv, const char *name);

/* An input error where mpirun has started several ranks: each would do all of what these words ask for. */
void words_refuse_ranks(const char *words);

/* An input error for a word section.key=value that begins with none of `used`: the command would not look at it. */
void words_refuse_keys(const char *command, int argc, char **argv, const char *const *used);

int cmd_bench(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_ckpt(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_ir(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_verify(int argc, char **argv);

#endif
