/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank writes and reads only its own ranges of the whole tensors; what several hold is written and read by one of them. */
#include "src/train/states.h"

#include <stdlib.h>
#include <string.h>

#include "io/hf_config.h"
#include "src/train/setup.h"

static const char *const slot_folders[] = {[SLOT_PARAM] = "/model", [SLOT_M] = "/optim/m", [SLOT_V] = "/optim/v"};

static const char *tensor_path(Arena *arena, StateSlot slot, const StateParam *param) {
  return arena_printf(arena, "%s/%s", slot_folders[slot], param->name);
}

/* What this rank saves of a parameter, or a scalar: in its unit's vector, or where that was copied to. */
typedef struct Source {
  const Engine *engine;
  const Staging *staging; /* NULL: the engine's own */
  EngineStaged staged;
  StateSlot slot;
  int unit;
  int64_t at, n, first; /* in the vector; of the tensor */
} Source;

static void feed(void *self, CkptTake *take, void *taker) {
  const Source *s = self;
  if (s->staging)
    staging_get(s->staging, s->staged.part, s->staged.lower, s->first, take, taker);
  else
    engine_get(s->engine, s->slot, s->unit, s->at, s->n, take, taker);
}

static const char *scalar_path(Arena *arena, const StateRow *row) { return arena_printf(arena, "/state/%s", row->name); }

/* All tensors of a checkpoint, with this rank's pieces of them. */
typedef struct Tensors {
  Arena *arena;
  const Engine *engine;
  Staging *staging; /* NULL: of the engine's own states */
  CkptTensor *at;
  int n;
} Tensors;

static CkptTensor *add_tensor(Tensors *all, const char *path, DType dtype, const CkptPiece *piece, bool mine) {
  CkptTensor *t = &all->at[all->n++];
  *t = (CkptTensor){.path = path, .dtype = dtype, .pieces = piece, .n_pieces = mine};
  return t;
}

static void add_param(Tensors *all, StateSlot slot, int p) {
  const StateTable *states = engine_states(all->engine);
  const StateParam *param = &states->params[p];
  CkptPiece *piece = arena_new(all->arena, CkptPiece);
  Source *s = arena_new(all->arena, Source);
  *s = (Source){.engine = all->engine, .staging = all->staging, .slot = slot, .unit = param->unit};
  bool mine = state_piece_once(states, p, engine_rank(all->engine), &s->first, &s->n, &s->at);
  if (mine && all->staging) s->staged = engine_stage(all->engine, all->staging, slot, param->unit, s->at, s->n);
  *piece = (CkptPiece){.first = s->first, .n = s->n, .feed = feed, .self = s};
  CkptTensor *t = add_tensor(all, tensor_path(all->arena, slot, param), DT_F32, piece, mine);
  t->rank = param->shape.rank;
  memcpy(t->shape, param->shape.dim, sizeof *t->shape * (size_t)t->rank);
}

static void add_scalar(Tensors *all, const StateRow *row, bool mine) {
  CkptPiece *piece = arena_new(all->arena, CkptPiece);
  Source *s = arena_new(all->arena, Source);
  float *value = arena_new(all->arena, float);
  *s = (Source){.staging = all->staging, .staged = {-1, -1}};
  *piece = (CkptPiece){.n = 1, .feed = feed, .self = s};
  if (mine && all->staging) s->staged.part = staging_add(all->staging, row->name, 0, 1);
  if (!all->staging) {
    *value = engine_scalar(all->engine, row->name);
    piece->at = value;
  }
  add_tensor(all, scalar_path(all->arena, row), DT_F32, piece, mine);
}

static Tensors list_tensors(Arena *arena, const Engine *engine, Staging *staging, bool first, const int64_t *step) {
  const StateTable *states = engine_states(engine);
  Tensors all = {arena, engine, staging, arena_array(arena, CkptTensor, STATE_SLOTS * states->nparams + states->nrows + 1), 0};
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int p = 0; p < states->nparams; p++)
      if (engine_holds(engine, slot, states->params[p].unit)) add_param(&all, slot, p);
  for (int i = 0; i < states->nrows; i++)
    if (states->rows[i].slot == SLOT_SCALAR) add_scalar(&all, &states->rows[i], first);
  CkptPiece *piece = arena_new(arena, CkptPiece);
  *piece = (CkptPiece){.n = 1, .at = step};
  add_tensor(&all, "/state/step", DT_I64, piece, first);
  return all;
}

static CkptSave save_of(const StatesSave *save, const Tensors *tensors) {
  return (CkptSave){.folder = save->folder,
                    .step = save->step,
                    .tensors = tensors->at,
                    .n_tensors = tensors->n,
                    .texts = save->texts,
                    .n_texts = save->n_texts,
                    .facts = save->facts,
                    .n_facts = save->n_facts,
                    .files = save->files};
}

bool try_states_save(Comm *comm, const Engine *engine, const StatesSave *save, Why *why) {
  Arena *arena = arena_open();
  Tensors tensors = list_tensors(arena, engine, NULL, comm_rank(comm) == 0, &save->step);
  CkptSave all = save_of(save, &tensors);
  bool ok = try_ckpt_write(comm, &all, why);
  arena_close(arena);
  return ok;
}

struct StatesCopy {
  Staging *staging;
  Tensors tensors;
  int64_t step;
};

StatesCopy *states_copy_open(Arena *arena, const Engine *engine, bool first) {
  StatesCopy *copy = arena_new(arena, StatesCopy);
  copy->staging = engine_staging_open(engine, arena);
  copy->tensors = list_tensors(arena, engine, copy->staging, first, &copy->step);
  return copy;
}

Staging *states_copy_staging(const StatesCopy *copy) { return copy->staging; }

bool try_states_copy_write(Comm *beside, StatesCopy *copy, const StatesSave *save, int threads, Why *why) {
  CkptSave all = save_of(save, &copy->tensors);
  all.direct = true;
  all.threads = threads;
  copy->step = save->step;
  return try_ckpt_write(beside, &all, why);
}

static void check_shape(const Ckpt *ckpt, const char *path, const Shape *want) {
  const CkptEntry *e = ckpt_find(ckpt, path);
  bool same = e && !e->is_text && e->rank == want->rank;
  for (int i = 0; same && i < want->rank; i++) same = e->shape[i] == want->dim[i];
  if (!same)
    fail(FAIL_INPUT, "%s: %s %s\nhelp: the checkpoint is of another model", ckpt_folder(ckpt), path,
         e ? "has another shape than the model's" : "is not there");
}

/* A range of a whole tensor, for a parameter that `holders` ranks want to have: each reads its part of a turn. */
typedef struct Spread {
  Engine *engine;
  int param;
  StatesRead *read;
  void *self;
  int64_t first, holders, me, most; /* most: elements a rank reads in a turn */
  float *mine, *all;
} Spread;

static void read_turn(Spread *s, int64_t first, int64_t n, float *to) {
  int64_t each = (n + s->holders - 1) / s->holders, from = each * s->me, count = n - from < each ? n - from : each;
  if (count > 0) s->read(s->self, first + from, count, s->mine);
  engine_gather_holders(s->engine, s->param, s->mine, sizeof(float) * (size_t)each, s->all);
  memcpy(to, s->all, sizeof(float) * (size_t)n);
}

static void read_spread(void *self, int64_t first, int64_t n, void *to) {
  Spread *s = self;
  int64_t turn = s->holders * s->most;
  first += s->first;
  if (s->holders == 1) s->read(s->self, first, n, to);
  for (int64_t done = 0; s->holders > 1 && done < n; done += turn)
    read_turn(s, first + done, n - done < turn ? n - done : turn, (float *)to + done);
}

/* Elements of all holders' parts of a turn: large reads, and little memory beside the states. */
enum { TURN = 4 << 20 };

void states_put(Engine *engine, StateSlot slot, int param, StatesRead *read, void *self) {
  const StateTable *states = engine_states(engine);
  Spread s = {.engine = engine, .param = param, .read = read, .self = self};
  int64_t n, at;
  if (!state_piece(states, param, engine_rank(engine), &s.first, &n, &at)) return;
  state_holders(states, param, engine_rank(engine), &s.holders, &s.me);
  s.most = TURN / s.holders + 1;
  s.mine = s.holders > 1 ? xmalloc(sizeof(float) * (size_t)s.most) : NULL;
  s.all = s.holders > 1 ? xmalloc(sizeof(float) * (size_t)(s.most * s.holders)) : NULL;
  engine_put(engine, slot, states->params[param].unit, at, n, read_spread, &s);
  free(s.mine);
  free(s.all);
}

static void read_zeros(void *self, int64_t first, int64_t n, void *to) {
  (void)self, (void)first;
  memset(to, 0, sizeof(float) * (size_t)n);
}

/* A tensor of a checkpoint, and what is left to be asked for ahead of what a rank reads by itself. */
typedef struct Saved {
  CkptLoad *load;
  const char *path;
  int64_t asked, end; /* elements of the tensor */
} Saved;

/* Disks read while what they have given is checked and sent to the device. */
static void ask_ahead(Saved *s, int64_t first) {
  enum { WINDOW = 8 << 20, WINDOWS = 3 }; /* elements */
  for (int64_t n; s->asked < s->end && s->asked < first + WINDOWS * WINDOW; s->asked += n) {
    n = s->end - s->asked < WINDOW ? s->end - s->asked : WINDOW;
    ckpt_load_soon(s->load, s->path, s->asked, n);
  }
}

static void read_saved(void *self, int64_t first, int64_t n, float *to) {
  Saved *s = self;
  ask_ahead(s, first);
  ckpt_load_read(s->load, s->path, DT_F32, first, n, to);
}

/* A checkpoint of another precision has no loss scale: that one starts afresh. */
static void load_scalar(Engine *engine, const Ckpt *ckpt, const StateRow *row, Arena *arena) {
  float value;
  const char *path = scalar_path(arena, row);
  bool updates = !strcmp(row->name, "updates"), scale = !strcmp(row->name, "loss_scale");
  if (!engine_holds(engine, SLOT_SCALAR, -1) || (!updates && !ckpt_find(ckpt, path))) return;
  ckpt_read(ckpt, path, DT_F32, 0, 1, &value);
  if (!(value >= (scale ? 1 : 0)) || !(value <= (scale ? SCALE_MOST : 0x1p53)))
    fail(FAIL_INPUT, "%s: %s is %g\nhelp: the file is damaged, or not hpctrain's: use another checkpoint", ckpt_folder(ckpt), path,
         (double)value);
  engine_set_scalar(engine, row->name, value);
}

bool states_has_moments(const Ckpt *ckpt, const char *param) {
  Arena *arena = arena_open();
  bool has = ckpt_find(ckpt, arena_printf(arena, "%s/%s", slot_folders[SLOT_M], param)) != NULL;
  arena_close(arena);
  return has;
}

static void load_param(Engine *engine, const Ckpt *ckpt, CkptLoad *load, StateSlot slot, int p, Arena *arena) {
  const StateTable *states = engine_states(engine);
  const StateParam *param = &states->params[p];
  Saved s = {.load = load, .path = tensor_path(arena, slot, param)};
  int64_t first, n, at, holders, me;
  if (!engine_holds(engine, slot, param->unit)) return; /* moments, of an engine that does not train */
  bool absent = slot != SLOT_PARAM && !ckpt_find(ckpt, s.path);
  if (!absent) check_shape(ckpt, s.path, &param->shape);
  bool mine = state_piece(states, p, engine_rank(engine), &first, &n, &at);
  if (mine && state_holders(states, p, engine_rank(engine), &holders, &me) == HELD_ALONE) s.asked = first, s.end = first + n;
  if (!absent)
    states_put(engine, slot, p, read_saved, &s);
  else if (mine)
    engine_put(engine, slot, param->unit, at, n, read_zeros, NULL);
}

bool try_states_load(Comm *comm, Engine *engine, const Ckpt *ckpt, Why *why) {
  Arena *arena = arena_open();
  const StateTable *states = engine_states(engine);
  CkptLoad *load = ckpt_load_open(comm, ckpt);
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int p = 0; p < states->nparams; p++) load_param(engine, ckpt, load, slot, p, arena);
  for (int i = 0; i < states->nrows; i++)
    if (states->rows[i].slot == SLOT_SCALAR) load_scalar(engine, ckpt, &states->rows[i], arena);
  arena_close(arena);
  return try_ckpt_load_close(load, why);
}

const char *states_model_text(Arena *arena, const ModelConfig *model) {
  HfConfig hf = setup_model_to_hf(model);
  Text text = {0};
  hf_config_print(&hf, &text);
  const char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

ModelConfig states_model(Arena *arena, const Ckpt *ckpt) {
  const char *name = arena_printf(arena, "%s: /run/model", ckpt_folder(ckpt)), *text = ckpt_text(ckpt, arena, "model");
  Why why = {"it is not there"};
  HfConfig hf;
  if (!text || !try_hf_config_parse(arena, name, text, strlen(text), &hf, &why))
    fail(FAIL_INPUT, "%s: %s\nhelp: use a checkpoint that hpctrain train has saved", name, why.text);
  return setup_model_from_hf(&hf);
}
