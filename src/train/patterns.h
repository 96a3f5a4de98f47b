/* SPDX-License-Identifier: Apache-2.0 */
/* Names of parameters by shell patterns, in which * also stands for dots. */
#ifndef TRAIN_PATTERNS_H
#define TRAIN_PATTERNS_H

#include "src/config/config.h"

bool pattern_fits(const char *pattern, const char *name);
int patterns_find(const Patterns *patterns, const char *name); /* the first that fits; -1: none */

/* to, with what the k-th * of from stands for in name (each as little as fits) in place of its k-th *; NULL: from does not fit. */
const char *pattern_rename(Arena *arena, const char *from, const char *to, const char *name);

/* A pattern that fits none of the names is an input error at its line, which offers near ones.  key: "train.groups"; what: the
 * names are of, such as "parameter of the model". */
void pattern_need(const Config *c, const char *key, const Pattern *pattern, const char *what, const char *const *names, int n);

/* Names, the first three of which are told: "a, b, c and 4 more". */
typedef struct Brief {
  Text text;
  int n;
} Brief;
void brief_add(Brief *brief, const char *name);
const char *brief_take(Arena *arena, Brief *brief); /* "" where there are none */

#endif
