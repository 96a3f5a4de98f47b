/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU by measurement or by record (run.tune), as tune.c does it for CPUs.  Rank 0 times every plan of every
 * allowed row on the job's own memory, in turns, so that a card that grows warm is unfair to none; its choice is told to the
 * others by name, and recorded as a line a call:
 *
 *   gpu NVIDIA_H200 matmul bf16:8192x4096/4096,1@256 … cublaslt:algo66,tile20,stages36,…
 *
 * A line is for one kind of GPU and one call.  Such a plan that the libraries no longer offer is an error, or with run.tune
 * measured anew: a resume never changes its bits without a word. */
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/exec/gpu.h"

enum { PLANS_MOST = 32, ROUNDS = 4, PATTERN = 1 << 20 };
static const double seconds_a_turn = 4e-3, gain_least = 0.01; /* what is less is taken for noise */

/* --- records -------------------------------------------------------------------------------------------------------------- */

static const char *device_name(void) {
  const char *(*name)(void);
  void *symbol = dev_cuda_symbol("gpu_device_name");
  memcpy(&name, &symbol, sizeof symbol);
  return name();
}

/* The plan of this use that a row tells by that name; false: no row does. */
static bool try_find(Job *job, GpuUse *use, const char *told, GpuPlan *plan) {
  const GpuImpl *impl;
  size_t length = strcspn(told, ":");
  for (int i = 0; (impl = gpu_row(use->op, i)); i++) {
    const char *name = impl->row->name;
    if (strlen(name) != length || strncmp(name, told, length) || !gpu_allowed(impl->row, job->choices)) continue;
    for (int choice = 0; choice < PLANS_MOST && gpu_try_prepare(job, use, impl, choice, plan, NULL); choice++) {
      if (!strcmp(plan->told, told)) return true;
      impl->release(plan->plan);
    }
  }
  *plan = (GpuPlan){0};
  return false;
}

static const char *record_of(Job *job, const GpuUse *use) {
  const char *start = arena_printf(job->arena, "gpu %s %s ", device_name(), use->key);
  size_t n = strlen(start);
  for (const char *line = job->choices->tuned; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (!strncmp(line, start, n)) return arena_strndup(job->arena, line + n, strcspn(line + n, "\n"));
  return NULL;
}

static bool is_plain(const char *told) {
  for (int i = 0; i < GPU_ROWS; i++)
    if (gpu_rows[i].plain && !strcmp(gpu_rows[i].name, told)) return true;
  return false;
}

bool gpu_recorded(Job *job, GpuUse *use) {
  const char *told = record_of(job, use);
  if (!told) return false;
  if (is_plain(told) && !job->module) return true; /* to be asked again */
  if (try_find(job, use, told, &use->chosen)) return true;
  if (job->choices->tune) {
    text_printf(&job->notes, "the recorded plan %s of %s is not to be had here; it is measured anew\n", told, use->op);
    return false;
  }
  fail(FAIL_MACHINE,
       "the checkpoint's record wants %s for\n   %s\n   which is not to be had here: libraries have changed, or gpu.attention\n"
       "help: go on with the libraries and keys of before; or run.tune: true, which measures anew (results differ in their last "
       "bits)",
       told, use->key);
}

/* --- measuring ------------------------------------------------------------------------------------------------------------ */

static size_t type_size(int type) { return type == BIG_F32 || type == BIG_I32 ? 4 : 2; }

static size_t span_bytes(const BigView *v) {
  int64_t last = 0;
  for (int r = 0; r < v->rank; r++) last += (v->dim[r] - 1) * v->stride[r];
  return v->rank ? (size_t)(last + 1) * type_size(v->type) : 0;
}

static void spread(Job *job, const BigView *v, const char *pattern, size_t nbytes) {
  size_t all = span_bytes(v);
  for (size_t at = 0; at < all; at += nbytes)
    dev_copy_in(job->dev, (char *)v->at + at, pattern, nbytes < all - at ? nbytes : all - at);
}

/* Numbers like those of training, since zeros let a card clock higher; integers stay 0.  And back to zeros. */
static void fill(Job *job, const BigCall *call, bool zeros) {
  float *normal = xmalloc(sizeof *normal * PATTERN);
  uint16_t *half = xmalloc(sizeof *half * PATTERN);
  Rng rng = rng_make(1, RNG_TEST, "gpu_tune", 0);
  rng_normals(&rng, 0, PATTERN, zeros ? 0 : 0.5, normal);
  for (int i = 0; i < BIG_IN + BIG_OUT; i++) {
    const BigView *v = i < BIG_IN ? &call->in[i] : &call->out[i - BIG_IN];
    if (!v->rank || v->type == BIG_I32) continue;
    for (int64_t k = 0; k < PATTERN && v->type != BIG_F32; k++)
      half[k] = v->type == BIG_BF16 ? bf16_of(normal[k]) : f16_of(normal[k]);
    spread(job, v, v->type == BIG_F32 ? (char *)normal : (char *)half, type_size(v->type) * PATTERN);
  }
  free(half);
  free(normal);
}

static double turn(Job *job, const GpuUse *use, const GpuPlan *plan, int runs, DevEvent *ends[2]) {
  dev_event_record(ends[0]);
  for (int i = 0; i < runs; i++) plan->impl->run(plan->plan, &use->call, dev_stream(job->dev));
  dev_event_record(ends[1]);
  return dev_event_seconds(ends[0], ends[1]) / runs;
}

static int fastest(Job *job, const GpuUse *use, const GpuPlan *plans, int n) {
  DevEvent *ends[2] = {dev_event_open(job->dev), dev_event_open(job->dev)};
  double best[PLANS_MOST];
  int runs[PLANS_MOST], least = 0;
  for (int i = 0; i < n; i++) {
    best[i] = turn(job, use, &plans[i], 1, ends); /* the first run loads code */
    best[i] = turn(job, use, &plans[i], 1, ends);
    runs[i] = best[i] > 0 && best[i] < seconds_a_turn ? (int)(seconds_a_turn / best[i]) : 1;
    if (runs[i] > 256) runs[i] = 256;
  }
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < n; i++) {
      double seconds = turn(job, use, &plans[i], runs[i], ends);
      if (seconds < best[i] || round == 0) best[i] = seconds;
    }
  for (int i = 1; i < n; i++)
    if (best[i] < best[least]) least = i;
  dev_event_close(ends[0]);
  dev_event_close(ends[1]);
  return best[least] < (1 - gain_least) * best[0] ? least : 0;
}

/* All plans of the rows that may be chosen; plain rows only where there is nothing else. */
static int plans_of(Job *job, const GpuUse *use, GpuPlan plans[PLANS_MOST], Text *tried) {
  const GpuImpl *impl;
  int n = 0;
  for (int i = 0; (impl = gpu_row(use->op, i)); i++) {
    Why why = {""};
    if (!gpu_allowed(impl->row, job->choices) || (impl->row->plain && n)) continue;
    int before = n;
    for (int choice = 0; n < PLANS_MOST && gpu_try_prepare(job, use, impl, choice, &plans[n], &why); choice++) n++;
    if (n == before) text_printf(tried, "\n   %s: %s", impl->row->name, why.text);
  }
  return n;
}

static void measure(Job *job, GpuUse *use) {
  GpuPlan plans[PLANS_MOST];
  Text tried = {0};
  text_printf(&tried, "%s", "");
  int n = plans_of(job, use, plans, &tried), best = 0;
  if (!n) gpu_refuse(job, use, tried.at);
  if (n > 1) {
    if (job->device_collectives) comm_device_settle(job->mesh); /* whose first sums wait on this GPU for other ranks */
    fill(job, &use->call, false);
    best = fastest(job, use, plans, n);
    fill(job, &use->call, true);
  }
  for (int i = 0; i < n; i++)
    if (i != best) plans[i].impl->release(plans[i].plan);
  use->chosen = plans[best];
  text_close(&tried);
}

/* Names rather than numbers go over: a rank may have another version of a library. */
static void agree(Job *job, GpuUse *use) {
  char told[sizeof use->chosen.told] = "";
  if (comm_rank(job->comm) == 0) memcpy(told, use->chosen.told, sizeof told);
  comm_broadcast(job->comm, told, sizeof told, 0);
  if (use->chosen.plan && !strcmp(told, use->chosen.told)) return;
  if (use->chosen.plan) use->chosen.impl->release(use->chosen.plan);
  if (!try_find(job, use, told, &use->chosen))
    fail(FAIL_MACHINE,
         "rank 0 has chosen %s for %s, which is not to be had on this rank\nhelp: the same CUDA libraries on all nodes", told,
         use->op);
}

void gpu_tune(Job *job) {
  Text text = {0};
  text_printf(&text, "%s", "");
  for (int i = 0; i < job->uses.n; i++) {
    GpuUse *use = job->uses.at[i];
    if (!use->chosen.plan && comm_rank(job->comm) == 0) measure(job, use);
    agree(job, use);
    text_printf(&text, "gpu %s %s %s\n", device_name(), use->key, use->chosen.told);
  }
  job->tuned = arena_strdup(job->arena, text.at);
  text_close(&text);
}
