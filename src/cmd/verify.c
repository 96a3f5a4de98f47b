/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain verify: a model's logits, loss, gradients and first training steps against a reference's, on any ranks.
 *
 * The reference is a safetensors file with input_ids and labels (B,S; labels are per position, negative ones are ignored),
 * attention_mask (B,S) where there is padding behind sequences (0), logits (B,S,V), loss, and grad.NAME for each parameter.  Rows
 * are dealt to the ranks unevenly where they do not divide, and padded with ignored ones.  --train takes a JSON file of settings
 * and steps, beside a safetensors file of the same name with their tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/reference.h"
#include "src/cmd/cmd.h"
#include "src/train/fit.h"
#include "src/train/groups.h"
#include "src/train/setup.h"
#include "src/train/weights.h"

/* By precision.compute; in 16 bits what their rounding costs.  Steps with moments in 16 bits, too: 2.3e-4 was seen. */
typedef struct Tolerance {
  double logits, gradient, loss, step;
} Tolerance;
static const Tolerance tolerances[] = {[PRECISION_FP32] = {2e-5, 2e-4, 2e-5, 2e-4},
                                       [PRECISION_BF16] = {2e-2, 3e-2, 1e-2, 1e-2},
                                       [PRECISION_FP16] = {2e-2, 3e-2, 1e-2, 1e-2}};
static const double brief_moments = 2e-3;
/* With experts, in 16 bits, a token near a tie goes to another expert; transformers in bf16 is 0.08 and 0.30 off, too. */
static const Tolerance brief_experts = {0.15, 0.5, 1e-2, 3e-2};

enum { PASSES_MOST = 1000 };

typedef struct Verify {
  Arena *arena;
  const Config *config;
  Comm *comm;
  Mesh *mesh;
  Dev *dev;
  ModelConfig model;
  Tolerance tolerance;
  int threads, wrong; /* wrong: comparisons out of tolerance */
  int64_t passes;     /* over which a batch is split */
} Verify;

/* --- comparing ------------------------------------------------------------------------------------------------------------ */

/* Sums that give ‖a-b‖/‖b‖ over all ranks; a NaN anywhere makes it NaN, which is never within a tolerance. */
typedef struct Distance {
  double difference, norm;
} Distance;

static void distance_add(Distance *d, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double x = a[i], y = b[i];
    d->difference += (x - y) * (x - y);
    d->norm += y * y;
  }
}

static double distance(const Verify *v, const Distance *mine) {
  Distance *all = arena_array(v->arena, Distance, comm_size(v->comm)), sum = {0, 0};
  comm_gather(v->comm, mine, sizeof *mine, all);
  for (int r = 0; r < comm_size(v->comm); r++) {
    sum.difference += all[r].difference;
    sum.norm += all[r].norm;
  }
  return sqrt(sum.difference) / (sum.norm > 0 ? sqrt(sum.norm) : 1);
}

static void report(Verify *v, const char *what, double error, double tolerance) {
  bool right = error <= tolerance;
  v->wrong += !right;
  if (comm_rank(v->comm) == 0) printf("%-5s %-60s %.2e of %.0e\n", right ? "ok" : "WRONG", what, error, tolerance);
}

static double relative(double a, double b) { return fabs(a - b) / fabs(b); }

/* --- rows ----------------------------------------------------------------------------------------------------------------- */

/* This rank's rows of a batch of B in one pass: per of them, of which those from B on are padding. */
typedef struct Rows {
  int64_t per, first, real;
} Rows;

static Rows deal(const Verify *v, int64_t B, int64_t pass) {
  int64_t parts = v->passes * mesh_dp_size(v->mesh), per = (B + parts - 1) / parts;
  int64_t first = (pass * mesh_dp_size(v->mesh) + mesh_dp_index(v->mesh)) * per;
  return (Rows){per, first, first >= B ? 0 : first + per > B ? B - first : per};
}

/* Rows of `length` elements, padding filled with `filler`. */
static int32_t *take_rows(Arena *arena, const Rows *rows, const int64_t *all, int64_t length, int32_t filler) {
  int32_t *mine = arena_array(arena, int32_t, rows->per * length);
  for (int64_t i = 0; i < rows->per * length; i++) {
    mine[i] = i < rows->real * length ? (int32_t)all[rows->first * length + i] : filler;
  }
  return mine;
}

static Engine *open_engine(Verify *v, Arena *arena, int64_t sequences, int64_t positions, double tokens, bool logits,
                           const AdamW *adam, double clip) {
  EngineOptions o = setup_options(v->config, &v->model, v->threads);
  o.sequences = sequences;
  o.positions = positions;
  o.passes = v->passes;
  o.nominal_tokens = tokens;
  o.train = true;
  o.logits = logits;
  if (adam) o.adam = *adam;
  o.clip = clip;
  const Members *members = members_of_model(arena, v->config, &v->model);
  o.traits = members->traits;
  fit_settle(arena, v->config, v->comm, v->mesh, &o, &(FitPlace){.dev = v->dev});
  Engine *engine = engine_open(arena, v->dev, v->comm, v->mesh, &o);
  engine_start(engine);
  ModelFolder *from = model_folder_open(v->config->model.from);
  Weights *weights = weights_open(arena, from, v->config, members);
  weights_load(weights, engine, v->dev, v->comm);
  model_folder_close(from);
  return engine;
}

/* --- one batch forward and backward ----------------------------------------------------------------------------------------- */

static void compare_gradients(Verify *v, Engine *engine, const Reference *ref, ReferenceDump *dump) {
  const StateTable *states = engine_states(engine);
  for (int p = 0; p < states->nparams; p++) {
    int64_t n = shape_size(&states->params[p].shape);
    float *mine = xmalloc(sizeof *mine * (size_t)n), *theirs = xmalloc(sizeof *theirs * (size_t)n);
    char name[160];
    snprintf(name, sizeof name, "grad.%s", states->params[p].name);
    engine_gradient(engine, p, mine);
    reference_read(ref, name, theirs, n);
    Distance d = {0, 0};
    if (comm_rank(v->comm) == 0) distance_add(&d, mine, theirs, n);
    report(v, name, distance(v, &d), v->tolerance.gradient);
    reference_dump(dump, name, states->params[p].shape.rank, states->params[p].shape.dim, mine);
    free(mine);
    free(theirs);
  }
}

/* All ranks' rows of logits on every rank; verify's models are small. */
static void dump_logits(Verify *v, const Rows *rows, const float *mine, int64_t B, int64_t S, ReferenceDump *dump) {
  int64_t row = S * v->model.vocab;
  float *all = xmalloc(sizeof *all * (size_t)(row * rows->per * comm_size(v->comm)));
  comm_gather(v->comm, mine, sizeof *mine * (size_t)(row * rows->per), all);
  reference_dump(dump, "logits", 3, (int64_t[]){B, S, v->model.vocab}, all);
  free(all);
}

static void verify_batch(Verify *v, const char *path, const char *dump_path) {
  Arena *arena = arena_open();
  Reference *ref = reference_open(arena, path);
  ReferenceBatch batch;
  reference_read_batch(ref, v->model.vocab, MODEL_PADDING, &batch);
  int64_t B = batch.rows, S = batch.columns, counted = 0;
  for (int64_t i = 0; i < B * S; i++) counted += batch.labels[i] >= 0;
  Engine *engine = open_engine(v, arena, deal(v, B, 0).per, S, (double)counted, true, NULL, 0);
  ReferenceDump *dump = dump_path && comm_rank(v->comm) == 0 ? reference_dump_open(arena, dump_path) : NULL;
  reference_dump_ids(dump, "input_ids", 2, (int64_t[]){B, S}, batch.ids);
  reference_dump_ids(dump, "labels", 2, (int64_t[]){B, S}, batch.labels);
  if (batch.mask) reference_dump_ids(dump, "attention_mask", 2, (int64_t[]){B, S}, batch.mask);
  int64_t row = S * v->model.vocab;
  float *theirs = xmalloc(sizeof *theirs * (size_t)(B * row));
  reference_read(ref, "logits", theirs, B * row);
  Distance d = {0, 0};
  for (int64_t pass = 0; pass < v->passes; pass++) {
    Rows rows = deal(v, B, pass);
    engine_batch(engine, take_rows(arena, &rows, batch.ids, S, 0), take_rows(arena, &rows, batch.labels, S, MODEL_PADDING));
    engine_micro(engine, pass);
    for (int64_t i = 0; i < rows.real * S; i++) {
      int64_t at = rows.first * S + i;
      if (batch.labels[at] == MODEL_PADDING) continue; /* nothing is asked of it */
      distance_add(&d, engine_logits(engine) + i * v->model.vocab, theirs + at * v->model.vocab, v->model.vocab);
    }
    if (dump_path) dump_logits(v, &rows, engine_logits(engine), B, S, dump);
  }
  report(v, "logits", distance(v, &d), v->tolerance.logits);
  free(theirs);
  compare_gradients(v, engine, ref, dump);
  StepResult step = engine_update(engine, 1, 0); /* last: it gives the loss over all ranks */
  float loss = (float)(step.loss + step.router_loss), want;
  reference_read(ref, "loss", &want, 1);
  report(v, "loss", relative(loss, want), v->tolerance.loss);
  reference_dump(dump, "loss", 0, NULL, &loss);
  reference_dump_close(dump);
  engine_close(engine);
  reference_close(ref);
  arena_close(arena);
}

/* --- training steps ----------------------------------------------------------------------------------------------------------- */

static void train_pass(const Verify *v, Arena *arena, Engine *engine, const ReferenceTraining *t, int step, int64_t pass) {
  int64_t S = t->row - 1;
  Rows rows = deal(v, t->rows, pass);
  int32_t *tokens = take_rows(arena, &rows, t->tokens + step * t->rows * t->row, t->row, MODEL_PADDING);
  int32_t *ids = arena_array(arena, int32_t, rows.per * S), *labels = arena_array(arena, int32_t, rows.per * S);
  for (int64_t r = 0; r < rows.per; r++)
    for (int64_t i = 0; i < S; i++) {
      ids[r * S + i] = tokens[r * t->row + i] < 0 ? 0 : tokens[r * t->row + i];
      labels[r * S + i] = tokens[r * t->row + i + 1];
    }
  engine_batch(engine, ids, labels);
  engine_micro(engine, pass);
}

static void verify_training(Verify *v, const char *path) {
  Arena *arena = arena_open();
  ReferenceTraining *t = reference_training_open(arena, path, v->model.vocab);
  int64_t S = t->row - 1;
  AdamW adam = {t->beta1, t->beta2, t->eps, t->weight_decay};
  Engine *engine = open_engine(v, arena, deal(v, t->rows, 0).per, S, (double)(t->rows * S), false, &adam, t->clip);
  double worst_loss = 0, worst_norm = 0;
  for (int s = 0; s < t->steps; s++) {
    for (int64_t pass = 0; pass < v->passes; pass++) train_pass(v, arena, engine, t, s, pass);
    StepResult step = engine_update(engine, s + 1, t->lr[s]);
    double loss = relative(step.loss, t->loss[s]), norm = relative(step.grad_norm, t->grad_norm[s]);
    worst_loss = loss <= worst_loss ? worst_loss : loss; /* keeps a NaN */
    worst_norm = norm <= worst_norm ? worst_norm : norm;
  }
  char what[64];
  snprintf(what, sizeof what, "loss, worst of %d steps", t->steps);
  report(v, what, worst_loss, v->tolerance.step);
  snprintf(what, sizeof what, "gradient norm, worst of %d steps", t->steps);
  report(v, what, worst_norm, v->tolerance.step);
  engine_close(engine);
  arena_close(arena);
}

/* --- the command ------------------------------------------------------------------------------------------------------------ */

static const char *const use_keys[] = {"run.tune", "parallel.", "precision.",    "memory.", "device.",
                                       "cpu.",     "gpu.",      "train.router_", NULL};

typedef struct Words {
  const char *folder, *reference, *train, *dump;
  int passes, nkeys;
  char **keys; /* section.key=value */
} Words;

static Words take_words(Arena *arena, int argc, char **argv) {
  Words w = {.train = words_take(&argc, argv, "--train"),
             .dump = words_take(&argc, argv, "--dump"),
             .passes = words_take_number(&argc, argv, "--passes", 1),
             .keys = arena_array(arena, char *, argc + 2)};
  w.keys[w.nkeys++] = argv[0];
  for (int i = 1; i < argc; i++) {
    if (strchr(argv[i], '='))
      w.keys[w.nkeys++] = argv[i];
    else if (argv[i][0] == '-' || w.reference)
      fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help verify", argv[i]);
    else if (w.folder)
      w.reference = argv[i];
    else
      w.folder = argv[i];
  }
  if (!w.reference) fail(FAIL_INPUT, "verify needs a model's folder and a reference\nhelp: hpctrain help verify");
  words_refuse_keys("verify", w.nkeys, w.keys, use_keys);
  if (w.passes > PASSES_MOST) fail(FAIL_INPUT, "--passes %d: from 1 to %d\nhelp: hpctrain help verify", w.passes, PASSES_MOST);
  if (w.dump && w.passes > 1) fail(FAIL_INPUT, "--dump takes a batch in one pass\nhelp: leave --passes out");
  w.keys[w.nkeys++] = arena_printf(arena, "model.from=%s", w.folder);
  return w;
}

int cmd_verify(int argc, char **argv) {
  Verify v = {.arena = arena_open()};
  Words w = take_words(v.arena, argc, argv);
  v.passes = w.passes;
  Text warnings = {0};
  v.comm = comm_boot(&argc, &argv);
  Config *c = config_parse(v.arena, "verify", setup_plain_run, w.nkeys, w.keys);
  setup_kind(v.arena, c, v.comm);
  v.config = c;
  v.tolerance = tolerances[c->precision.compute];
  if (c->precision.moments == PRECISION_BF16) v.tolerance.step = fmax(v.tolerance.step, brief_moments);
  v.model = setup_model(v.arena, v.config, &warnings);
  if (warnings.n && comm_rank(v.comm) == 0) fprintf(stderr, "warn   %s", warnings.at);
  text_close(&warnings);
  if (v.model.experts && c->precision.compute != PRECISION_FP32) v.tolerance = brief_experts;
  v.mesh = setup_mesh(v.config, v.comm);
  v.threads = v.config->cpu.threads ? (int)v.config->cpu.threads : comm_core_share(v.comm);
  v.dev = setup_device(v.config, v.comm, v.threads, NULL);
  verify_batch(&v, w.reference, w.dump);
  if (w.train) verify_training(&v, w.train);
  if (comm_rank(v.comm) == 0) printf(v.wrong ? "%d out of tolerance\n" : "all within tolerance\n", v.wrong);
  int status = v.wrong ? FAIL_BUG : 0;
  dev_close(v.dev);
  mesh_close(v.mesh);
  comm_close(v.comm);
  arena_close(v.arena);
  return status;
}
