/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain plan --memory-snapshot FILE: a step's memory as PyTorch's viewer shows it, of a run that nobody has started. */
#include <stdio.h>

#include "src/base/file.h"
#include "src/cmd/plan.h"
#include "src/exec/memory.h"

void plan_snapshot(const Engine *engine, const char *path) {
  Arena *arena = arena_open();
  Text text = {0};
  Why why;
  int programs[ENGINE_STEP], count, n = engine_order(engine, programs);
  const MemoryMoment *at = memory_order(arena, engine_job(engine), programs, n, &count);
  memory_snapshot(engine_job(engine), at, count, &text);
  if (!try_file_write(path, text.at, text.n, &why))
    fail(FAIL_MACHINE, "%s\nhelp: --memory-snapshot FILE where there is room", why.text);
  printf("wrote  %s: %d steps of a step's programs, for pytorch.org/memory_viz\n", path, count);
  text_close(&text);
  arena_close(arena);
}
