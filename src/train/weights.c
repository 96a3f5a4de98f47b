/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/weights.h"

#include <stdlib.h>
#include <string.h>

#include "io/names.h"
#include "io/safetensors.h"
#include "src/train/patterns.h"

static const char remedy[] =
    "config.json and weights belong to one model; what differs is for model.rename, model.fresh and model.skip";

/* A tensor that is wanted, under the model's name. */
typedef struct Named {
  const char *name;
  const SafeTensor *tensor;
  const Rename *by; /* NULL: it has this name in the files */
} Named;

struct Weights {
  Arena *arena;
  const Config *config;
  const Members *members;
  Safetensors *files;
  Named *named; /* by name */
  int n_named, renamed, skipped;
  const SafeTensor **of; /* by parameter; NULL: fresh */
};

static const char *path_of(const Weights *w) { return w->config->model.from; }

/* --- names ---------------------------------------------------------------------------------------------------------------- */

static Named name_tensor(const Weights *w, const SafeTensor *t) {
  const Renames *renames = &w->config->model.rename;
  for (int r = 0; r < renames->n; r++) {
    const char *to = pattern_rename(w->arena, renames->at[r].from.text, renames->at[r].to.text, t->name);
    if (to) return (Named){to, t, &renames->at[r]};
  }
  return (Named){t->name, t, NULL};
}

static int by_name(const void *a, const void *b) { return strcmp(((const Named *)a)->name, ((const Named *)b)->name); }

static const Named *find_named(const Weights *w, const char *name) {
  Named wanted = {.name = name};
  return w->n_named ? bsearch(&wanted, w->named, (size_t)w->n_named, sizeof wanted, by_name) : NULL;
}

static void refuse_twins(const Weights *w) {
  for (int i = 1; i < w->n_named; i++) {
    const Named *a = &w->named[i - 1], *b = &w->named[i];
    if (strcmp(a->name, b->name)) continue;
    const Rename *by = a->by > b->by ? a->by : b->by; /* the later one; NULL: none */
    CHECK(by);                                        /* names in the files differ */
    config_fail_at(w->config, by->to.place, "another pattern, or model.skip for one of them",
                   "model.rename: '%s' and '%s' both come to be '%s'", a->tensor->name, b->tensor->name, a->name);
  }
}

/* A table that is head as well may be stored twice. */
static bool is_tied_head(const Weights *w, const char *name) {
  if (strcmp(name, name_head)) return false;
  for (int p = 0; p < w->members->n; p++)
    if (!strcmp(w->members->at[p].name, name)) return false;
  return true;
}

static void name_tensors(Weights *w) {
  int n = safetensors_n(w->files);
  w->named = arena_array(w->arena, Named, n);
  for (int i = 0; i < n; i++) {
    const SafeTensor *t = safetensors_at(w->files, i);
    bool skipped = patterns_find(&w->config->model.skip, t->name) >= 0;
    Named named = name_tensor(w, t);
    w->skipped += skipped;
    if (skipped || name_is_constant(t->name) || is_tied_head(w, named.name)) continue;
    w->renamed += named.by != NULL;
    w->named[w->n_named++] = named;
  }
  qsort(w->named, (size_t)w->n_named, sizeof *w->named, by_name);
  refuse_twins(w);
}

static void check_patterns(const Weights *w) {
  const Config *c = w->config;
  int files = safetensors_n(w->files), params = w->members->n;
  const char **there = arena_array(w->arena, const char *, files), **here = arena_array(w->arena, const char *, params);
  for (int i = 0; i < files; i++) there[i] = safetensors_at(w->files, i)->name;
  for (int p = 0; p < params; p++) here[p] = w->members->at[p].name;
  const char *in_files = arena_printf(w->arena, "tensor of %s", path_of(w));
  for (int i = 0; i < c->model.rename.n; i++) pattern_need(c, "model.rename", &c->model.rename.at[i].from, in_files, there, files);
  for (int i = 0; i < c->model.skip.n; i++) pattern_need(c, "model.skip", &c->model.skip.at[i], in_files, there, files);
  for (int i = 0; i < c->model.fresh.n; i++)
    pattern_need(c, "model.fresh", &c->model.fresh.at[i], "parameter of the model", here, params);
}

/* --- finding -------------------------------------------------------------------------------------------------------------- */

static bool may_be_fresh(const Weights *w, const Member *param) { return patterns_find(&w->config->model.fresh, param->name) >= 0; }

static bool same_shape(const SafeTensor *t, const Shape *shape) {
  bool same = t->rank == shape->rank;
  for (int i = 0; same && i < t->rank; i++) same = t->shape[i] == shape->dim[i];
  return same;
}

static _Noreturn void fail_shape(const Weights *w, const SafeTensor *t, const Member *param) {
  Text is = {0}, want = {0};
  for (int i = 0; i < t->rank; i++) text_printf(&is, "%s%lld", i ? "x" : "", (long long)t->shape[i]);
  for (int i = 0; i < param->shape.rank; i++) text_printf(&want, "%s%lld", i ? "x" : "", (long long)param->shape.dim[i]);
  fail(FAIL_INPUT, "%s: '%s' is %s, the model's config wants %s\nhelp: %s", safetensors_file(w->files, t), t->name,
       is.n ? is.at : "a scalar", want.at, remedy);
}

static _Noreturn void fail_missing(const Weights *w, int param) {
  const Members *m = w->members;
  int others = 0;
  for (int p = param + 1; p < m->n; p++) others += !find_named(w, m->at[p].name) && !may_be_fresh(w, &m->at[p]);
  const char *more = others ? arena_printf(w->arena, " (nor %d more)", others) : "";
  fail(FAIL_INPUT, "%s has no tensor '%s', which the model needs%s\nhelp: %s", path_of(w), m->at[param].name, more, remedy);
}

static void refuse_extra(const Weights *w) {
  const Members *m = w->members;
  int first = -1, others = 0;
  for (int i = 0; i < w->n_named; i++) {
    bool known = false;
    for (int p = 0; p < m->n && !known; p++) known = !strcmp(m->at[p].name, w->named[i].name);
    if (known) continue;
    if (first < 0)
      first = i;
    else
      others++;
  }
  if (first < 0) return;
  const Named *named = &w->named[first];
  const char *was = named->by ? arena_printf(w->arena, ", as '%s' is renamed to", named->tensor->name) : "";
  fail(FAIL_INPUT, "%s: the model has no tensor '%s'%s%s\nhelp: %s", safetensors_file(w->files, named->tensor), named->name, was,
       others ? arena_printf(w->arena, " (nor %d more)", others) : "", remedy);
}

Weights *weights_open(Arena *arena, const Config *c, const Members *members) {
  Weights *w = arena_new(arena, Weights);
  *w = (Weights){.arena = arena, .config = c, .members = members, .files = safetensors_open(c->model.from)};
  w->of = arena_array(arena, const SafeTensor *, members->n);
  check_patterns(w);
  name_tensors(w);
  refuse_extra(w);
  for (int p = 0; p < members->n; p++) {
    const Member *param = &members->at[p];
    const Named *named = find_named(w, param->name);
    if (!named && !may_be_fresh(w, param)) fail_missing(w, p);
    bool fits = named && same_shape(named->tensor, &param->shape);
    if (named && !fits && !may_be_fresh(w, param)) fail_shape(w, named->tensor, param);
    w->of[p] = fits ? named->tensor : NULL;
  }
  return w;
}

void weights_close(Weights *w) { safetensors_close(w->files); }

const char *weights_told(const Weights *w) {
  Text text = {0};
  Brief fresh = {0};
  for (int p = 0; p < w->members->n; p++)
    if (!w->of[p]) brief_add(&fresh, w->members->at[p].name);
  int loaded = w->members->n - fresh.n;
  text_printf(&text, "%s: %d tensor%s", path_of(w), loaded, loaded == 1 ? "" : "s");
  if (w->renamed) text_printf(&text, ", %d renamed", w->renamed);
  if (w->skipped) text_printf(&text, ", %d skipped", w->skipped);
  const char *names = brief_take(w->arena, &fresh);
  if (*names) text_printf(&text, "; fresh: %s", names);
  const char *told = arena_strdup(w->arena, text.at);
  text_close(&text);
  return told;
}

/* --- reading -------------------------------------------------------------------------------------------------------------- */

typedef struct WeightRange {
  const Dev *dev; /* whose threads read */
  const Safetensors *from;
  const SafeTensor *tensor;
  int64_t first, n;
  float *to;
} WeightRange;

enum { WEIGHTS_AT_ONCE = 1 << 20 };

static void read_some(void *self, int64_t i) {
  const WeightRange *range = self;
  int64_t at = i * WEIGHTS_AT_ONCE, left = range->n - at;
  safetensors_read_f32(range->from, range->tensor, range->first + at, left < WEIGHTS_AT_ONCE ? left : WEIGHTS_AT_ONCE,
                       range->to + at);
}

static void read_weights(void *self, int64_t first, int64_t n, void *to) {
  WeightRange part = *(const WeightRange *)self;
  part.first += first;
  part.n = n;
  part.to = to;
  dev_parallel(part.dev, (n + WEIGHTS_AT_ONCE - 1) / WEIGHTS_AT_ONCE, read_some, &part);
}

void weights_load(const Weights *w, Engine *engine, Dev *dev, Comm *comm) {
  const StateTable *states = engine_states(engine);
  for (int p = 0; p < states->nparams; p++) {
    WeightRange range = {.dev = dev, .from = w->files, .tensor = w->of[p]};
    int64_t n, at;
    if (!range.tensor) {
      engine_init_param(engine, p, (uint64_t)w->config->run.seed);
      continue;
    }
    if (!state_piece(states, p, engine_rank(engine), &range.first, &n, &at)) continue;
    engine_put(engine, SLOT_PARAM, states->params[p].unit, at, n, read_weights, &range);
  }
  comm_barrier(comm);
}
