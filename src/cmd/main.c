/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: answers --version; trains nothing yet. */
#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    puts("hpctrain " PACKAGE_VERSION);
    return 0;
  }
  fail(FAIL_INPUT, "usage: hpctrain --version");
}
