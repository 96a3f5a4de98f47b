/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and step scalars on a device with memory of its own.  The host writes them to copies that are always its own
 * (job_var); each run sends those that it may have written since the last, by way of memory that the device copies from while the
 * host goes on.  With SLOTS of these the host can be that many runs ahead. */
#include <string.h>

#include "src/exec/job.h"

enum { SLOTS = 4 };

typedef struct Slot {
  char *at;
  DevEvent *sent;
} Slot;

struct Inputs {
  Slot slots[SLOTS];
  size_t turn;
};

static bool is_input(const JobVar *v) { return v->var->class == VAR_INPUT || v->var->class == VAR_STEP; }

Inputs *job_inputs_open(Job *job) {
  Inputs *inputs = arena_new(job->arena, Inputs);
  for (int i = 0; i < SLOTS; i++)
    inputs->slots[i] = (Slot){dev_host_alloc(job->dev, job->memory.inputs + 1), dev_event_open(job->dev)};
  return inputs;
}

void job_inputs_close(Job *job) {
  for (int i = 0; i < SLOTS; i++) {
    dev_event_close(job->inputs->slots[i].sent);
    dev_host_free(job->dev, job->inputs->slots[i].at);
  }
}

void job_inputs_send(Job *job) {
  Slot *slot = &job->inputs->slots[job->inputs->turn++ % SLOTS];
  char *at = slot->at;
  dev_event_wait(slot->sent);
  for (int i = 0; i < job->vars.n; i++) {
    JobVar *v = &job->vars.at[i];
    if (!is_input(v) || !v->touched) continue;
    v->touched = false;
    memcpy(at, v->mirror, v->nbytes);
    dev_copy_start(job->dev, job_at(job, v->offset), at, v->nbytes);
    at += v->nbytes;
  }
  dev_event_record(slot->sent);
}
