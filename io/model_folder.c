/* SPDX-License-Identifier: Apache-2.0 */
#include "io/model_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/convert.h"
#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/base/vec.h"

enum { PAPER_MOST = 64 << 20, PAPERS_MOST = 64 };

static const char *const tokenizer_names[] = {"tokenizer*",  "special_tokens_map.json", "vocab.*",    "added_tokens.json",
                                              "merges.txt",  "chat_template*",          "*.tiktoken", "spiece.model",
                                              "tekken.json", "sentencepiece*.model",    "*.jinja",    NULL};
static const char tensors[] = "/model/", texts[] = "/run/", remedy[] = "give a Hugging Face folder, or the folder of a run or step";

typedef VEC(CkptText) Papers;

struct ModelFolder {
  Arena *arena;
  const char *path;
  Safetensors *files; /* or */
  Ckpt *ckpt;
  VEC(SafeTensor) tensors; /* of ckpt, by name */
  Papers papers;
  CkptLoad *load;
  pthread_mutex_t one; /* of load's users */
};

/* --- opening -------------------------------------------------------------------------------------------------------------- */

static bool is_tokenizers(const char *name) {
  for (int i = 0; tokenizer_names[i]; i++)
    if (!fnmatch(tokenizer_names[i], name, FNM_PERIOD)) return true;
  return false;
}

static bool is_paper(const char *name) {
  return is_tokenizers(name) || !strcmp(name, MODEL_CONFIG) || !strcmp(name, MODEL_GENERATION);
}

bool model_paper_is_tokenizers(const CkptText *paper) { return is_tokenizers(paper->name + strlen(MODEL_PAPERS)); }

static int by_paper(const void *a, const void *b) { return strcmp(((const CkptText *)a)->name, ((const CkptText *)b)->name); }

/* The file at path as the paper called name; false: it is not there, or has nothing in it. */
static bool take_file(Arena *arena, Papers *papers, const char *path, const char *name) {
  struct stat info;
  size_t n;
  if (stat(path, &info) || !S_ISREG(info.st_mode) || !info.st_size) return false;
  char *bytes = info.st_size <= PAPER_MOST ? file_read(path, &n) : NULL;
  if (!bytes)
    fail(FAIL_INPUT, "%s: %s\nhelp: a configuration or tokenizer file that can be read, or none", path,
         info.st_size > PAPER_MOST ? "larger than 64 MiB" : strerror(errno));
  char *copy = arena_alloc(arena, n + 1);
  memcpy(copy, bytes, n);
  free(bytes);
  vec_push(arena, papers, (CkptText){arena_printf(arena, MODEL_PAPERS "%s", name), copy, n});
  return true;
}

/* All that `is` says yes to, in the order of names. */
static void take_folder(Arena *arena, Papers *papers, const char *folder, bool (*is)(const char *name)) {
  DIR *dir = opendir(folder);
  if (!dir) fail(FAIL_INPUT, "%s: %s\nhelp: %s", folder, strerror(errno), remedy);
  for (struct dirent *d; (d = readdir(dir));) {
    if (is(d->d_name)) take_file(arena, papers, arena_printf(arena, "%s/%s", folder, d->d_name), d->d_name);
    if (papers->n > PAPERS_MOST) fail(FAIL_INPUT, "%s: more than %d tokenizer files\nhelp: %s", folder, PAPERS_MOST, remedy);
  }
  closedir(dir);
  if (papers->n) qsort(papers->at, (size_t)papers->n, sizeof *papers->at, by_paper);
}

const CkptText *model_tokenizer_papers(Arena *arena, const char *from, const Tokenizer *t, int *n) {
  static const char *const beside[] = {"tokenizer_config.json", "special_tokens_map.json"};
  const char *path = tokenizer_path(t), *slash = strrchr(path, '/'), *name = tokenizer_usual_name(t);
  struct stat info;
  Papers papers = {0};
  if (name && !stat(from, &info) && S_ISDIR(info.st_mode)) {
    take_folder(arena, &papers, from, is_tokenizers);
  } else if (name) {
    take_file(arena, &papers, path, name);
    for (int i = 0; i < 2 && slash && !strcmp(slash + 1, name); i++)
      take_file(arena, &papers, arena_printf(arena, "%.*s/%s", (int)(slash - path), path, beside[i]), beside[i]);
  }
  *n = papers.n;
  return papers.at;
}

static void open_files(ModelFolder *m) {
  Why why;
  m->files = try_safetensors_open(m->path, &why);
  if (!m->files && strcmp(ckpt_steps_folder(m->arena, m->path), m->path))
    fail(FAIL_INPUT, "%s: no checkpoint there\nhelp: this run has saved nothing yet (checkpoint.every; touch SAVE in its folder)",
         m->path);
  if (!m->files)
    fail(FAIL_INPUT,
         "%s\nhelp: give the folder of a run that has saved, of one of its steps, or a Hugging Face folder; copy that again if it "
         "was cut short",
         why.text);
  take_folder(m->arena, &m->papers, m->path, is_paper);
}

const CkptText *model_papers_of(Arena *arena, const Ckpt *c, int *n) {
  Papers papers = {0};
  size_t nbytes, start = strlen(texts), all = start + strlen(MODEL_PAPERS);
  for (int i = 0; i < ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i);
    if (!e->is_text || strncmp(e->path, texts, start) || strncmp(e->path + start, MODEL_PAPERS, all - start)) continue;
    const char *text = ckpt_text_bytes(c, arena, e->path + start, &nbytes);
    vec_push(arena, &papers, (CkptText){arena_strdup(arena, e->path + start), text, nbytes});
  }
  *n = papers.n;
  return papers.at;
}

static void open_ckpt(ModelFolder *m) {
  Why why;
  m->ckpt = try_ckpt_open(m->path, &why);
  if (!m->ckpt) ckpt_fail_step(m->path, why.text);
  m->papers.at = (CkptText *)model_papers_of(m->arena, m->ckpt, &m->papers.n);
  for (int i = 0; i < ckpt_n(m->ckpt); i++) {
    const CkptEntry *e = ckpt_at(m->ckpt, i);
    if (e->is_text || strncmp(e->path, tensors, strlen(tensors))) continue;
    SafeTensor t = {e->path + strlen(tensors), safe_type_of(e->dtype), e->rank, {0}, e->n};
    memcpy(t.shape, e->shape, sizeof t.shape);
    vec_push(m->arena, &m->tensors, t);
  }
}

static bool is_there(const char *folder, const char *name) {
  struct stat info;
  Arena *arena = arena_open();
  bool there = !stat(arena_printf(arena, "%s/%s", folder, name), &info);
  arena_close(arena);
  return there;
}

/* The step that is meant; NULL: the folder holds none. */
static const char *step_of(Arena *arena, const char *path) {
  int n;
  if (is_there(path, "manifest.json")) return path;
  if (is_there(path, MODEL_CONFIG)) return NULL;
  const int64_t *steps = ckpt_list(arena, path, &n);
  return n ? ckpt_path(arena, ckpt_steps_folder(arena, path), steps[n - 1], "") : NULL;
}

bool model_folder_is_ckpt(const char *path) {
  Arena *arena = arena_open();
  bool is = step_of(arena, path) != NULL;
  arena_close(arena);
  return is;
}

ModelFolder *model_folder_open(const char *path) {
  Arena *arena = arena_open();
  ModelFolder *m = arena_new(arena, ModelFolder);
  *m = (ModelFolder){.arena = arena, .path = arena_strdup(arena, path), .one = PTHREAD_MUTEX_INITIALIZER};
  const char *step = step_of(arena, m->path);
  if (step) {
    m->path = step;
    open_ckpt(m);
  } else {
    open_files(m);
  }
  return m;
}

void model_folder_close(ModelFolder *m) {
  if (!m) return;
  safetensors_close(m->files);
  ckpt_close(m->ckpt);
  arena_close(m->arena);
}

/* --- what is in it -------------------------------------------------------------------------------------------------------- */

const char *model_folder_path(const ModelFolder *m) { return m->path; }
const Ckpt *model_folder_ckpt(const ModelFolder *m) { return m->ckpt; }
const Safetensors *model_folder_files(const ModelFolder *m) { return m->files; }

int model_folder_n(const ModelFolder *m) { return m->ckpt ? m->tensors.n : safetensors_n(m->files); }

const SafeTensor *model_folder_at(const ModelFolder *m, int i) {
  CHECK(i >= 0 && i < model_folder_n(m));
  return m->ckpt ? &m->tensors.at[i] : safetensors_at(m->files, i);
}

static int by_name(const void *a, const void *b) { return strcmp(((const SafeTensor *)a)->name, ((const SafeTensor *)b)->name); }

const SafeTensor *model_folder_find(const ModelFolder *m, const char *name) {
  SafeTensor key = {.name = name};
  if (!m->ckpt) return safetensors_find(m->files, name);
  return m->tensors.n ? bsearch(&key, m->tensors.at, (size_t)m->tensors.n, sizeof key, by_name) : NULL;
}

const char *model_folder_file(const ModelFolder *m, const SafeTensor *t) {
  return m->ckpt ? m->path : safetensors_file(m->files, t);
}

uint64_t model_folder_hash(const ModelFolder *m) {
  Sha256 sha;
  sha256_init(&sha);
  sha256_add_text(&sha, m->path);
  for (int i = 0; i < model_folder_n(m); i++) {
    const SafeTensor *t = model_folder_at(m, i);
    sha256_add_text(&sha, t->name);
    sha256_add(&sha, &t->type, sizeof t->type);
    sha256_add(&sha, t->shape, sizeof *t->shape * (size_t)t->rank);
  }
  return sha256_u64(&sha);
}

const CkptText *model_folder_papers(const ModelFolder *m, int *n) {
  *n = m->papers.n;
  return m->papers.at;
}

const char *model_folder_paper(const ModelFolder *m, const char *name) {
  for (int i = 0; i < m->papers.n; i++)
    if (!strcmp(m->papers.at[i].name + strlen(MODEL_PAPERS), name)) return m->papers.at[i].text;
  return NULL;
}

const char *model_folder_config(const ModelFolder *m) {
  const char *text = model_folder_paper(m, MODEL_CONFIG);
  if (!text && m->ckpt) text = ckpt_text(m->ckpt, m->arena, "model");
  if (!text) fail(FAIL_INPUT, "%s has no " MODEL_CONFIG "\nhelp: %s", m->path, remedy);
  return text;
}

/* --- tensors -------------------------------------------------------------------------------------------------------------- */

static void read_bytes(const ModelFolder *m, const SafeTensor *t, DType type, int64_t first, int64_t n, void *out) {
  const char *path = t->name - strlen(tensors); /* of a checkpoint: a name is the end of a path */
  if (!m->ckpt) {
    safetensors_read_raw(m->files, t, first, n, out);
    return;
  }
  memset(out, 0, dtype_size(type) * (size_t)n); /* what cannot be read is told in the end */
  pthread_mutex_t *one = (pthread_mutex_t *)&m->one;
  CHECK(!pthread_mutex_lock(one));
  if (m->load)
    ckpt_load_read(m->load, path, type, first, n, out);
  else
    ckpt_read(m->ckpt, path, type, first, n, out);
  CHECK(!pthread_mutex_unlock(one));
}

static bool weight_not(const ModelFolder *m, const SafeTensor *t, int64_t at, double value, Why *why) {
  const char *file = model_folder_file(m, t);
  if (safe_type_bits(t->type) == 8)
    return why_not(why, "%s: '%s' is %s and has %g at element %lld; truth values are 0 and 1\nhelp: another copy, without it", file,
                   t->name, safe_type_name(t->type), value, (long long)at);
  if (isfinite(value))
    return why_not(why, "%s: '%s' has %g at element %lld, and fp16 ends at 65504\nhelp: bf16 or fp32", file, t->name, value,
                   (long long)at);
  return why_not(why, "%s: '%s' has %s at element %lld\nhelp: another copy, or an earlier checkpoint: this model is spoilt", file,
                 t->name, isnan(value) ? "nan" : "inf", (long long)at);
}

bool try_model_folder_read(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n, DType as, void *out, Why *why) {
  enum { PART = 1 << 15 }; /* elements: what is converted while caches hold it */
  DType type;
  CHECK(first >= 0 && n >= 0 && first <= t->n && n <= t->n - first);
  if (!safe_type_dtype(t->type, &type) || (type != as && !(dtype_is_float(type) && dtype_is_float(as))))
    return why_not(why, "%s: tensor '%s' is %s\nhelp: F32, BF16 and F16 are read as weights", model_folder_file(m, t), t->name,
                   safe_type_name(t->type));
  size_t size = dtype_size(as);
  char *part = type == as ? NULL : xmalloc(dtype_size(type) * (size_t)(n < PART ? n : PART));
  bool ok = true;
  for (int64_t done = 0, take; ok && done < n; done += take) {
    double value;
    char *to = (char *)out + (size_t)done * size;
    take = part && n - done > PART ? PART : n - done;
    read_bytes(m, t, type, first + done, take, part ? part : to);
    int64_t bad = convert_weights(type, part ? part : to, take, as, to, &value);
    if (bad >= 0) ok = weight_not(m, t, first + done + bad, value, why);
  }
  free(part);
  return ok;
}

void model_folder_read(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n, DType as, void *out) {
  Why why;
  if (!try_model_folder_read(m, t, first, n, as, out, &why)) fail(FAIL_INPUT, "%s", why.text);
}

void model_folder_soon(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n) {
  if (!m->ckpt) safetensors_soon(m->files, t, first, n);
}

void model_folder_begin(ModelFolder *m, Comm *comm) {
  if (m->ckpt) m->load = ckpt_load_open(comm, m->ckpt);
}

bool try_model_folder_end(ModelFolder *m, Why *why) {
  CkptLoad *load = m->load;
  m->load = NULL;
  return !load || try_ckpt_load_close(load, why);
}
