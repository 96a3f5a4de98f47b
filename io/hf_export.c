/* SPDX-License-Identifier: Apache-2.0 */
#include "io/hf_export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/hf_papers.h"
#include "io/json.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/base/vec.h"

enum { PART = 1 << 20 }; /* elements that are read, converted and written at a time */

/* A tensor file to be. */
typedef struct OutFile {
  const char *name, *header; /* header NULL: it follows from the tensors */
  size_t header_n;
  VEC(const SafeTensor *) tensors; /* of the source, in order */
  int64_t nbytes;
} OutFile;

typedef struct Export {
  Arena *arena;
  Comm *comm;
  const HfExport *asked;
  ModelFolder *from;
  const char *to, *aside;
  int dtype; /* HF_AS_IS: each tensor's own */
  VEC(OutFile) files;
  Why why; /* what this rank found that cannot be written; "": all is well so far */
} Export;

static DType type_of(const Export *e, const SafeTensor *t) {
  DType own;
  CHECK(safe_type_dtype(t->type, &own)); /* checkpoints have no others */
  return e->dtype == HF_AS_IS || !dtype_is_float(own) ? own : (DType)e->dtype;
}

/* --- how it is laid out --------------------------------------------------------------------------------------------------- */

static bool is_alike(const SafeTensor *a, const SafeTensor *b) {
  DType x, y;
  bool alike = a && safe_type_dtype(a->type, &x) && safe_type_dtype(b->type, &y) && x == y && a->rank == b->rank;
  for (int k = 0; alike && k < a->rank; k++) alike = a->shape[k] == b->shape[k];
  return alike;
}

/* One of the files as they were imported; its text is the header. */
static void take_file(Export *e, const char *name, const char *header, size_t n) {
  Why why;
  OutFile file = {.name = name, .header = header, .header_n = n};
  Safetensors *layout = try_safetensors_parse(name, header, n, &why);
  const char *base = strchr(name, '/') ? NULL : name;
  for (int i = 0; layout && base && i < safetensors_n(layout); i++) {
    const SafeTensor *want = safetensors_at(layout, i), *is = model_folder_find(e->from, want->name);
    if (!is_alike(is, want)) base = NULL;
    vec_push(e->arena, &file.tensors, is);
    file.nbytes += (int64_t)want->nbytes;
  }
  if (!layout || !base)
    fail(FAIL_INPUT, "%s: the layout of %s does not fit its tensors\nhelp: import it again, or give --shard-size",
         model_folder_path(e->from), name);
  safetensors_close(layout);
  vec_push(e->arena, &e->files, file);
}

/* False: this is no import. */
static bool lay_as_imported(Export *e) {
  const Ckpt *c = model_folder_ckpt(e->from);
  static const char start[] = "/run/" MODEL_FILES;
  int tensors = 0;
  for (int i = 0; i < ckpt_n(c); i++) {
    const char *path = ckpt_at(c, i)->path;
    size_t n;
    if (strncmp(path, start, strlen(start)) || !text_ends(path, ".safetensors")) continue;
    const char *text = ckpt_text_bytes(c, e->arena, path + strlen("/run/"), &n);
    if (text) take_file(e, path + strlen(start), text, n);
  }
  for (int i = 0; i < e->files.n; i++) tensors += e->files.at[i].tensors.n;
  if (e->files.n && tensors != model_folder_n(e->from))
    fail(FAIL_INPUT, "%s: its layout has %d tensors, it has %d\nhelp: import it again, or give --shard-size",
         model_folder_path(e->from), tensors, model_folder_n(e->from));
  return e->files.n > 0;
}

/* Numbers in names by their value: blocks in their order. */
static int by_name(const void *a, const void *b) {
  return strverscmp((*(const SafeTensor *const *)a)->name, (*(const SafeTensor *const *)b)->name);
}

static void lay_anew(Export *e) {
  int n = model_folder_n(e->from);
  int64_t most = e->asked->shard_nbytes ? e->asked->shard_nbytes : HF_SHARD_NBYTES;
  const SafeTensor **all = arena_array(e->arena, const SafeTensor *, n);
  for (int i = 0; i < n; i++) all[i] = model_folder_at(e->from, i);
  qsort(all, (size_t)n, sizeof *all, by_name);
  for (int i = 0; i < n; i++) {
    int64_t nbytes = all[i]->n * (int64_t)dtype_size(type_of(e, all[i]));
    OutFile *last = e->files.n ? &e->files.at[e->files.n - 1] : NULL;
    if (!last || last->nbytes + nbytes > most) {
      vec_push(e->arena, &e->files, (OutFile){0});
      last = &e->files.at[e->files.n - 1];
    }
    vec_push(e->arena, &last->tensors, all[i]);
    last->nbytes += nbytes;
  }
  for (int i = 0; i < e->files.n; i++)
    e->files.at[i].name =
        e->files.n == 1 ? "model.safetensors" : arena_printf(e->arena, "model-%05d-of-%05d.safetensors", i + 1, e->files.n);
}

/* --- writing -------------------------------------------------------------------------------------------------------------- */

static SafeWriter *open_file(const Export *e, const OutFile *file) {
  const char *path = arena_printf(e->arena, "%s/%s", e->aside, file->name);
  if (file->header) return safe_writer_open_as(path, file->header, file->header_n, (uint64_t)file->nbytes);
  SafeTensor *tensors = arena_array(e->arena, SafeTensor, file->tensors.n);
  for (int i = 0; i < file->tensors.n; i++) {
    tensors[i] = *file->tensors.at[i];
    tensors[i].type = safe_type_of(type_of(e, &tensors[i]));
  }
  return safe_writer_open(path, tensors, file->tensors.n);
}

/* A file with a weight that cannot be is left unfinished. */
static void write_file(Export *e, const OutFile *file) {
  SafeWriter *w = open_file(e, file);
  char *part = xmalloc(PART * sizeof(int64_t));
  bool ok = true;
  for (int i = 0; ok && i < file->tensors.n; i++) {
    const SafeTensor *t = file->tensors.at[i];
    DType type = type_of(e, t);
    for (int64_t at = 0; ok && at < t->n; at += PART) {
      int64_t n = t->n - at < PART ? t->n - at : PART;
      ok = try_model_folder_read(e->from, t, at, n, type, part, &e->why);
      if (ok) safe_writer_add(w, part, (size_t)n * dtype_size(type));
    }
  }
  free(part);
  if (ok) safe_writer_close(w);
}

static void write_index(const Export *e) {
  Why why;
  const char *path = arena_printf(e->arena, "%s/" MODEL_INDEX, e->aside);
  size_t n;
  const char *was =
      e->files.at[0].header ? ckpt_text_bytes(model_folder_ckpt(e->from), e->arena, MODEL_FILES MODEL_INDEX, &n) : NULL;
  if (was && !try_file_write(path, was, n, &why)) fail(FAIL_MACHINE, "%s\nhelp: make room", why.text);
  if (was || e->files.n == 1) return;
  json_t *map = json_object();
  json_int_t total = 0;
  for (int i = 0; i < e->files.n; i++) {
    const OutFile *file = &e->files.at[i];
    total += file->nbytes;
    for (int k = 0; k < file->tensors.n; k++) CHECK(!json_object_set_new(map, file->tensors.at[k]->name, json_string(file->name)));
  }
  json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
  CHECK(root);
  if (!try_json_write_take(path, root, &why)) fail(FAIL_MACHINE, "%s\nhelp: make room", why.text);
}

static void write_all(const Export *e, const CkptText *papers, int n) {
  Why why;
  for (int i = 0; i < n; i++)
    if (!try_file_write(arena_printf(e->arena, "%s/%s", e->aside, papers[i].name), papers[i].text, papers[i].n, &why))
      fail(FAIL_MACHINE, "%s\nhelp: make room", why.text);
}

/* What a tokenizer is needed for, once its files lie there; one that cannot be opened tells no ids. */
static void write_papers(const Export *e) {
  Why why;
  Tokenizer *t = NULL;
  int n;
  const CkptText *papers = hf_papers(e->arena, e->from, e->dtype, &n);
  write_all(e, papers, n);
  if (tokenizer_is_there(e->aside)) try_tokenizer_open(e->aside, NULL, &t, &why);
  papers = hf_own_papers(e->arena, e->from, e->dtype, t, &n);
  write_all(e, papers, n);
  tokenizer_close(t);
}

/* --- the folder ----------------------------------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
  struct stat info;
  return !lstat(path, &info);
}

static bool is_model(Arena *arena, const char *path) { return is_there(arena_printf(arena, "%s/" MODEL_CONFIG, path)); }

void hf_export_check(const char *to) {
  if (is_there(to))
    fail(FAIL_INPUT, "%s is there already\nhelp: another folder; hpctrain export --force replaces a model's folder", to);
}

static void make_aside(const Export *e) {
  Why why;
  if (is_there(e->to) && !e->asked->force) hf_export_check(e->to);
  if (is_there(e->to) && !is_model(e->arena, e->to))
    fail(FAIL_INPUT, "%s is not a model's folder, and is not replaced\nhelp: another folder", e->to);
  if (!try_tree_remove(e->aside, &why) || !try_folder_make(e->aside, &why))
    fail(FAIL_MACHINE, "%s\nhelp: another folder", why.text);
}

static void take_name(const Export *e) {
  Why why;
  const char *old = arena_printf(e->arena, "%s.old", e->to);
  if (!try_sync(e->aside, &why) || !try_tree_remove(old, &why)) fail(FAIL_MACHINE, "%s\nhelp: another folder", why.text);
  if ((is_there(e->to) && rename(e->to, old)) || rename(e->aside, e->to))
    fail(FAIL_MACHINE, "%s: %s\nhelp: it is whole as %s; move it", e->to, strerror(errno), e->aside);
  if (!try_sync_parent(e->to, &why) || !try_tree_remove(old, &why)) fail(FAIL_MACHINE, "%s\nhelp: the export is whole", why.text);
}

static const char *without_slashes(Arena *arena, const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  return arena_strndup(arena, path, n);
}

static void open_source(Export *e) {
  const char *from = e->asked->from;
  e->from = model_folder_open(from);
  if (!model_folder_ckpt(e->from))
    fail(FAIL_INPUT,
         "%s is a Hugging Face folder already\nhelp: give the folder of a run or of one of its steps; hpctrain import makes one of "
         "it",
         from);
  if (!model_folder_n(e->from)) fail(FAIL_INPUT, "%s has no weights\nhelp: use another checkpoint", model_folder_path(e->from));
  comm_agree(e->comm, model_folder_hash(e->from), "the checkpoint that is exported");
}

HfExported hf_export(Arena *arena, Comm *comm, const HfExport *asked) {
  Export e = {.arena = arena_open(), .comm = comm, .asked = asked, .to = without_slashes(arena, asked->to)};
  Why why;
  int rank = comm_rank(comm);
  e.aside = arena_printf(e.arena, "%s.tmp", e.to);
  open_source(&e);
  e.dtype = asked->dtype;
  if (e.dtype != HF_AS_IS || asked->shard_nbytes || !lay_as_imported(&e)) {
    if (e.dtype == HF_AS_IS) e.dtype = hf_own_type(e.arena, e.from);
    lay_anew(&e);
  }
  if (rank == 0) make_aside(&e);
  comm_barrier(comm);
  model_folder_begin(e.from, comm);
  HfExported done = {.files = e.files.n, .tensors = model_folder_n(e.from)};
  for (int i = 0; i < e.files.n; i++) {
    if (i % comm_size(comm) == rank && !*e.why.text) write_file(&e, &e.files.at[i]);
    done.nbytes += e.files.at[i].nbytes;
  }
  bool spoilt = comm_any_reason(comm, *e.why.text, e.why.text, sizeof e.why.text), whole = try_model_folder_end(e.from, &why);
  if ((spoilt || !whole) && rank == 0) try_tree_remove(e.aside, NULL);
  comm_barrier(comm);
  if (whole && spoilt) fail(FAIL_INPUT, "%s", e.why.text);
  if (!whole)
    fail(FAIL_INPUT, "%s damaged: %s\nhelp: use another checkpoint; hpctrain ckpt ls lists them", model_folder_path(e.from),
         why.text);
  if (rank == 0) {
    write_papers(&e);
    write_index(&e);
    take_name(&e);
  }
  done.type = arena_strdup(arena, e.dtype == HF_AS_IS ? "types as imported" : hf_type_name(e.dtype));
  comm_barrier(comm);
  model_folder_close(e.from);
  arena_close(e.arena);
  return done;
}
