/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/weights.h"

#include <stdlib.h>
#include <string.h>

#include "io/names.h"
#include "src/train/patterns.h"
#include "src/train/states.h"

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
  const Config *config; /* NULL: nothing is renamed, fresh or skipped */
  Renames rename;
  Patterns fresh, skip;
  const Members *members;
  ModelFolder *from;
  Named *named; /* by name */
  int n_named, renamed, skipped;
  const SafeTensor **of;   /* by parameter; NULL: fresh */
  const SafeTensor *twice; /* the head where it is also the table; NULL: not there */
};

static const char *path_of(const Weights *w) { return model_folder_path(w->from); }

/* --- names ---------------------------------------------------------------------------------------------------------------- */

/* The parameter that has this name behind a prefix which files of the bare model, without a head, lack; else the name itself. */
static const char *prefixed(const Weights *w, const char *name) {
  const char *found = name;
  for (int p = 0; p < w->members->n; p++) {
    const char *param = w->members->at[p].name;
    size_t n = strlen(param), end = strlen(name);
    if (!strcmp(param, name)) return name;
    if (n > end && !strcmp(param + n - end, name) && name_is_prefix(param, (int)(n - end))) found = param;
  }
  return found;
}

static Named name_tensor(const Weights *w, const SafeTensor *t) {
  const Renames *renames = &w->rename;
  for (int r = 0; r < renames->n; r++) {
    const char *to = pattern_rename(w->arena, renames->at[r].from.text, renames->at[r].to.text, t->name);
    if (to) return (Named){to, t, &renames->at[r]};
  }
  return (Named){prefixed(w, t->name), t, NULL};
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
    if (!by)
      fail(FAIL_INPUT, "%s has both '%s' and '%s', which are one parameter\nhelp: model.skip for one of them", path_of(w),
           a->tensor->name, b->tensor->name);
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
  int n = model_folder_n(w->from);
  w->named = arena_array(w->arena, Named, n);
  for (int i = 0; i < n; i++) {
    const SafeTensor *t = model_folder_at(w->from, i);
    bool skipped = patterns_find(&w->skip, t->name) >= 0;
    Named named = name_tensor(w, t);
    w->skipped += skipped;
    if (skipped || name_is_constant(t->name)) continue;
    if (is_tied_head(w, named.name)) {
      w->twice = t;
      continue;
    }
    w->renamed += named.by != NULL;
    w->named[w->n_named++] = named;
  }
  qsort(w->named, (size_t)w->n_named, sizeof *w->named, by_name);
  refuse_twins(w);
}

static void check_patterns(const Weights *w) {
  const Config *c = w->config;
  int files = model_folder_n(w->from), params = w->members->n;
  const char **there = arena_array(w->arena, const char *, files), **here = arena_array(w->arena, const char *, params);
  for (int i = 0; i < files; i++) there[i] = model_folder_at(w->from, i)->name;
  for (int p = 0; p < params; p++) here[p] = w->members->at[p].name;
  const char *in_files = arena_printf(w->arena, "tensor of %s", path_of(w));
  for (int i = 0; i < c->model.rename.n; i++) pattern_need(c, "model.rename", &c->model.rename.at[i].from, in_files, there, files);
  for (int i = 0; i < c->model.skip.n; i++) pattern_need(c, "model.skip", &c->model.skip.at[i], in_files, there, files);
  for (int i = 0; i < c->model.fresh.n; i++)
    pattern_need(c, "model.fresh", &c->model.fresh.at[i], "parameter of the model", here, params);
}

/* --- finding -------------------------------------------------------------------------------------------------------------- */

static bool may_be_fresh(const Weights *w, const Member *param) { return patterns_find(&w->fresh, param->name) >= 0; }

static bool same_shape(const SafeTensor *t, const Shape *shape) {
  bool same = t->rank == shape->rank;
  for (int i = 0; same && i < t->rank; i++) same = t->shape[i] == shape->dim[i];
  return same;
}

static _Noreturn void fail_shape(const Weights *w, const SafeTensor *t, const Member *param) {
  Text is = {0}, want = {0};
  for (int i = 0; i < t->rank; i++) text_printf(&is, "%s%lld", i ? "x" : "", (long long)t->shape[i]);
  for (int i = 0; i < param->shape.rank; i++) text_printf(&want, "%s%lld", i ? "x" : "", (long long)param->shape.dim[i]);
  fail(FAIL_INPUT, "%s: '%s' is %s, the model's config wants %s\nhelp: %s", model_folder_file(w->from, t), t->name,
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
  fail(FAIL_INPUT, "%s: the model has no tensor '%s'%s%s\nhelp: %s", model_folder_file(w->from, named->tensor), named->name, was,
       others ? arena_printf(w->arena, " (nor %d more)", others) : "", remedy);
}

Weights *weights_open(Arena *arena, ModelFolder *from, const Config *c, const Members *members) {
  Weights *w = arena_new(arena, Weights);
  *w = (Weights){.arena = arena, .config = c, .members = members, .from = from};
  if (c) {
    w->rename = c->model.rename;
    w->fresh = c->model.fresh;
    w->skip = c->model.skip;
    check_patterns(w);
  }
  w->of = arena_array(arena, const SafeTensor *, members->n);
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

enum { WEIGHTS_AT_ONCE = 1 << 20 };

typedef struct WeightRange {
  const Dev *dev; /* whose threads read */
  const ModelFolder *from;
  const SafeTensor *tensor;
  int64_t first, n;
  float *to;
} WeightRange;

static void read_some(void *self, int64_t i) {
  const WeightRange *range = self;
  int64_t at = i * WEIGHTS_AT_ONCE, left = range->n - at;
  model_folder_read(range->from, range->tensor, range->first + at, left < WEIGHTS_AT_ONCE ? left : WEIGHTS_AT_ONCE, DT_F32,
                    range->to + at);
}

static void read_weights(void *self, int64_t first, int64_t n, float *to) {
  WeightRange part = *(const WeightRange *)self;
  part.first = first;
  part.n = n;
  part.to = to;
  model_folder_soon(part.from, part.tensor, first, n);
  dev_parallel(part.dev, (n + WEIGHTS_AT_ONCE - 1) / WEIGHTS_AT_ONCE, read_some, &part);
}

static const SafeTensor *table_of(const Weights *w) {
  for (int p = 0; p < w->members->n; p++)
    if (w->of[p] && name_is_embedding(w->members->at[p].name)) return w->of[p];
  return NULL;
}

/* Each rank compares a share. */
void weights_check_head(const Weights *w, const Comm *comm) {
  const SafeTensor *head = w->twice, *table = head ? table_of(w) : NULL;
  if (!table) return;
  bool same = head->n == table->n && head->rank == table->rank && head->shape[0] == table->shape[0];
  int64_t each = head->n / comm_size(comm) + 1, at = each * comm_rank(comm), end = at + each < head->n ? at + each : head->n;
  float *a = xmalloc(sizeof *a * WEIGHTS_AT_ONCE), *b = xmalloc(sizeof *b * WEIGHTS_AT_ONCE);
  for (; same && at < end; at += WEIGHTS_AT_ONCE) {
    int64_t n = end - at < WEIGHTS_AT_ONCE ? end - at : WEIGHTS_AT_ONCE;
    model_folder_read(w->from, head, at, n, DT_F32, a);
    model_folder_read(w->from, table, at, n, DT_F32, b);
    same = !memcmp(a, b, sizeof *a * (size_t)n);
  }
  free(a);
  free(b);
  if (!same)
    fail(FAIL_INPUT,
         "%s: '%s' differs from '%s', to which config.json ties it (tie_word_embeddings)\n"
         "help: tie_word_embeddings: false in config.json if both were trained, or files without '%s'",
         path_of(w), head->name, table->name, head->name);
}

void weights_load(const Weights *w, Engine *engine, Dev *dev, Comm *comm) {
  const StateTable *states = engine_states(engine);
  Why why;
  weights_check_head(w, comm);
  model_folder_begin(w->from, comm);
  for (int p = 0; p < states->nparams; p++) {
    WeightRange range = {.dev = dev, .from = w->from, .tensor = w->of[p]};
    if (range.tensor)
      states_put(engine, SLOT_PARAM, p, read_weights, &range);
    else
      engine_init_param(engine, p, (uint64_t)w->config->run.seed);
  }
  if (!try_model_folder_end(w->from, &why))
    fail(FAIL_INPUT, "%s damaged: %s\nhelp: use another checkpoint; hpctrain ckpt ls lists them", path_of(w), why.text);
  comm_barrier(comm);
}
