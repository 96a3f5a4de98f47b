/* SPDX-License-Identifier: Apache-2.0 */
/* Vars that hold an F32 in two halves (OP_UPPER, OP_LOWER), or as a BF16 alone, for hosts that think of F32s. */
#include <stdlib.h>

#include "src/exec/exec.h"

enum { PART = 1 << 20 }; /* elements at a time */

typedef struct Parts {
  float *whole;
  uint16_t *upper;
  int16_t *lower;
} Parts;

static Parts parts_open(int64_t n) {
  size_t most = (size_t)(n < PART ? n : PART) + 1;
  Parts p = {xmalloc(sizeof *p.whole * most), xmalloc(sizeof *p.upper * most), xmalloc(sizeof *p.lower * most)};
  return p;
}

static void parts_close(Parts *p) {
  free(p->whole);
  free(p->upper);
  free(p->lower);
}

void job_put_halves(Job *job, const char *upper, const char *lower, int64_t first, int64_t n, JobMake *make, void *self) {
  Parts p = parts_open(n);
  for (int64_t done = 0; done < n; done += PART) {
    int64_t count = n - done < PART ? n - done : PART;
    make(self, done, count, p.whole);
    f32_split_all(p.whole, count, p.upper, p.lower);
    job_write(job, upper, first + done, count, p.upper);
    if (job_size(job, lower) >= 0) job_write(job, lower, first + done, count, p.lower);
  }
  parts_close(&p);
}

void job_get_halves(Job *job, const char *upper, const char *lower, int64_t first, int64_t n, JobUse *use, void *self) {
  Parts p = parts_open(n);
  bool whole = job_size(job, lower) >= 0;
  for (int64_t done = 0; done < n; done += PART) {
    int64_t count = n - done < PART ? n - done : PART;
    job_read(job, upper, first + done, count, p.upper);
    if (whole) job_read(job, lower, first + done, count, p.lower);
    f32_join_all(p.upper, whole ? p.lower : NULL, count, p.whole);
    use(self, done, count, p.whole);
  }
  parts_close(&p);
}

/* The other side of a transfer of BF16s, F32 part by F32 part. */
typedef struct Brief {
  JobMake *make;
  JobUse *use;
  void *self;
  float *whole; /* of a part */
} Brief;

static int64_t brief_part(int64_t n, int64_t done) { return n - done < PART ? n - done : PART; }

static void make_brief(void *self, int64_t first, int64_t n, void *to) {
  const Brief *b = self;
  uint16_t *bits = to;
  for (int64_t done = 0; done < n; done += PART) {
    int64_t count = brief_part(n, done);
    b->make(b->self, first + done, count, b->whole);
    for (int64_t i = 0; i < count; i++) bits[done + i] = bf16_of(b->whole[i]);
  }
}

static void use_brief(void *self, int64_t first, int64_t n, const void *from) {
  const Brief *b = self;
  const uint16_t *bits = from;
  for (int64_t done = 0; done < n; done += PART) {
    int64_t count = brief_part(n, done);
    f32_join_all(bits + done, NULL, count, b->whole);
    b->use(b->self, first + done, count, b->whole);
  }
}

void job_put_bf16(Job *job, const char *name, int64_t first, int64_t n, JobMake *make, void *self) {
  Brief b = {.make = make, .self = self, .whole = xmalloc(sizeof(float) * (size_t)(brief_part(n, 0) + 1))};
  job_put(job, name, first, n, make_brief, &b);
  free(b.whole);
}

void job_get_bf16(Job *job, const char *name, int64_t first, int64_t n, JobUse *use, void *self) {
  Brief b = {.use = use, .self = self, .whole = xmalloc(sizeof(float) * (size_t)(brief_part(n, 0) + 1))};
  job_get(job, name, first, n, use_brief, &b);
  free(b.whole);
}
