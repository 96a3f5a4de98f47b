/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of Vars.  Where the device's memory is the host's, that is the Var itself.  Elsewhere:
 *
 *   inputs    and outputs have a copy that stays; inputs.c sends the inputs' up with every run
 *   offloaded states are in the host's memory already
 *   states    go by in parts, the next on its way while one is used: the host never has room for them
 *   notes     are small outputs, copied aside where they stand in the device's order and looked at later */
#include <stdlib.h>
#include <string.h>

#include "src/exec/job.h"

enum { PART_BYTES = 32 << 20, FILL_ELEMENTS = 1 << 16 };

/* Memory of the host between the device and us, once the device has done with it; made when it is first wanted. */
static const HostCopy *copy_take(Job *job, HostCopy *copy, size_t nbytes) {
  if (!copy->at) *copy = (HostCopy){dev_host_alloc(job->dev, nbytes), dev_event_open(job->dev)};
  dev_event_wait(copy->over);
  return copy;
}

static void copy_close(Job *job, HostCopy *copy) {
  if (!copy->at) return;
  dev_event_wait(copy->over);
  dev_event_close(copy->over);
  dev_host_free(job->dev, copy->at);
}

void job_host_close(Job *job) {
  JobHost *h = &job->host;
  for (int i = 0; i < NOTES; i++) copy_close(job, &h->notes[i]);
  for (int i = 0; i < PARTS; i++) copy_close(job, &h->parts[i]);
}

/* Whether the host reads and writes the Var itself; what the device may still do with it is over then. */
static bool in_reach(const Job *job, const JobVar *v) {
  if (v->var->home != HOME_DEVICE) dev_sync(job->dev);
  return v->var->home != HOME_DEVICE || dev_is_host(job->dev);
}

static bool in_file(const JobVar *v) { return v->var->home == HOME_FILE; }

static size_t file_at(const JobVar *v, int64_t first, int64_t n) {
  CHECK(first >= 0 && n >= 0 && n <= shape_size(&v->var->shape) - first);
  return v->offset + (size_t)first * dtype_size(v->var->dtype);
}

static const JobVar *var_of(const Job *job, const char *name) {
  int i = job_find_var(job, name);
  CHECK(i >= 0 && job->base);
  return &job->vars.at[i];
}

int64_t job_size(const Job *job, const char *name) {
  int i = job_find_var(job, name);
  return i < 0 ? -1 : shape_size(&job->vars.at[i].var->shape);
}

void *job_var(Job *job, const char *name, int64_t *n) {
  int i = job_find_var(job, name);
  if (i < 0) return NULL;
  JobVar *v = &job->vars.at[i];
  CHECK(job->base);
  if (n) *n = shape_size(&v->var->shape);
  if (in_reach(job, v)) return job_address(job, v);
  bool input = v->var->class == VAR_INPUT || v->var->class == VAR_STEP;
  CHECK(input || v->var->class == VAR_OUTPUT);
  if (!v->mirror) v->mirror = arena_alloc(job->arena, v->nbytes);
  v->touched = input;
  if (!input) job_read(job, name, 0, shape_size(&v->var->shape), v->mirror);
  return v->mirror;
}

/* --- states --------------------------------------------------------------------------------------------------------------- */

static char *element_at(const Job *job, const JobVar *v, int64_t first, int64_t n) {
  CHECK(first >= 0 && n >= 0 && n <= shape_size(&v->var->shape) - first);
  return job_address(job, v) + (size_t)first * dtype_size(v->var->dtype);
}

/* Where other ranks read states themselves, they are the host's before the first run alone: then all ranks meet. */
static char *element_to_write(const Job *job, const JobVar *v, int64_t first, int64_t n) {
  CHECK(!job->shared || !job->ran || v->var->class != VAR_STATE);
  return element_at(job, v, first, n);
}

void job_read(Job *job, const char *name, int64_t first, int64_t n, void *to) {
  const JobVar *v = var_of(job, name);
  size_t nbytes = (size_t)n * dtype_size(v->var->dtype);
  if (in_file(v)) {
    files_read(job->files, file_at(v, first, n), to, nbytes);
    return;
  }
  const char *from = element_at(job, v, first, n);
  if (!in_reach(job, v))
    dev_copy_out(job->dev, to, from, nbytes);
  else if (n)
    memcpy(to, from, nbytes);
}

void job_write(Job *job, const char *name, int64_t first, int64_t n, const void *from) {
  const JobVar *v = var_of(job, name);
  size_t nbytes = (size_t)n * dtype_size(v->var->dtype);
  if (in_file(v)) {
    files_write(job->files, file_at(v, first, n), from, nbytes);
    return;
  }
  char *to = element_to_write(job, v, first, n);
  if (!in_reach(job, v))
    dev_copy_in(job->dev, to, from, nbytes);
  else if (n)
    memcpy(to, from, nbytes);
}

void job_copy(Job *job, const char *to, const char *from) {
  const JobVar *a = var_of(job, to), *b = var_of(job, from);
  int64_t n = shape_size(&a->var->shape);
  CHECK(a->var->dtype == b->var->dtype && !in_file(a) && !in_file(b) && (a->var->home == HOME_HOST) != (b->var->home == HOME_HOST));
  dev_copy_start(job->dev, element_at(job, a, 0, n), element_at(job, b, 0, n), (size_t)n * dtype_size(a->var->dtype));
}

/* The i-th part of a transfer. */
static const HostCopy *part_take(Job *job, int64_t i) { return copy_take(job, &job->host.parts[i % PARTS], PART_BYTES); }

static int64_t part_length(int64_t n, int64_t first, int64_t most) { return n - first < most ? n - first : most; }

/* The same of a file, by way of a part of memory. */
static void put_file(Job *job, const JobVar *v, int64_t first, int64_t n, JobMake *make, void *self) {
  size_t size = dtype_size(v->var->dtype);
  int64_t most = (int64_t)(PART_BYTES / size);
  char *part = xmalloc((size_t)(n < most ? n : most) * size + 1);
  for (int64_t done = 0; done < n; done += most) {
    int64_t count = part_length(n, done, most);
    make(self, done, count, part);
    files_write(job->files, file_at(v, first + done, count), part, (size_t)count * size);
  }
  free(part);
}

static void get_file(const Job *job, const JobVar *v, int64_t first, int64_t n, JobUse *use, void *self) {
  size_t size = dtype_size(v->var->dtype);
  int64_t most = (int64_t)(PART_BYTES / size);
  char *part = xmalloc((size_t)(n < most ? n : most) * size + 1);
  for (int64_t done = 0; done < n; done += most) {
    int64_t count = part_length(n, done, most);
    files_read(job->files, file_at(v, first + done, count), part, (size_t)count * size);
    use(self, done, count, part);
  }
  free(part);
}

void job_put(Job *job, const char *name, int64_t first, int64_t n, JobMake *make, void *self) {
  const JobVar *v = var_of(job, name);
  if (in_file(v)) {
    put_file(job, v, first, n, make, self);
    return;
  }
  char *at = element_to_write(job, v, first, n);
  if (in_reach(job, v)) {
    if (n) make(self, 0, n, at);
    return;
  }
  size_t size = dtype_size(v->var->dtype);
  int64_t most = (int64_t)(PART_BYTES / size);
  for (int64_t done = 0; done < n; done += most) {
    const HostCopy *part = part_take(job, done / most);
    int64_t count = part_length(n, done, most);
    make(self, done, count, part->at);
    dev_copy_start(job->dev, at + (size_t)done * size, part->at, (size_t)count * size);
    dev_event_record(part->over);
  }
}

void job_get(Job *job, const char *name, int64_t first, int64_t n, JobUse *use, void *self) {
  const JobVar *v = var_of(job, name);
  if (in_file(v)) {
    get_file(job, v, first, n, use, self);
    return;
  }
  const char *at = element_at(job, v, first, n);
  if (in_reach(job, v)) {
    if (n) use(self, 0, n, at);
    return;
  }
  size_t size = dtype_size(v->var->dtype);
  int64_t most = (int64_t)(PART_BYTES / size), parts = (n + most - 1) / most;
  for (int64_t i = 0; i < parts + PARTS - 1; i++) { /* part i sets out, part i - PARTS + 1 is used */
    if (i < parts) {
      const HostCopy *part = part_take(job, i);
      dev_copy_start(job->dev, part->at, at + (size_t)(i * most) * size, (size_t)part_length(n, i * most, most) * size);
      dev_event_record(part->over);
    }
    int64_t arrived = i - (PARTS - 1);
    if (arrived < 0 || arrived >= parts) continue;
    use(self, arrived * most, part_length(n, arrived * most, most), part_take(job, arrived)->at);
  }
}

/* --- values by rule ------------------------------------------------------------------------------------------------------- */

typedef struct FillHost {
  const JobFill *fill;
  int64_t first, n;
  float *to;
} FillHost;

static void fill_some(void *self, int64_t i) {
  const FillHost *f = self;
  int64_t at = i * FILL_ELEMENTS, n = part_length(f->n, at, FILL_ELEMENTS);
  const JobFill *fill = f->fill;
  if (fill->normal) rng_normals(fill->normal, fill->element + (uint64_t)(f->first + at), n, fill->std, f->to + at);
  for (int64_t k = 0; k < n && !fill->normal; k++) f->to[at + k] = fill->constant;
}

typedef struct FillJob {
  const Job *job;
  const JobFill *fill;
} FillJob;

static void fill_part(void *self, int64_t first, int64_t n, void *to) {
  const FillJob *f = self;
  FillHost part = {f->fill, first, n, to};
  dev_parallel(f->job->dev, (n + FILL_ELEMENTS - 1) / FILL_ELEMENTS, fill_some, &part);
}

void job_fill(Job *job, const char *name, const char *lower, int64_t first, int64_t n, const JobFill *fill) {
  const JobVar *v = var_of(job, name);
  FillJob host = {job, fill};
  CHECK(v->var->dtype == (lower ? DT_BF16 : DT_F32));
  if (job->choices->cuda && n)
    gpu_fill_floats(job, element_to_write(job, v, first, n),
                    lower && job_size(job, lower) >= 0 ? element_at(job, var_of(job, lower), first, n) : NULL, lower, n, fill);
  else if (lower)
    job_put_halves(job, name, lower, first, n, fill_part, &host);
  else
    job_put(job, name, first, n, fill_part, &host);
}

/* --- notes ---------------------------------------------------------------------------------------------------------------- */

void job_note(Job *job, const char *name) {
  JobHost *h = &job->host;
  const JobVar *v = var_of(job, name);
  size_t nbytes = (size_t)shape_size(&v->var->shape) * dtype_size(v->var->dtype);
  CHECK(h->noted - h->looked < NOTES && nbytes <= NOTE_BYTES);
  const HostCopy *note = copy_take(job, &h->notes[h->noted++ % NOTES], NOTE_BYTES);
  dev_copy_start(job->dev, note->at, job_at(job, v->offset), nbytes);
  dev_event_record(note->over);
}

const void *job_noted(Job *job) {
  JobHost *h = &job->host;
  CHECK(h->looked < h->noted);
  const HostCopy *note = &h->notes[h->looked++ % NOTES];
  dev_event_wait(note->over);
  return note->at;
}
