/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/import.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/train/groups.h"
#include "src/train/setup.h"
#include "src/train/states.h"
#include "src/train/weights.h"

enum {
  THREADS_MOST = 8,
  PART = 4 << 20
}; /* PART: bytes that are read and written at a time; the next ones are on their way meanwhile */

/* The first weight that cannot be imported, of those that this rank's threads have seen. */
typedef struct Spoilt {
  atomic_bool any;
  Why why;
} Spoilt;

/* The range of a tensor that this rank reads.  What cannot be imported is told in the end, when nobody waits for anybody. */
typedef struct Source {
  const ModelFolder *from;
  const SafeTensor *tensor;
  const struct Source *next; /* to be read after it; NULL: the last */
  DType dtype;
  int64_t first, n;
  Spoilt *spoilt;
} Source;

static void feed(void *self, CkptTake *take, void *taker) {
  const Source *s = self;
  int64_t most = PART / (int64_t)dtype_size(s->dtype);
  void *part = xmalloc(PART);
  Why why;
  for (int64_t at = 0; at < s->n; at += most) {
    int64_t n = s->n - at < most ? s->n - at : most;
    model_folder_soon(s->from, s->tensor, s->first + at + n, s->n - at - n < 4 * most ? s->n - at - n : 4 * most);
    if (at + n == s->n && s->next) model_folder_soon(s->from, s->next->tensor, s->next->first, 4 * most);
    if (!s->spoilt->any && !try_model_folder_read(s->from, s->tensor, s->first + at, n, s->dtype, part, &why) &&
        !atomic_exchange(&s->spoilt->any, true))
      s->spoilt->why = why;
    take(taker, at, n, part);
  }
  free(part);
}

/* A rank's share is a range of all bytes, in the order of the files. */
typedef struct Share {
  int64_t first, end; /* bytes */
} Share;

static int64_t clip(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

static CkptTensor tensor_of(Arena *arena, const ModelFolder *from, const SafeTensor *t, int64_t before, Share share,
                            Spoilt *spoilt) {
  DType dtype;
  if (!safe_type_dtype(t->type, &dtype) || !t->n)
    fail(FAIL_INPUT,
         "%s: tensor '%s' %s%s\nhelp: what is imported is F32, BF16 or F16, and I64, I32, I16, U8 or BOOL beside weights",
         model_folder_file(from, t), t->name, t->n ? "is " : "is empty", t->n ? safe_type_name(t->type) : "");
  int64_t size = (int64_t)dtype_size(dtype);
  int64_t first = clip((share.first - before + size - 1) / size, t->n), end = clip((share.end - before + size - 1) / size, t->n);
  if (share.first < before) first = 0;
  if (share.end < before) end = 0;
  CkptTensor tensor = {.path = arena_printf(arena, "/model/%s", t->name), .dtype = dtype, .rank = t->rank};
  memcpy(tensor.shape, t->shape, sizeof tensor.shape);
  if (end <= first) return tensor;
  Source *source = arena_new(arena, Source);
  CkptPiece *piece = arena_new(arena, CkptPiece);
  *source = (Source){.from = from, .tensor = t, .dtype = dtype, .first = first, .n = end - first, .spoilt = spoilt};
  *piece = (CkptPiece){.first = first, .n = end - first, .feed = feed, .self = source};
  tensor.pieces = piece;
  tensor.n_pieces = 1;
  return tensor;
}

static const CkptTensor *tensors_of(Arena *arena, const ModelFolder *from, int rank, int ranks, Imported *done, Spoilt *spoilt) {
  int n = model_folder_n(from);
  CkptTensor *tensors = arena_array(arena, CkptTensor, n + 1);
  Source *last = NULL;
  int64_t total = 0, before = 0;
  for (int i = 0; i < n; i++) total += (int64_t)model_folder_at(from, i)->nbytes;
  int64_t each = total / ranks + 1;
  Share share = {each * rank, rank == ranks - 1 ? total : each * (rank + 1)};
  for (int i = 0; i < n; i++) {
    tensors[i] = tensor_of(arena, from, model_folder_at(from, i), before, share, spoilt);
    before += (int64_t)model_folder_at(from, i)->nbytes;
    if (!tensors[i].n_pieces) continue;
    Source *source = tensors[i].pieces->self;
    if (last) last->next = source;
    last = source;
  }
  done->tensors = n;
  done->nbytes = total;
  return tensors;
}

/* The papers, how the files are laid out, and the model as checkpoints tell it. */
static const CkptText *texts_of(Arena *arena, const ModelFolder *from, const ModelConfig *model, int *n) {
  const Safetensors *files = model_folder_files(from);
  const CkptText *papers = model_folder_papers(from, n);
  CkptText *texts = arena_array(arena, CkptText, *n + safetensors_files(files) + 2), *t = texts + *n;
  size_t size;
  memcpy(texts, papers, sizeof *texts * (size_t)*n);
  for (int i = 0; i < safetensors_files(files); i++, t++) {
    const char *path = safetensors_path(files, i);
    t->text = safetensors_header(files, i, arena, &t->n);
    t->name = arena_printf(arena, MODEL_FILES "%s", strrchr(path, '/') + 1);
  }
  char *index = file_read(arena_printf(arena, "%s/" MODEL_INDEX, model_folder_path(from)), &size);
  if (index && size) {
    char *copy = arena_alloc(arena, size + 1);
    memcpy(copy, index, size);
    *t++ = (CkptText){MODEL_FILES MODEL_INDEX, copy, size};
  }
  free(index);
  *t++ = (CkptText){"model", states_model_text(arena, model)};
  *n = (int)(t - texts);
  return texts;
}

static ModelConfig model_of(Arena *arena, const char *from, Text *warnings) {
  if (model_folder_is_ckpt(from))
    fail(FAIL_INPUT, "%s is a checkpoint already\nhelp: model.from: %s starts a run from it; hpctrain ckpt copy copies it", from,
         from);
  HfConfig hf = hf_config_read(arena, from);
  for (int i = 0; i < hf.n_warnings; i++) text_printf(warnings, "%s\n", hf.warnings[i]);
  return setup_model_from_hf(&hf);
}

/* It is carried along all the same: whoever trains or generates asks again. */
static void look_at_tokenizer(const char *from, int64_t vocab, Text *warnings) {
  Tokenizer *t;
  if (!tokenizer_is_there(from) || !try_tokenizer_open(from, NULL, &t, NULL)) return;
  if (tokenizer_vocab(t) > vocab)
    text_printf(warnings, "%s has %lld ids, the model's vocabulary %lld: some have no row of the embedding\n", tokenizer_path(t),
                (long long)tokenizer_vocab(t), (long long)vocab);
  tokenizer_close(t);
}

static void refuse_used(Arena *arena, const char *to) {
  int n;
  ckpt_list(arena, to, &n);
  if (n) fail(FAIL_INPUT, "%s has checkpoints\nhelp: another folder", to);
  if (!access(arena_printf(arena, "%s/" MODEL_CONFIG, to), F_OK)) /* whose readers would see the checkpoint alone */
    fail(FAIL_INPUT, "%s is a Hugging Face folder\nhelp: another folder for the checkpoint", to);
}

/* What was written is of no use. */
static _Noreturn void take_back(Arena *arena, Comm *comm, const char *to, const char *why) {
  if (comm_rank(comm) == 0) try_tree_remove(ckpt_path(arena, to, 0, ""), NULL);
  if (comm_rank(comm) == 0) rmdir(to); /* if nothing else is in it */
  comm_barrier(comm);
  fail(FAIL_INPUT, "%s", why);
}

Imported import_folder(Arena *arena, Comm *comm, const char *from, const char *to, Text *warnings) {
  Imported done;
  Spoilt bad = {false};
  Why why;
  int threads = comm_core_share(comm);
  refuse_used(arena, to);
  comm_barrier(comm); /* everybody has looked before anybody writes */
  ModelConfig model = model_of(arena, from, warnings);
  if (comm_rank(comm) == 0) look_at_tokenizer(from, model.vocab, warnings);
  ModelFolder *folder = model_folder_open(from);
  comm_agree(comm, model_folder_hash(folder), "the files that are imported");
  weights_check_head(weights_open(arena, folder, NULL, members_named(arena, &model)), comm);
  int64_t zero = 0;
  bool first = comm_rank(comm) == 0;
  int n = 0;
  CkptTensor *tensors = (CkptTensor *)tensors_of(arena, folder, comm_rank(comm), comm_size(comm), &done, &bad);
  tensors[done.tensors] =
      (CkptTensor){.path = "/state/step", .dtype = DT_I64, .pieces = &(CkptPiece){.n = 1, .at = &zero}, .n_pieces = first};
  const CkptText *texts = first ? texts_of(arena, folder, &model, &n) : NULL;
  CkptText facts[] = {{"imported", from}, {"ranks", arena_printf(arena, "%d", comm_size(comm))}, {"strategy", "import"}};
  CkptSave save = {.folder = to,
                   .tensors = tensors,
                   .n_tensors = done.tensors + 1,
                   .texts = texts,
                   .n_texts = n,
                   .facts = facts,
                   .n_facts = 3,
                   .direct = true,
                   .threads = threads < THREADS_MOST ? threads : THREADS_MOST};
  if (!try_ckpt_write(comm, &save, &why))
    fail(FAIL_MACHINE, "%s is not imported: %s\nhelp: make room, or give another folder", from, why.text);
  if (comm_any_reason(comm, bad.any, bad.why.text, sizeof bad.why.text)) take_back(arena, comm, to, bad.why.text);
  model_folder_close(folder);
  done.step = ckpt_path(arena, to, 0, "");
  return done;
}
