/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, and the keys and values of earlier positions that generation keeps.
 *
 * A block's keys lie as (B,G,L,D) and its values as (B,G,D,L), each so that what one query sums over comes last: D for scores, L
 * for what they weigh.  Then the attention of one query a slot is products and sums of primitive ops, of which every device's
 * kernels are made, and reads the cache once.  A Var is written whole: but for one column of it, with what it had. */
#include <math.h>

#include "src/model/build.h"

enum { HIDDEN = -1000000 }; /* a score whose exponential is 0 */

typedef struct Cache {
  ModelBuild *m;
  const ModelNodes *model;
  const char *keys, *values; /* Vars */
  int64_t B, G, R, D, L;     /* slots, key heads, queries' heads a key head, head size, positions */
  int old_keys, old_values;  /* (B,G,L,D), (B,G,D,L) as they were before the program, F32 */
} Cache;

static int declare(Cache *c, const char **var, const char *what, int64_t block, Shape shape) {
  Graph *g = c->m->g;
  *var = arena_printf(g->arena, "cache/%s/%lld", what, (long long)block);
  graph_var(g, (Var){.name = *var, .class = VAR_CARRY, .dtype = c->m->batch->cache.dtype, .shape = shape});
  return ir_cast(g, DT_F32, ir_load(g, *var));
}

static Cache cache_open(ModelBuild *m, const ModelNodes *model, int q, int k) {
  const Shape *s = &graph_node(m->g, k)->shape;
  const ModelCache *use = &m->batch->cache;
  int64_t G = s->dim[2], D = s->dim[3], block = m->caches++;
  Cache c = {.m = m, .model = model, .B = use->slots, .G = G, .R = graph_node(m->g, q)->shape.dim[2] / G, .D = D, .L = use->length};
  c.old_keys = declare(&c, &c.keys, "keys", block, SHAPE(c.B, G, c.L, D));
  c.old_values = declare(&c, &c.values, "values", block, SHAPE(c.B, G, D, c.L));
  return c;
}

/* As attention reads what is in its operands' type, and the cache holds it. */
static int rounded(const Cache *c, int x) { return ir_cast(c->m->g, DT_F32, ir_cast(c->m->g, c->m->batch->cache.dtype, x)); }

static void keep(const Cache *c, const char *var, int value) {
  ir_store(c->m->g, var, ir_cast(c->m->g, c->m->batch->cache.dtype, value));
}

/* x of one sequence, axis its positions: with zeros up to the cache's length. */
static int lengthened(const Cache *c, int x, int axis) {
  Shape rest = graph_node(c->m->g, x)->shape;
  rest.dim[axis] = c->L - rest.dim[axis];
  if (!rest.dim[axis]) return x;
  int both[] = {x, ir_broadcast(c->m->g, ir_const(c->m->g, DT_F32, 0), rest)};
  return ir_concat(c->m->g, both, 2, axis);
}

/* Of a whole sequence (1,S,G,D) into its slot; the others stay. */
static void fill(const Cache *c, int k, int v) {
  Graph *g = c->m->g;
  int mine = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, SHAPE(c->B, 1, 1, 1), 0), c->model->slot);
  int keys = lengthened(c, ir_permute(g, k, (int[]){0, 2, 1, 3}), 2),
      values = lengthened(c, ir_permute(g, v, (int[]){0, 2, 3, 1}), 3);
  keep(c, c->keys, ir_select(g, mine, keys, c->old_keys));
  keep(c, c->values, ir_select(g, mine, values, c->old_values));
}

/* One query a slot (B,1,H,D), over what is kept of the positions before its own, and its own k and v, which are then kept too. */
static int extend(const Cache *c, int q, int k, int v, double scale, int64_t window) {
  Graph *g = c->m->g;
  int64_t B = c->B, G = c->G, R = c->R, D = c->D, L = c->L;
  int at = ir_reshape(g, c->model->position, SHAPE(B, 1, 1, 1, 1));
  k = rounded(c, k), v = rounded(c, v);
  q = ir_reshape(g, ir_scale(g, rounded(c, q), scale), SHAPE(B, G, R, 1, D));
  int old = ir_reduce(g, OP_SUM, ir_mul(g, q, ir_reshape(g, c->old_keys, SHAPE(B, G, 1, L, D))), 4);
  int own = ir_reduce(g, OP_SUM, ir_mul(g, q, ir_reshape(g, k, SHAPE(B, G, 1, 1, D))), 4);
  int key = ir_iota(g, DT_I32, SHAPE(1, 1, 1, L, 1), 3), here = ir_binary(g, OP_EQ, key, at), seen = ir_binary(g, OP_LT, key, at);
  if (window) seen = ir_binary(g, OP_AND, seen, ir_binary(g, OP_LT, ir_sub(g, at, key), ir_const(g, DT_I32, (double)window)));
  int score = ir_select(g, here, own, ir_select(g, seen, old, ir_const(g, DT_F32, HIDDEN)));
  score = ir_reshape(g, score, SHAPE(B, G, R, L));
  int weight = ir_unary(g, OP_EXP, ir_sub(g, score, ir_reduce(g, OP_MAXIMUM, score, 3)));
  weight = ir_div(g, weight, ir_reduce(g, OP_SUM, weight, 3));
  Shape by_value = SHAPE(1, 1, 1, 1, L); /* what was never written there must not come in, not even times 0 */
  int value = ir_select(g, ir_reshape(g, seen, SHAPE(B, 1, 1, 1, L)), ir_reshape(g, c->old_values, SHAPE(B, G, 1, D, L)),
                        ir_const(g, DT_F32, 0));
  value = ir_select(g, ir_binary(g, OP_EQ, ir_iota(g, DT_I32, by_value, 4), at), ir_reshape(g, v, SHAPE(B, G, 1, D, 1)), value);
  int o = ir_reduce(g, OP_SUM, ir_mul(g, ir_reshape(g, weight, SHAPE(B, G, R, 1, L)), value), 4);
  keep(c, c->keys, ir_select(g, ir_reshape(g, here, SHAPE(B, 1, L, 1)), ir_reshape(g, k, SHAPE(B, G, 1, D)), c->old_keys));
  keep(c, c->values, ir_select(g, ir_reshape(g, here, SHAPE(B, 1, 1, L)), ir_reshape(g, v, SHAPE(B, G, D, 1)), c->old_values));
  return ir_reshape(g, o, SHAPE(B, 1, G * R, D));
}

int model_attention(ModelBuild *m, const ModelNodes *model, int q, int k, int v, int64_t window) {
  double scale = 1 / sqrt((double)m->config->head_dim);
  if (m->batch->cache.use == CACHE_NONE) return ir_attention(m->g, q, k, v, model->start, scale, window);
  Cache c = cache_open(m, model, q, k);
  if (m->batch->cache.use == CACHE_EXTEND) return extend(&c, q, k, v, scale, window);
  fill(&c, k, v);
  return ir_attention(m->g, q, k, v, model->start, scale, window);
}
