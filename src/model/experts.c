/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts in a block's mlp, as Mixtral has it (Jiang et al., "Mixtral of Experts", 2024): a router's softmax chooses a
 * token's k experts, each a gated mlp, and weighs what they give by its k probabilities, made to add up to 1.
 *
 * No token is dropped and no shape depends on data: the T·k pairs (token, choice) are sorted by expert, and each expert's product
 * is of as many rows as its pairs are (Gale et al., "MegaBlocks", 2022).
 *
 * Two losses on the router, over all blocks together.  Balance (Fedus et al., "Switch Transformers", 2021, equations 4 to 6; the
 * layers put together as transformers does): E times the sum over experts of the share of tokens that chose it times the mean of
 * its probability, k where all are alike.  z (Zoph et al., "ST-MoE", 2022, equation 5): the mean square of log sum exp(logits).
 * Padding is no token of either, as with transformers' attention mask. */
#include "src/model/build.h"

typedef struct Block {
  ModelBuild *m;
  const char *unit, *name;
} Block;

static int block_param(const Block *b, const char *rest, int64_t rows, int64_t cols) {
  return model_param(b->m, b->unit, arena_printf(b->m->g->arena, "%s.%s", b->name, rest), SHAPE(rows, cols), INIT_NORMAL);
}

/* Each expert's matrices of (rows, cols), one below the other. */
static int expert_weights(const Block *b, const char *const *names, int n, int64_t rows, int64_t cols) {
  int64_t E = b->m->config->experts;
  int *parts = arena_array(b->m->g->arena, int, E *n);
  for (int64_t e = 0; e < E; e++)
    for (int i = 0; i < n; i++) {
      const char *rest = arena_printf(b->m->g->arena, "experts.%lld.%s.weight", (long long)e, names[i]);
      parts[e * n + i] = block_param(b, rest, rows, cols);
    }
  return ir_concat(b->m->g, parts, (int)E * n, 0);
}

static int add_to(Graph *g, int sum, int x) { return sum < 0 ? x : ir_add(g, sum, x); }

/* x, made zero where padding is, whose extents of 1 are repeated. */
static int only_real(Graph *g, int padding, int x) { return ir_select(g, padding, ir_const(g, DT_F32, 0), x); }

/* The block's part of both losses. */
static void count_routes(ModelBuild *m, const Route *route, int probability, int lse) {
  Graph *g = m->g;
  int64_t T = graph_node(g, probability)->shape.dim[0], E = m->config->experts, k = m->config->experts_per_token;
  if (m->padding < 0) return;
  int pairs = ir_reshape(g, ir_broadcast(g, m->padding, SHAPE(T, k)), SHAPE(T * k, 1));
  int is = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, SHAPE(T * k, E), 1), ir_reshape(g, route->expert, SHAPE(T * k, 1)));
  vec_push(g->arena, &m->chosen, ir_reduce(g, OP_SUM, only_real(g, pairs, ir_cast(g, DT_F32, is)), 0));
  vec_push(g->arena, &m->probability, ir_reduce(g, OP_SUM, only_real(g, m->padding, probability), 0));
  vec_push(g->arena, &m->router_lse, ir_reshape(g, lse, SHAPE(1, T)));
}

/* The probability of each of a token's choices, made to add up to 1: (T·k,1), by pair. */
static int weights_of(ModelBuild *m, const Route *route, int probability) {
  Graph *g = m->g;
  int64_t T = graph_node(g, probability)->shape.dim[0], E = m->config->experts, k = m->config->experts_per_token;
  Shape all = SHAPE(T, k, E);
  int is = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, all, 2), ir_reshape(g, route->expert, SHAPE(T, k, 1)));
  int each = ir_broadcast(g, ir_reshape(g, probability, SHAPE(T, 1, E)), all);
  int chosen = ir_reshape(g, ir_reduce(g, OP_SUM, ir_select(g, is, each, ir_const(g, DT_F32, 0)), 2), SHAPE(T, k));
  return ir_reshape(g, ir_div(g, chosen, ir_reduce(g, OP_SUM, chosen, 1)), SHAPE(T * k, 1));
}

static Route route_tokens(const Block *b, int x, int *weights) {
  Graph *g = b->m->g;
  int logits = model_linear(g, x, block_param(b, "gate.weight", b->m->config->experts, b->m->config->hidden), -1);
  int top = ir_unary(g, OP_STOP, ir_reduce(g, OP_MAXIMUM, logits, 1)), powers = ir_unary(g, OP_EXP, ir_sub(g, logits, top));
  int sum = ir_reduce(g, OP_SUM, powers, 1), probability = ir_div(g, powers, sum);
  Route route = ir_route(g, probability, b->m->config->experts_per_token);
  *weights = weights_of(b->m, &route, probability);
  count_routes(b->m, &route, probability, ir_add(g, top, ir_unary(g, OP_LOG, sum)));
  return route;
}

/* A pair's weight is put to what the expert's second product reads, not to what that gives: in a kernel that is there anyway. */
int model_experts(ModelBuild *m, const char *unit, const char *name, int x) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  Block b = {m, unit, name};
  int64_t T = graph_node(g, x)->shape.dim[0], C = c->hidden, F = c->intermediate, k = c->experts_per_token;
  int weights, sum = -1;
  Route route = route_tokens(&b, x, &weights);
  int rows = ir_take(g, x, route.order, route.inverse, k), weight = ir_take(g, weights, route.order, route.inverse, 1);
  int gate_up = ir_grouped(g, rows, expert_weights(&b, (const char *const[]){"w1", "w3"}, 2, F, C), true, route.offsets);
  int inner = ir_mul(g, model_silu(g, ir_slice(g, gate_up, 1, 0, F)), ir_slice(g, gate_up, 1, F, 2 * F));
  int down = expert_weights(&b, (const char *const[]){"w2"}, 1, C, F);
  int out = ir_grouped(g, ir_mul(g, inner, weight), down, true, route.offsets);
  int pairs = ir_reshape(g, ir_take(g, out, route.inverse, route.order, 1), SHAPE(T, k, C));
  for (int64_t j = 0; j < k; j++) sum = add_to(g, sum, ir_reshape(g, ir_slice(g, pairs, 1, j, j + 1), SHAPE(T, C)));
  return sum;
}

void model_router_losses(ModelBuild *m, ModelNodes *model) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  if (m->padding < 0) return;
  int64_t T = m->batch->sequences * m->batch->positions;
  int one = ir_const(g, DT_F32, 1), real = ir_sum_all(g, only_real(g, m->padding, one));
  int rows = ir_scale(g, ir_binary(g, OP_MAX, real, one), (double)c->layers);
  int chosen = ir_reduce(g, OP_SUM, ir_concat(g, m->chosen.at, m->chosen.n, 0), 0);
  int probability = ir_reduce(g, OP_SUM, ir_concat(g, m->probability.at, m->probability.n, 0), 0);
  int shares = ir_mul(g, ir_div(g, chosen, rows), ir_div(g, probability, rows));
  model->balance = ir_scale(g, ir_sum_all(g, shares), (double)c->experts);
  int lse = ir_concat(g, m->router_lse.at, m->router_lse.n, 0), padding = ir_reshape(g, m->padding, SHAPE(1, T));
  int real_lse = only_real(g, padding, lse);
  model->router_z = ir_div(g, ir_sum_all(g, ir_mul(g, real_lse, real_lse)), rows);
}
