/* SPDX-License-Identifier: Apache-2.0 */
/* FETCH and SEND, bound and run.  Between the device and the host's memory the device does them beside its computing (dev_move).
 * Between the device and a file threads do (files.h): straight, where the device's memory is the host's; elsewhere by way of
 * stages, pinned memory of the host as large as the largest Var of a file, as many as are under way at a time.  The host takes part
 * in those: a program with them is no CUDA graph. */
#include <stdlib.h>

#include "src/exec/job.h"

static size_t page_up(size_t nbytes) { return (nbytes + FILE_ALIGN - 1) / FILE_ALIGN * FILE_ALIGN; }

static const Var *file_var(const Program *p, const Step *step) {
  const StepArg *far = step->op == OP_FETCH ? &step->in[0] : &step->out[0];
  const Buffer *b = &p->buffers[far->place.buffer];
  const Var *var = b->class == BUFFER_VAR ? &p->graph->vars.at[b->var] : NULL;
  return var && var->home == HOME_FILE ? var : NULL;
}

int transfers_in_flight(const Program *p) {
  int now = 0, most = 0;
  for (int i = 0; i < p->nsteps; i++) {
    const Step *s = &p->steps[i];
    if ((s->kind != STEP_TRANSFER_START && s->kind != STEP_TRANSFER_WAIT) || !file_var(p, s)) continue;
    now += s->kind == STEP_TRANSFER_START ? 1 : -1;
    if (now > most) most = now;
  }
  return most;
}

/* One that no transfer of the program has at this step. */
static Stage *stage_take(Job *job) {
  for (int i = 0; i < job->stages.n; i++)
    if (!job->stages.at[i]->taken) return job->stages.at[i];
  Stage *stage = arena_new(job->arena, Stage);
  *stage = (Stage){.copy = {dev_host_alloc(job->dev, job->stage_bytes), dev_event_open(job->dev)}};
  vec_push(job->arena, &job->stages, stage);
  return stage;
}

void transfer_bind(Job *job, const Program *p, const Step *step, void *to, void *from, Bound *bound) {
  Transfer *t = arena_new(job->arena, Transfer);
  bool fetch = step->op == OP_FETCH;
  size_t nbytes = (size_t)shape_size(&step->in[0].shape) * dtype_size(step->in[0].dtype);
  const Var *var = file_var(p, step);
  bound->transfer = t;
  *t = (Transfer){.fetch = fetch, .nbytes = nbytes, .device = fetch ? to : from};
  if (!var) {
    t->move = dev_move_open(job->dev, fetch ? DEV_IN : DEV_OUT, to, from, nbytes);
    return;
  }
  size_t at = job->vars.at[job_find_var(job, var->name)].offset;
  if (!dev_is_host(job->dev)) {
    t->stage = stage_take(job);
    t->stage->taken = true;
  }
  t->file = file_move_open(job->files, !fetch, at, t->stage ? t->stage->copy.at : t->device, t->stage ? page_up(nbytes) : nbytes);
}

void transfer_unbind(Bound *bound) {
  if (bound->transfer->stage) bound->transfer->stage->taken = false;
}

void transfer_start(Job *job, Transfer *t) {
  if (t->move) {
    dev_move_start(t->move);
    return;
  }
  if (t->stage) dev_event_wait(t->stage->copy.over); /* of who had it before */
  if (t->stage && !t->fetch) {
    dev_copy_start(job->dev, t->stage->copy.at, t->device, t->nbytes);
    dev_event_record(t->stage->copy.over);
    dev_event_wait(t->stage->copy.over);
  }
  file_move_start(t->file);
}

void transfer_wait(Job *job, Transfer *t) {
  if (t->move) {
    dev_move_wait(t->move);
    return;
  }
  file_move_wait(t->file);
  if (!t->stage || !t->fetch) return;
  dev_copy_start(job->dev, t->device, t->stage->copy.at, t->nbytes);
  dev_event_record(t->stage->copy.over);
}

void transfer_close(Transfer *t) {
  dev_move_close(t->move);
  file_move_close(t->file);
}

void stages_close(Job *job) {
  for (int i = 0; i < job->stages.n; i++) {
    dev_event_close(job->stages.at[i]->copy.over);
    dev_host_free(job->dev, job->stages.at[i]->copy.at);
  }
}
