/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain config: what a run would use, a starter file, the page of keys. */
#include "src/config/config.h"

#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/cmd/cmd.h"

int cmd_config(int argc, char **argv) {
  Text out = {0};
  if (argc == 2 && !strcmp(argv[1], "--new")) {
    config_print_new(&out);
  } else if (argc == 2 && !strcmp(argv[1], "--doc")) {
    config_print_doc(&out);
  } else {
    Arena *arena = arena_open();
    Config *c = config_load(arena, argc, argv, 1);
    if (c->demo) text_printf(&out, "# no ./hpctrain.yaml: the built-in demo on one rank\n");
    config_print(c, &out);
    arena_close(arena);
  }
  fwrite(out.at, 1, out.n, stdout);
  text_close(&out);
  return 0;
}
