/* SPDX-License-Identifier: Apache-2.0 */
/* Models only build graph: a model is a row of a table with a function that adds the nodes from token ids to the last
 * hidden state.  The loss is the same for all. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "src/ir/ir.h"

/* How rotary positions are stretched beyond the trained length: io/names.h says by what. */
typedef enum ModelRope {
  MODEL_ROPE_DEFAULT,
  MODEL_ROPE_LINEAR,
  MODEL_ROPE_DYNAMIC,
  MODEL_ROPE_WAVELENGTH,
  MODEL_ROPE_YARN
} ModelRope;

typedef struct ModelConfig {
  const char *family; /* of the model table: "llama"; NULL: its first row */
  int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, max_positions;
  double norm_eps, init_std;
  int64_t experts, experts_per_token; /* experts 0: a block's mlp is one for all tokens */
  bool tied;                          /* the head is the embedding table */
  bool attention_bias, mlp_bias;      /* beside those that the family has anyway */
  struct {
    double aux_loss; /* the balance's factor */
    bool told;       /* whether training adds it; as files have it, their default is not */
  } router;
  int64_t window, window_from; /* positions that a query sees, itself included, in blocks from window_from on; 0: all */
  struct {
    double embedding, residual, attention; /* shares that are dropped in training */
  } dropout;
  struct {
    ModelRope kind;
    double theta, factor, low_freq_factor, high_freq_factor; /* the last two: MODEL_ROPE_WAVELENGTH */
    int64_t original_positions;                              /* MODEL_ROPE_WAVELENGTH, MODEL_ROPE_YARN */
    double beta_fast, beta_slow, attention_factor;           /* these: MODEL_ROPE_YARN */
    bool truncate;
  } rope;
} ModelConfig;

/* Shares that are dropped in training: of the embedded tokens, and of what each part of a block adds (Srivastava et al.,
 * "Dropout", 2014). */
typedef struct ModelDropout {
  double embedding, residual;
} ModelDropout;

/* Keys and values that generation keeps from program to program, of so many sequences (slots) and positions: Vars "cache/keys/N"
 * and "cache/values/N" a block, of type dtype, which no program need have written before.
 * FILL: the batch is one sequence, from its beginning on; all its keys and values go to the slot that the scalar "slot" (i32)
 * names. Those behind its end are padding, which counts for nothing until it is written over. EXTEND: the batch is the next
 * position of each slot; ids are called "next" (B), and "position" (B, i32) says where each is: at most L - 1.  It sees what was
 * kept of the positions before it, and is kept. Neither has labels or order. */
typedef enum ModelCacheUse { CACHE_NONE, CACHE_FILL, CACHE_EXTEND } ModelCacheUse;
typedef struct ModelCache {
  ModelCacheUse use;
  int64_t slots, length; /* B, L */
  DType dtype;
} ModelCache;

/* Factors of the losses on routers (ModelNodes); 0: none. */
typedef struct ModelRouterLosses {
  double balance, z;
} ModelRouterLosses;

/* B sequences of S positions; T = B·S. */
typedef struct ModelBatch {
  int64_t sequences, positions;
  int64_t whole;     /* positions of the sequences of which these are the beginnings; 0: they are all */
  int64_t head_rows; /* rows of logits alive at a time; 0: all T */
  bool segments;     /* a sequence may hold several: "start" says where each begins; else there is no such input */
  bool lengths;      /* with dynamic rope, each sequence says how long it is (below); always so with a cache */
  ModelDropout dropout;
  ModelCache cache;
} ModelBatch;

enum { MODEL_PADDING = -101 }; /* the label of a position that holds nothing */

/* What a model leaves in the graph.  Inputs are declared as Vars: "ids" i32 (T), "labels" i32 (T; negative: ignored),
 * "start" i32 (B,S): the first position of each position's segment, "order" i32 (T): sorts ids stably.  With dropout there are
 * "dropout_keys" i64, a key a place where something is dropped (model_drop_name), and "first_sequence" i64, the number of the
 * batch's first sequence in its step: an element's draw is of its key and its place in the step's whole batch.  Where sequences say
 * how long they are, "turns" f32 (B,D/2; EXTEND: "next_turns") has the frequencies of each (model_rope_frequencies); else all are
 * as long as the batch, or as `whole` says. */
typedef struct ModelNodes {
  int ids, labels, start, order; /* labels, order: -1 with a cache */
  int position;                  /* (B,S) i32: of each in its segment */
  int slot;                      /* with a cache that is filled: which is; else -1 */
  int hidden;                    /* (T,C), normed: what the head multiplies */
  int head;                      /* (V,C) */
  /* Scalars of routers (src/model/experts.c), means over all blocks and this batch's tokens but padding; -1: no experts, or a
   * cache. */
  int balance, router_z;
  int *params; /* a LOAD a parameter, in the order of declaration */
  int n_params;
} ModelNodes;

/* Whether a batch of the model may have segments. */
bool model_takes_segments(const ModelConfig *config);

/* Adds the model's inputs, parameters and forward nodes. */
ModelNodes model_build(Graph *g, const ModelConfig *config, const ModelBatch *batch);

/* Adds the head and the loss: the sum over counted tokens of -log softmax(logits)[label] (a scalar), and how many counted
 * (a scalar, f32); z_sum (NULL: none): the sum of the squares of log sum exp(logits), which a z-loss keeps near 0.  Rows are split
 * into chunks of head_rows, each a SCOPE_CHUNK, so that full logits never exist. */
void model_loss(Graph *g, const ModelNodes *model, const ModelBatch *batch, int *loss_sum, int *count, int *z_sum);
/* The same of each position (T), 0 where nothing is counted. */
int model_nll(Graph *g, const ModelNodes *model, const ModelBatch *batch);
int model_logits(Graph *g, const ModelNodes *model); /* (T,V), for verify and generation */

int64_t model_drops(const ModelConfig *config); /* places where something may be dropped */
enum { MODEL_DROP_NAME = 48 };
const char *model_drop_name(int64_t place, char out[MODEL_DROP_NAME]); /* which its key is made of */

/* Presets by name; NULL-terminated list of names; false when there is none of that name. */
const char *const *model_presets(void);
bool model_preset(const char *name, ModelConfig *config);
int64_t model_parameters(const ModelConfig *config, int64_t *looked_up);    /* all; and those that are in no product of a token's */
int64_t model_positions(const ModelConfig *config);                         /* the longest sequence it can be given */
bool model_has_lengths(const ModelConfig *config, const ModelBatch *batch); /* whether there is "turns" */
/* The angle that each pair of a head's elements is turned by from position to position of a sequence of so many, as float32. */
void model_rope_frequencies(const ModelConfig *config, int64_t positions, double *frequency); /* (head_dim / 2) */

#endif
