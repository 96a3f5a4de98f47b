/* SPDX-License-Identifier: Apache-2.0 */
/* What train.groups and parallel.ignore ask of each parameter, and what the model's graph tells of it: known before anything is
 * compiled, and told at the start. */
#ifndef TRAIN_GROUPS_H
#define TRAIN_GROUPS_H

#include "src/config/config.h"
#include "src/model/model.h"
#include "src/pass/pass.h"
#include "src/report/flops.h"

typedef struct Member {
  const char *name;
  Shape shape;
  int64_t size; /* elements */
  int group;    /* of train.groups; -1: none names it */
  int places;   /* scopes of the graph in which it is used; more than one: it is shared, none: nothing uses it */
  bool reached; /* the loss depends on it */
} Member;

typedef struct Members {
  int n;
  Member *at;          /* by parameter, in the order of the model graph's VAR_PARAM Vars */
  ParamTraits *traits; /* the same; what has no gradient is frozen */
  VEC(const char *) warnings;
  double spared_products; /* as FlopsShape's; members_of_model knows them */
  int64_t spared_attentions;
} Members;

/* Of a model's graph up to its loss, which is differentiated.  params: a LOAD a parameter.  Input errors: a pattern that fits no
 * parameter; nothing left to train. */
Members *members_of(Arena *arena, const Config *c, Graph *g, const int *params, int n, int order, int loss);
Members *members_of_model(Arena *arena, const Config *c, const ModelConfig *model);

/* Names and shapes alone, of a model that is not to be trained. */
Members *members_named(Arena *arena, const ModelConfig *model);

/* Bytes of a checkpoint: all parameters, and the moments of those that are trained. */
double members_saved_bytes(const Members *members);

/* Bytes of the moments that one of `owners` ranks holds, in numbers of that size. */
double members_moment_bytes(const Members *members, size_t size, int owners);

/* Of a token of a sequence of so many positions; members of the whole model. */
Flops members_flops(const Members *members, const ModelConfig *model, int64_t positions);

/* Lines of a label, a blank and a text: "params", then a "group" each. */
void members_print(const Members *members, const Config *c, Text *lines);

#endif
