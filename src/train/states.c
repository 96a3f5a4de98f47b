/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank writes and reads only its own ranges of the whole tensors. */
#include "src/train/states.h"

#include <string.h>

#include "io/hf_config.h"
#include "src/train/setup.h"

static const char *const slot_folders[] = {[SLOT_PARAM] = "/model", [SLOT_M] = "/optim/m", [SLOT_V] = "/optim/v"};

static const char *tensor_path(Arena *arena, StateSlot slot, const StateParam *param) {
  return arena_printf(arena, "%s/%s", slot_folders[slot], param->name);
}

/* Where the part of a parameter that this rank saves lies in its unit's vector. */
typedef struct Source {
  const Engine *engine;
  StateSlot slot;
  int unit;
  int64_t at, n;
} Source;

static void feed(void *self, CkptTake *take, void *taker) {
  const Source *s = self;
  engine_get(s->engine, s->slot, s->unit, s->at, s->n, take, taker);
}

static const char *scalar_path(Arena *arena, const StateRow *row) { return arena_printf(arena, "/state/%s", row->name); }

static CkptTensor tensor_of(Arena *arena, const Engine *engine, StateSlot slot, int p) {
  const StateTable *states = engine_states(engine);
  const StateParam *param = &states->params[p];
  CkptPiece *piece = arena_new(arena, CkptPiece);
  Source *source = arena_new(arena, Source);
  *source = (Source){engine, slot, param->unit, 0, 0};
  *piece = (CkptPiece){.feed = feed, .self = source};
  if (state_piece_once(states, p, engine_rank(engine), &piece->first, &piece->n, &source->at))
    source->n = piece->n;
  else
    piece->n = 0;
  CkptTensor t = {.path = tensor_path(arena, slot, param),
                  .dtype = DT_F32,
                  .rank = param->shape.rank,
                  .pieces = piece,
                  .n_pieces = piece->n > 0};
  memcpy(t.shape, param->shape.dim, sizeof *t.shape * (size_t)t.rank);
  return t;
}

bool try_states_save(Comm *comm, const Engine *engine, const StatesSave *save, Why *why) {
  Arena *arena = arena_open();
  const StateTable *states = engine_states(engine);
  bool first = comm_rank(comm) == 0;
  CkptTensor *tensors = arena_array(arena, CkptTensor, STATE_SLOTS * states->nparams + states->nrows), *t = tensors;
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int p = 0; p < states->nparams; p++)
      if (engine_holds(engine, slot, states->params[p].unit)) *t++ = tensor_of(arena, engine, slot, p);
  for (int i = 0; i < states->nrows; i++) {
    if (states->rows[i].slot != SLOT_SCALAR) continue;
    float *value = arena_new(arena, float);
    CkptPiece *piece = arena_new(arena, CkptPiece);
    *value = engine_scalar(engine, states->rows[i].name);
    *piece = (CkptPiece){.n = 1, .at = value};
    *t++ = (CkptTensor){.path = scalar_path(arena, &states->rows[i]), .dtype = DT_F32, .pieces = piece, .n_pieces = first};
  }
  CkptPiece step = {.n = 1, .at = &save->step};
  *t++ = (CkptTensor){.path = "/state/step", .dtype = DT_I64, .pieces = &step, .n_pieces = first};
  CkptSave all = {save->folder, save->step, tensors, (int)(t - tensors), save->texts, save->n_texts, save->facts, save->n_facts};
  bool ok = try_ckpt_write(comm, &all, why);
  arena_close(arena);
  return ok;
}

static void check_shape(const Ckpt *ckpt, const char *path, const Shape *want) {
  const CkptEntry *e = ckpt_find(ckpt, path);
  bool same = e && !e->is_text && e->rank == want->rank;
  for (int i = 0; same && i < want->rank; i++) same = e->shape[i] == want->dim[i];
  if (!same)
    fail(FAIL_INPUT, "%s: %s %s\nhelp: the checkpoint is of another model", ckpt_folder(ckpt), path,
         e ? "has another shape than the model's" : "is not there");
}

/* A range of a tensor of a checkpoint. */
typedef struct Saved {
  const Ckpt *ckpt;
  const char *path;
  int64_t first;
} Saved;

static void read_part(void *self, int64_t first, int64_t n, void *to) {
  const Saved *saved = self;
  ckpt_read(saved->ckpt, saved->path, DT_F32, saved->first + first, n, to);
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

void states_load(Engine *engine, const Ckpt *ckpt) {
  Arena *arena = arena_open();
  const StateTable *states = engine_states(engine);
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int p = 0; p < states->nparams; p++) {
      const StateParam *param = &states->params[p];
      Saved saved = {ckpt, tensor_path(arena, slot, param), 0};
      int64_t n, at;
      if (!engine_holds(engine, slot, param->unit)) continue;           /* moments, of an engine that does not train */
      if (slot != SLOT_PARAM && !ckpt_find(ckpt, saved.path)) continue; /* of what was frozen: they start at zero */
      check_shape(ckpt, saved.path, &param->shape);
      if (!state_piece(states, p, engine_rank(engine), &saved.first, &n, &at)) continue;
      engine_put(engine, slot, param->unit, at, n, read_part, &saved);
    }
  for (int i = 0; i < states->nrows; i++)
    if (states->rows[i].slot == SLOT_SCALAR) load_scalar(engine, ckpt, &states->rows[i], arena);
  arena_close(arena);
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
  if (!text || !try_hf_config_parse(arena, name, text, &hf, &why))
    fail(FAIL_INPUT, "%s: %s\nhelp: use a checkpoint that hpctrain train has saved", name, why.text);
  return setup_model_from_hf(&hf);
}
