/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the program in files of their own, loaded when they are asked for: what they link, the program itself does not need, so
 * that one installation serves nodes with and without it. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include "src/base/fail.h"
#include "src/base/text.h"

/* Where to look first; for programs that lie elsewhere, as tests do. */
void module_look_in(const char *folder);

/* The handle of dlopen, or NULL: then tried holds a line "   PATH: why" each.  Looked for beside the program, in ../lib/hpctrain,
 * and where it was to be installed; file: there alone. */
void *module_open(const char *name, const char *file, Text *tried);
/* A symbol of it; loads it first.  NULL and why. */
const void *module_symbol(const char *name, const char *symbol, Why *why);

#endif
