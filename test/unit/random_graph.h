/* SPDX-License-Identifier: Apache-2.0 */
/* Random valid graphs with a transformer's shapes, for property tests of whatever reads graphs.  The same spec gives the same
 * graph. */
#ifndef TEST_UNIT_RANDOM_GRAPH_H
#define TEST_UNIT_RANDOM_GRAPH_H

#include "src/ir/ir.h"

typedef struct RandomSpec {
  uint64_t seed;
  int nodes;        /* about as many, without those that a broadcast or a root adds */
  int64_t elements; /* no value has more; 0: 4096 */
  bool big;         /* attention and embedding too, with gradients; matrix products are always there */
  bool rough;       /* steps too, of which float and double may take different sides: float comparisons, casts to integers */
  bool phases;      /* recomputed clones and a backward phase after the forward one */
  bool collectives; /* over one rank */
  bool views;       /* nothing but views */
  bool smooth;      /* to differentiate: no STOP, no maximum (of equal elements), no store to what is loaded */
} RandomSpec;

/* Values stay of moderate size, so float arithmetic is near double. */
Graph *random_graph(Arena *arena, RandomSpec spec);

/* A value for each var, that every float holds exactly; ids, order and starts are what the big ops ask for. */
double **random_values(Arena *arena, const Graph *g, uint64_t seed);

#endif
