/* SPDX-License-Identifier: Apache-2.0 */
/* A training run as hpctrain's, but that one bit of a parameter of the last rank's is another one when the steps begin:
 *   spoiled RUN.yaml [section.key=value …] */
#include <string.h>

#include "src/model/model.h"
#include "src/train/run.h"

static void give(void *self, int64_t first, int64_t n, void *to) {
  CHECK(first == 0 && n == 1);
  memcpy(to, self, sizeof(float));
}

static void flip(const Run *run, int param) {
  const StateTable *states = engine_states(run->engine);
  int64_t first, n, at;
  uint32_t bits;
  float x;
  if (!state_piece(states, param, engine_rank(run->engine), &first, &n, &at)) return;
  engine_read(run->engine, SLOT_PARAM, states->params[param].unit, at, 1, &x);
  memcpy(&bits, &x, sizeof bits);
  bits ^= 1;
  memcpy(&x, &bits, sizeof x);
  engine_put(run->engine, SLOT_PARAM, states->params[param].unit, at, 1, give, &x);
}

int main(int argc, char **argv) {
  text_pin_locale();
  comm_launch();
  config_set_presets(model_presets());
  Run *run = run_open(argc, argv);
  if (comm_rank(run->comm) == comm_size(run->comm) - 1) flip(run, engine_states(run->engine)->nparams / 2);
  run_steps(run);
  run_close(run);
  return 0;
}
