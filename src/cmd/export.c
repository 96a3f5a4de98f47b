/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain export: a checkpoint becomes a Hugging Face folder, by one process or by all ranks of a launcher. */
#include <stdio.h>

#include "io/hf_export.h"
#include "io/hf_papers.h"
#include "src/base/clock.h"
#include "src/cmd/cmd.h"
#include "src/config/config.h"
#include "src/report/human.h"

static const char usage[] =
    "usage: [mpirun -np N] hpctrain export CKPT HF_DIR [--dtype bf16|fp16|fp32] [--shard-size 5GB] [--force]";

int cmd_export(int argc, char **argv) {
  double begin = clock_seconds();
  char bytes[HUMAN_TEXT];
  Arena *arena = arena_open();
  Comm *comm = comm_boot(&argc, &argv);
  const char *dtype = words_take(&argc, argv, "--dtype"), *size = words_take(&argc, argv, "--shard-size");
  HfExport e = {.force = words_take_flag(&argc, argv, "--force"), .dtype = HF_AS_IS};
  if (dtype && (e.dtype = hf_type_parse(dtype)) < 0) fail(FAIL_INPUT, "--dtype %.40s: bf16, fp16 or fp32\nhelp: %s", dtype, usage);
  if (size && (!config_parse_bytes(size, &e.shard_nbytes) || e.shard_nbytes < 1))
    fail(FAIL_INPUT, "--shard-size %.40s: a number of bytes: 5GB, 500 MB, 2GiB\nhelp: %s", size, usage);
  if (argc != 3 || argv[1][0] == '-' || argv[2][0] == '-')
    fail(FAIL_INPUT, "a run or step folder and a folder to be made are wanted\nhelp: %s", usage);
  e.from = argv[1];
  e.to = argv[2];
  HfExported done = hf_export(arena, comm, &e);
  if (comm_rank(comm) == 0)
    printf("exported %s: %d tensors, %s, %s, in %d file%s, %.1f s\n", e.to, done.tensors, human_bytes((double)done.nbytes, bytes),
           done.type, done.files, done.files == 1 ? "" : "s", clock_seconds() - begin);
  comm_close(comm);
  arena_close(arena);
  return 0;
}
