/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain import: a Hugging Face folder becomes a checkpoint, by one process or by all ranks of a launcher. */
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/cmd/cmd.h"
#include "src/report/human.h"
#include "src/train/import.h"

static const char usage[] = "usage: [mpirun -np N] hpctrain import HF_DIR CKPT";

static void tell(const Imported *done, double seconds, Text *warnings) {
  char bytes[HUMAN_TEXT], rate[HUMAN_TEXT];
  for (char *line = warnings->at ? strtok(warnings->at, "\n") : NULL; line; line = strtok(NULL, "\n"))
    fprintf(stderr, "warn   %s\n", line);
  printf("imported %s: %d tensors, %s in %.1f s, %s/s\n", done->step, done->tensors, human_bytes((double)done->nbytes, bytes),
         seconds, human_bytes((double)done->nbytes / (seconds > 0 ? seconds : 1), rate));
  printf("next   model.from: %.*s in a run file; hpctrain export gives the folder back\n",
         (int)(strrchr(done->step, '/') - done->step), done->step);
}

int cmd_import(int argc, char **argv) {
  double begin = clock_seconds();
  Arena *arena = arena_open();
  Comm *comm = comm_boot(&argc, &argv);
  Text warnings = {0};
  if (argc != 3 || argv[1][0] == '-' || argv[2][0] == '-')
    fail(FAIL_INPUT, "a Hugging Face folder and a folder for the checkpoint are wanted\nhelp: %s", usage);
  Imported done = import_folder(arena, comm, argv[1], argv[2], &warnings);
  if (comm_rank(comm) == 0) tell(&done, clock_seconds() - begin, &warnings);
  text_close(&warnings);
  comm_close(comm);
  arena_close(arena);
  return 0;
}
