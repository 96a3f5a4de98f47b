/* SPDX-License-Identifier: Apache-2.0 */
/* Writing over an input that dies with the kernel: both become one buffer, so that the plan needs one of the two.
 * A kernel reads all of an element before it writes it (gen.h), so it is enough that each element written is read, if at
 * all, at the same index. */
#include <stdlib.h>
#include <string.h>

#include "src/fuse/lower.h"

/* Two strided accesses with the same strides, unequal offsets: rows of `width` elements that never meet. */
static bool apart(const Kernel *k, const KernelArg *a, const StepArg *x, const KernelArg *b, const StepArg *y) {
  int last = k->domain.rank - 1;
  if (memcmp(a->stride, b->stride, sizeof a->stride) || (a->stride[last] != 1 && k->domain.dim[last] > 1)) return false;
  int64_t distance = llabs(x->place.offset - y->place.offset), width = k->domain.dim[last], step = INT64_MAX;
  for (int i = 0; i < last; i++) {
    if (k->domain.dim[i] == 1) continue;
    if (a->stride[i] < width) return false;
    if (a->stride[i] < step) step = a->stride[i];
  }
  return distance >= width && distance <= step - width;
}

static bool can_share(const Step *s, int out, int in) {
  const Kernel *k = s->kernel;
  for (int o = 0; o < s->nout; o++) {
    if (s->out[o].place.buffer != out) continue;
    bool states = dtype_is_float(s->out[o].dtype) || s->out[o].dtype == DT_I16; /* what Vars are read and written as in place */
    if (k->values[k->outputs[o].value].level != LEVEL_FULL || !states) return false;
    for (int i = 0; i < s->nin; i++) {
      if (s->in[i].place.buffer != in) continue;
      if (s->in[i].dtype != s->out[o].dtype) return false;
      bool same = s->in[i].place.offset == s->out[o].place.offset &&
                  !memcmp(k->inputs[i].stride, k->outputs[o].stride, sizeof k->inputs[i].stride);
      if (!same && !apart(k, &k->inputs[i], &s->in[i], &k->outputs[o], &s->out[o])) return false;
    }
  }
  return true;
}

static void rename_buffer(Program *p, int from, int to) {
  for (int s = p->buffers[from].first; s <= p->buffers[from].last; s++) {
    for (int i = 0; i < p->steps[s].nin; i++)
      if (p->steps[s].in[i].place.buffer == from) p->steps[s].in[i].place.buffer = to;
    for (int i = 0; i < p->steps[s].nout; i++)
      if (p->steps[s].out[i].place.buffer == from) p->steps[s].out[i].place.buffer = to;
  }
  p->buffers[to].last = p->buffers[from].last;
  p->buffers[from].first = p->buffers[from].last = -1; /* gone: never alive */
  p->buffers[from].nbytes = 0;
}

void fuse_share(Program *p) {
  for (int s = 0; s < p->nsteps; s++) {
    Step *step = &p->steps[s];
    if (step->kind != STEP_KERNEL) continue;
    for (int o = 0; o < step->nout; o++)
      for (int i = 0; i < step->nin; i++) {
        int out = step->out[o].place.buffer, in = step->in[i].place.buffer;
        const Buffer *x = &p->buffers[out], *y = &p->buffers[in];
        if (out == in || x->class != BUFFER_TRANSIENT || y->class != BUFFER_TRANSIENT || x->nbytes != y->nbytes) continue;
        if (x->first == s && y->last == s && can_share(step, out, in)) rename_buffer(p, out, in);
      }
  }
}
