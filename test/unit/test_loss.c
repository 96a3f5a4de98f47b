/* SPDX-License-Identifier: Apache-2.0 */
/* The head and the loss, beside softmax cross-entropy written down plainly over the same hidden states. */
#include <math.h>

#include "src/base/rng.h"
#include "src/model/model.h"
#include "test/check.h"

enum { ROWS = 7, HIDDEN = 5, VOCAB_MOST = 17, VARS = 8 };

/* Vars in their order: hidden, head, labels, then the results: loss, count, z, gradients of hidden and head. */
typedef struct Results {
  double hidden[ROWS * HIDDEN], head[VOCAB_MOST * HIDDEN], labels[ROWS];
  double loss, count, z, dhidden[ROWS * HIDDEN], dhead[VOCAB_MOST * HIDDEN];
} Results;

static int var(Graph *g, const char *name, DType dtype, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = dtype, .shape = shape});
  return ir_load(g, name);
}

static void result(Graph *g, const char *name, int value) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = graph_node(g, value)->shape});
  ir_store(g, name, value);
}

static Results by_graph(int vocab, int rows) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  ModelNodes model = {.hidden = var(g, "hidden", DT_F32, SHAPE(ROWS, HIDDEN)),
                      .head = var(g, "head", DT_F32, SHAPE(vocab, HIDDEN))};
  model.labels = var(g, "labels", DT_I32, SHAPE(ROWS));
  int loss, count, z, grads[2];
  model_loss(g, &model, &(ModelBatch){.sequences = 1, .positions = ROWS, .head_rows = rows}, &loss, &count, &z);
  graph_differentiate(g, ir_add(g, loss, z), ir_const(g, DT_F32, 1), (int[]){model.hidden, model.head}, 2, -1, grads);
  result(g, "loss", loss), result(g, "count", count), result(g, "z", z);
  result(g, "dhidden", grads[0]), result(g, "dhead", grads[1]);
  graph_check(g, "loss");

  Results r = {0};
  Rng rng = rng_make(3, RNG_TEST, "loss", 0);
  for (int i = 0; i < ROWS * HIDDEN; i++) r.hidden[i] = 2 * rng_uniform(&rng, (uint64_t)i) - 1;
  for (int i = 0; i < vocab * HIDDEN; i++) r.head[i] = rng_uniform(&rng, 1000 + (uint64_t)i) - 2; /* most logits are below 0 */
  for (int i = 0; i < ROWS; i++) r.labels[i] = i == 2 ? -1 : (i * 5 + vocab - 1) % vocab;
  double *const values[VARS] = {r.hidden, r.head, r.labels, &r.loss, &r.count, &r.z, r.dhidden, r.dhead};
  graph_interpret(graph_simplify(g, arena), values, NULL, NULL);
  arena_close(arena);
  return r;
}

/* Of the inputs in r. */
static Results plainly(const Results *inputs, int vocab) {
  Results r = {0};
  for (int i = 0; i < ROWS; i++) {
    int label = (int)inputs->labels[i];
    double logit[VOCAB_MOST] = {0}, sum = 0;
    if (label < 0) continue;
    for (int v = 0; v < vocab; v++) {
      for (int k = 0; k < HIDDEN; k++) logit[v] += inputs->hidden[i * HIDDEN + k] * inputs->head[v * HIDDEN + k];
      sum += exp(logit[v]);
    }
    r.loss += log(sum) - logit[label];
    r.z += log(sum) * log(sum);
    r.count++;
    for (int v = 0; v < vocab; v++) {
      double d = exp(logit[v]) / sum * (1 + 2 * log(sum)) - (v == label);
      for (int k = 0; k < HIDDEN; k++) r.dhidden[i * HIDDEN + k] += d * inputs->head[v * HIDDEN + k];
      for (int k = 0; k < HIDDEN; k++) r.dhead[v * HIDDEN + k] += d * inputs->hidden[i * HIDDEN + k];
    }
  }
  return r;
}

/* Every remainder of a vocabulary by what its rows are padded to, logits whole and in chunks of unequal rows. */
TEST(a_vocabulary_of_any_size_has_the_plain_loss_and_gradients) {
  for (int vocab = 8; vocab <= VOCAB_MOST; vocab++)
    for (int rows = 0; rows <= 3; rows += 3) {
      Results r = by_graph(vocab, rows), plain = plainly(&r, vocab);
      EXPECT(r.count == plain.count && plain.count == ROWS - 1);
      EXPECT_NEAR(r.loss, plain.loss, 1e-12);
      EXPECT_NEAR(r.z, plain.z, 1e-12);
      for (int i = 0; i < ROWS * HIDDEN; i++) EXPECT_NEAR(r.dhidden[i], plain.dhidden[i], 1e-11);
      for (int i = 0; i < vocab * HIDDEN; i++) EXPECT_NEAR(r.dhead[i], plain.dhead[i], 1e-11);
    }
}
