/* SPDX-License-Identifier: Apache-2.0 */
/* Two checkpoints, dataset by dataset: both lists are sorted by path and walked like one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/ckpt_impl.h"

enum { PART = 1 << 18 }; /* elements that are compared at a time */

static bool is_alike(const CkptEntry *a, const CkptEntry *b) {
  bool alike = a->is_text == b->is_text && a->dtype == b->dtype && a->rank == b->rank && a->n == b->n;
  for (int k = 0; alike && k < a->rank; k++) alike = a->shape[k] == b->shape[k];
  return alike;
}

typedef struct Sums {
  double difference, first; /* of squares */
} Sums;

static void compare_part(CkptDiff *d, DType dtype, int64_t n, const void *a, const void *b, Sums *sums) {
  size_t size = dtype_size(dtype);
  for (int64_t i = 0; i < n; i++) {
    double x = dtype_load(dtype, a, i), y = dtype_load(dtype, b, i);
    sums->first += x * x;
    if (!memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size)) continue;
    double by = x == y ? 0 : fabs(x - y); /* infinities of one sign, zeros of two */
    d->n++;
    if (isnan(by) || by > d->most) d->most = isnan(d->most) ? d->most : by;
    sums->difference += by * by;
  }
}

static void compare(const Ckpt *a, const Ckpt *b, CkptDiff *d) {
  const CkptEntry *e = d->a;
  size_t size = dtype_size(e->dtype);
  int64_t most = e->n < PART ? e->n : PART;
  char *x = xmalloc((size_t)most * size), *y = xmalloc((size_t)most * size);
  Sums sums = {0, 0};
  for (int64_t first = 0; first < e->n; first += most) {
    int64_t n = e->n - first < most ? e->n - first : most;
    ckpt_read(a, e->path, e->dtype, first, n, x);
    ckpt_read(b, e->path, e->dtype, first, n, y);
    compare_part(d, e->dtype, n, x, y, &sums);
  }
  d->relative = sums.difference == 0 ? 0 : sqrt(sums.difference / sums.first);
  free(x);
  free(y);
}

static CkptChange change_of(const CkptDiff *d) {
  if (!d->b) return CKPT_ONLY_FIRST;
  if (!d->a) return CKPT_ONLY_SECOND;
  if (!is_alike(d->a, d->b)) return d->a->is_text && d->b->is_text ? CKPT_CHANGED : CKPT_RESHAPED;
  return d->a->crc32c == d->b->crc32c ? CKPT_SAME : CKPT_CHANGED;
}

int ckpt_diff(const Ckpt *a, const Ckpt *b, CkptDiffTell *tell, void *self) {
  int i = 0, j = 0, changes = 0;
  while (i < ckpt_n(a) || j < ckpt_n(b)) {
    const CkptEntry *x = i < ckpt_n(a) ? ckpt_at(a, i) : NULL, *y = j < ckpt_n(b) ? ckpt_at(b, j) : NULL;
    int order = !x ? 1 : !y ? -1 : strcmp(x->path, y->path);
    CkptDiff d = {.a = order <= 0 ? x : NULL, .b = order >= 0 ? y : NULL};
    d.change = change_of(&d);
    if (d.change == CKPT_CHANGED && !d.a->is_text) compare(a, b, &d);
    changes += d.change != CKPT_SAME;
    tell(self, &d);
    i += order <= 0;
    j += order >= 0;
  }
  return changes;
}
