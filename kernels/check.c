/* SPDX-License-Identifier: Apache-2.0 */
/* No library is trusted on its word: before its first use a matmul row runs on the call's own shapes, and its result C is
 * compared with plain double arithmetic without computing C again: C·x = A·(B·x) for a random vector x of signs, row by row
 * (Freivalds, "Probabilistic machines can use less running time", IFIP 1977).  That costs as little as the product itself,
 * so the shapes need not be shrunk to others that take other paths through the library.
 *
 * A verdict is kept in a file named by everything it depends on: library file, its size and time, CPU, and call. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/rows.h"
#include "src/base/arena.h"
#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/dev/dev.h"

static char *folder;

void kernels_set_verdicts(const char *path) {
  free(folder);
  folder = path ? strdup(path) : NULL;
}

/* Fills the view's extent with uniform numbers in [-1,1), or with NaN, and points it there. */
static float *view_fill(BigView *view, uint64_t stream, bool nan) {
  size_t n = 1;
  for (int r = 0; r < view->rank; r++) n += (size_t)((view->dim[r] - 1) * view->stride[r]);
  float *at = xmalloc(n * sizeof(float));
  uint64_t state = stream * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    at[i] = nan ? NAN : (float)((double)(state >> 40) * 0x1p-23 - 1);
  }
  view->at = at;
  return at;
}

/* y = view · x, and with it the same of the old values of c if they count. */
static void times(const BigView *view, const double *x, double *y) {
  for (int64_t i = 0; i < view->dim[0]; i++) {
    y[i] = 0;
    for (int64_t j = 0; j < view->dim[1]; j++) y[i] += (double)*view_at(view, i, j) * x[j];
  }
}

/* float32 sums of K products of numbers below 1 err by about 2^-24·√K an element, bfloat16 or TF32 ones by 2^-9·√K or
 * 2^-11·√K; a row of N elements adds √N.  A wrong element is wrong by about √K/3. */
static double tolerance(int64_t K, int64_t N) { return 2e-5 * sqrt((double)K * (double)N) + 1e-6; }

static bool compare(const BigCall *call, const double *before, Why *why) {
  int64_t M = call->out[0].dim[0], N = call->out[0].dim[1], K = call->in[0].dim[1];
  double *x = xmalloc(sizeof(double) * (size_t)(N + K + 2 * M)), *bx = x + N, *abx = bx + K, *cx = abx + M;
  Rng rng = rng_make(1, RNG_TEST, "freivalds", 0);
  for (int64_t j = 0; j < N; j++) x[j] = rng_uniform(&rng, (uint64_t)j) < 0.5 ? -1 : 1;
  times(&call->in[1], x, bx);
  times(&call->in[0], bx, abx);
  times(&call->out[0], x, cx);
  int64_t bad = -1;
  for (int64_t i = 0; i < M; i++) {
    double want = abx[i];
    for (int64_t j = 0; before && j < N; j++) want += before[i * N + j] * x[j];
    if (!(fabs(cx[i] - want) <= tolerance(K, N))) bad = i;
  }
  double got = bad < 0 ? 0 : cx[bad];
  free(x);
  return bad < 0 || why_not(why, "computes wrong: row %lld of a %lldx%lldx%lld product sums to %g", (long long)bad, (long long)M,
                            (long long)N, (long long)K, got);
}

bool kernels_try_check(const BigCall *call, BigRun *run, Why *why) {
  BigCall own = *call;
  BigView *c = &own.out[0];
  int64_t M = c->dim[0], N = c->dim[1];
  float *a = view_fill(&own.in[0], 1, false), *b = view_fill(&own.in[1], 2, false), *out = view_fill(c, 3, !call->n[0]);
  double *before = call->n[0] ? xmalloc(sizeof(double) * (size_t)(M * N)) : NULL;
  for (int64_t i = 0; before && i < M; i++)
    for (int64_t j = 0; j < N; j++) before[i * N + j] = *view_at(c, i, j);
  run(&own);
  bool right = compare(&own, before, why);
  free(before);
  free(a);
  free(b);
  free(out);
  return right;
}

static void hash_view(Sha256 *s, const BigView *view) {
  sha256_add(s, view->dim, sizeof view->dim);
  sha256_add(s, view->stride, sizeof view->stride);
}

/* The library behind a native row: which file, as it is now. */
static void hash_library(Sha256 *s, const char *path) {
  struct stat st;
  sha256_add_text(s, path);
  if (stat(path, &st) != 0) return;
  sha256_add(s, &st.st_size, sizeof st.st_size);
  sha256_add(s, &st.st_mtim, sizeof st.st_mtim);
}

static void verdict_key(const BigImpl *row, const BigCall *call, const char *symbol, char hex[65]) {
  Sha256 s;
  sha256_init(&s);
  sha256_add_text(&s, "verdict 3");
  sha256_add_text(&s, row->op);
  sha256_add_text(&s, row->name);
  if (symbol)
    sha256_add_text(&s, symbol);
  else
    hash_library(&s, row->library());
  dev_cpu_identity(&s);
  for (int i = 0; i < 2; i++) hash_view(&s, &call->in[i]);
  hash_view(&s, &call->out[0]);
  sha256_add(&s, call->n, sizeof call->n);
  sha256_add(&s, &call->threads, sizeof call->threads);
  sha256_hex(&s, hex);
}

/* Verdicts of this process: the text is "" for a row that computes right. */
typedef struct Verdict {
  char key[65];
  char *text;
} Verdict;
static struct {
  Verdict *at;
  size_t n;
} known;

static const char *verdict_remember(const char *key, const char *text) {
  known.at = xrealloc(known.at, sizeof(Verdict) * (known.n + 1));
  Verdict *v = &known.at[known.n++];
  memcpy(v->key, key, sizeof v->key);
  v->text = strdup(text);
  CHECK(v->text);
  return v->text;
}

static char *verdict_path(const char *key) {
  Text path = {0};
  text_printf(&path, "%s/verdict-%s", folder, key);
  return path.at;
}

/* A file holds "right\n" or the reason and a newline; anything else was torn or is not ours, and the check runs again. */
static const char *verdict_find(const char *key) {
  for (size_t i = 0; i < known.n; i++)
    if (strcmp(known.at[i].key, key) == 0) return known.at[i].text;
  if (!folder) return NULL;
  char *path = verdict_path(key);
  size_t n = 0;
  char *text = file_read(path, &n);
  free(path);
  const char *found = NULL;
  if (text && n > 1 && n < sizeof(Why) && text[n - 1] == '\n' && strlen(text) == n) {
    text[n - 1] = 0;
    bool right = strcmp(text, "right") == 0;
    if (right || strncmp(text, "computes wrong", 14) == 0) found = verdict_remember(key, right ? "" : text);
  }
  free(text);
  return found;
}

/* Written aside and renamed.  A folder that cannot be written only means checking again next time. */
static void verdict_store(const char *key, const char *text) {
  verdict_remember(key, text);
  if (!folder) return;
  char *path = verdict_path(key);
  Text aside = {0};
  text_printf(&aside, "%s.%ld", path, (long)getpid());
  FILE *file = fopen(aside.at, "w");
  if (file) {
    bool written = fprintf(file, "%s\n", *text ? text : "right") > 0;
    written = fclose(file) == 0 && written;
    if (!written || rename(aside.at, path) != 0) unlink(aside.at);
  }
  text_close(&aside);
  free(path);
}

static bool judge(const BigImpl *row, const BigCall *call, const char *symbol, BigRun *run, Why *why) {
  char key[65];
  verdict_key(row, call, symbol, key);
  const char *verdict = verdict_find(key);
  if (verdict) return !*verdict || why_not(why, "%s", verdict);
  Why reason = {""};
  bool right = kernels_try_check(call, run, &reason);
  verdict_store(key, right ? "" : reason.text);
  return right || why_not(why, "%s", reason.text);
}

bool kernels_try_row(const BigImpl *row, const BigCall *call, Why *why) {
  if (row->applies && !row->applies(call)) return why_not(why, "does not apply to these shapes");
  if (!row->native) return true;
  BigRun *run = row->native(why);
  return run && (!row->library || judge(row, call, NULL, run, why));
}

bool kernels_try_built(const BigImpl *row, const BigCall *call, const char *symbol, BigRun *run, Why *why) {
  return strcmp(row->op, "matmul") != 0 || judge(row, call, symbol, run, why);
}
