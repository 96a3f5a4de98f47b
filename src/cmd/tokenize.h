/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of hpctrain tokenize share. */
#ifndef CMD_TOKENIZE_H
#define CMD_TOKENIZE_H

#include "src/train/tokenize.h"

/* Opens it or ends with the reason; usage is told where path is NULL. */
Tokenizer *tokenize_open(const char *path, const char *pattern, const char *usage);

/* --print: see tokenize_print.c. */
int tokenize_print(const Tokenizer *t, bool special);

#endif
