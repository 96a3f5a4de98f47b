/* SPDX-License-Identifier: Apache-2.0 */
/* A training run as hpctrain's, but that a number of a parameter of the last rank's is another one when the steps begin:
 *   spoiled bit RUN.yaml [section.key=value …]   its lowest bit is
 *   spoiled nan RUN.yaml [section.key=value …]   it is none */
#include <string.h>

#include "src/model/model.h"
#include "src/train/run.h"

static void give(void *self, int64_t first, int64_t n, void *to) {
  CHECK(first == 0 && n == 1);
  memcpy(to, self, sizeof(float));
}

static void spoil(const Run *run, int param, uint32_t flip, uint32_t set) {
  const StateTable *states = engine_states(run->engine);
  int64_t first, n, at;
  uint32_t bits;
  float x;
  if (!state_piece(states, param, engine_rank(run->engine), &first, &n, &at)) return;
  engine_read(run->engine, SLOT_PARAM, states->params[param].unit, at, 1, &x);
  memcpy(&bits, &x, sizeof bits);
  bits = (bits ^ flip) | set;
  memcpy(&x, &bits, sizeof x);
  engine_put(run->engine, SLOT_PARAM, states->params[param].unit, at, 1, give, &x);
}

int main(int argc, char **argv) {
  text_pin_locale();
  comm_launch();
  config_set_presets(model_presets());
  CHECK(argc > 1);
  bool none = !strcmp(argv[1], "nan");
  Run *run = run_open(argc - 1, argv + 1);
  if (comm_rank(run->comm) == comm_size(run->comm) - 1)
    spoil(run, engine_states(run->engine)->nparams / 2, !none, none ? 0x7fc00000 : 0);
  run_steps(run);
  run_close(run);
  return 0;
}
