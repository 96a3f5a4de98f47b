/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain train: what the program is for. */
#include "src/cmd/cmd.h"
#include "src/train/run.h"

int cmd_train(int argc, char **argv) {
  Run *run = run_open(argc, argv);
  run_steps(run);
  run_close(run);
  return 0;
}
