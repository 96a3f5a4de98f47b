/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/shadow.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Added to tags between a collective's start and its end: of what it writes and of what it reads. */
enum { IN_FLIGHT = 1 << 30, LENT = 1 << 29 };

typedef struct Shadow {
  const Program *program;
  Arena *arena;
  int **tag; /* by buffer: of its bytes; those of transient buffers lie in one piece of memory */
  int step;
} Shadow;

static char wrong[256];

__attribute__((format(printf, 2, 3))) static void complain(const Shadow *s, const char *format, ...) {
  if (*wrong) return; /* the first is told */
  int n = snprintf(wrong, sizeof wrong, "step %d: ", s->step);
  va_list args;
  va_start(args, format);
  vsnprintf(wrong + n, sizeof wrong - (size_t)n, format, args);
  va_end(args);
}

/* --- accesses ------------------------------------------------------------------------------------------------------------- */

typedef void Touch(Shadow *s, int buffer, int64_t byte);

static void read_byte(Shadow *s, int buffer, int64_t byte) {
  int tag = s->tag[buffer][byte] & ~LENT;
  if (tag == buffer + 1) return;
  if (!tag)
    complain(s, "byte %" PRId64 " of b%d is read and was never written", byte, buffer);
  else
    complain(s, "byte %" PRId64 " of b%d is read, and is b%d's%s", byte, buffer, (tag & ~IN_FLIGHT) - 1,
             tag & IN_FLIGHT ? ", on its way" : "");
}

static void write_byte(Shadow *s, int buffer, int64_t byte) {
  if (s->tag[buffer][byte] & IN_FLIGHT) complain(s, "byte %" PRId64 " of b%d is written while on its way", byte, buffer);
  if (s->tag[buffer][byte] & LENT) complain(s, "byte %" PRId64 " of b%d is written while it is sent", byte, buffer);
  s->tag[buffer][byte] = buffer + 1;
}

static void start_byte(Shadow *s, int buffer, int64_t byte) {
  write_byte(s, buffer, byte);
  s->tag[buffer][byte] |= IN_FLIGHT;
}

static void arrive_byte(Shadow *s, int buffer, int64_t byte) {
  if (s->tag[buffer][byte] != ((buffer + 1) | IN_FLIGHT)) complain(s, "byte %" PRId64 " of b%d was lost on its way", byte, buffer);
  s->tag[buffer][byte] = buffer + 1;
}

static void lend_byte(Shadow *s, int buffer, int64_t byte) { s->tag[buffer][byte] |= LENT; }

static void return_byte(Shadow *s, int buffer, int64_t byte) { s->tag[buffer][byte] &= ~LENT; }

/* Every element of a strided access. */
static void touch_all(Shadow *s, const StepArg *arg, const Shape *shape, const int64_t *stride, Touch *touch) {
  const Buffer *b = &s->program->buffers[arg->place.buffer];
  int64_t size = (int64_t)dtype_size(arg->dtype), n = shape_size(shape);
  for (int64_t i = 0; i < n && !*wrong; i++) {
    int64_t at = arg->place.offset, rest = i;
    for (int a = shape->rank - 1; a >= 0; a--) {
      at += rest % shape->dim[a] * stride[a];
      rest /= shape->dim[a];
    }
    if (at < 0 || (uint64_t)((at + 1) * size) > b->nbytes) {
      complain(s, "element %" PRId64 " of b%d, which has %zu bytes", at, arg->place.buffer, b->nbytes);
      return;
    }
    for (int64_t k = 0; k < size; k++) touch(s, arg->place.buffer, at * size + k);
  }
}

static void touch_arg(Shadow *s, const StepArg *arg, Touch *touch) { touch_all(s, arg, &arg->shape, arg->place.stride, touch); }

static void touch_workspace(Shadow *s, const Step *step, Touch *touch) {
  if (step->workspace < 0) return;
  for (size_t i = 0; i < s->program->buffers[step->workspace].nbytes; i++) touch(s, step->workspace, (int64_t)i);
}

/* --- steps ---------------------------------------------------------------------------------------------------------------- */

static void run_kernel(Shadow *s, const Step *step) {
  const Kernel *k = step->kernel;
  for (int i = 0; i < step->nin; i++) touch_all(s, &step->in[i], &k->domain, k->inputs[i].stride, read_byte);
  for (int o = 0; o < step->nout; o++) {
    const KernelValue *v = &k->values[k->outputs[o].value];
    Shape partials =
        SHAPE(k->blocks, v->kop == K_COLUMN_SUM && k->values[v->in[0]].level == LEVEL_FULL ? k->domain.dim[k->domain.rank - 1] : 1);
    if (v->kop == K_COLUMN_SUM && k->blocks > 1)
      touch_all(s, &step->out[o], &partials, (int64_t[]){partials.dim[1], 1}, write_byte);
    else
      touch_all(s, &step->out[o], &k->domain, k->outputs[o].stride, write_byte);
  }
}

static void run_big(Shadow *s, const Step *step) {
  bool adds = (step->op == OP_MATMUL || step->op == OP_EMBEDDING_GRAD || step->op == OP_GROUPED_GRAD) && step->n[0];
  for (int i = 0; i < step->nin; i++) touch_arg(s, &step->in[i], read_byte);
  if (adds) touch_arg(s, &step->out[0], read_byte);
  touch_workspace(s, step, write_byte);
  for (int o = 0; o < step->nout; o++) touch_arg(s, &step->out[o], write_byte);
  for (int i = 0; i < step->nin && !adds; i++) touch_arg(s, &step->in[i], read_byte); /* no result lies over an operand */
  touch_workspace(s, step, read_byte);
}

static bool in_place(const Step *step) { return step->in[0].place.buffer == step->out[0].place.buffer; } /* an all_reduce */

static void run_start(Shadow *s, const Step *step) {
  touch_arg(s, &step->in[0], read_byte);
  if (!in_place(step)) touch_arg(s, &step->in[0], lend_byte);
  touch_workspace(s, step, write_byte);
  touch_arg(s, &step->out[0], start_byte);
}

static void run_wait(Shadow *s, const Step *step) {
  if (!in_place(step)) touch_arg(s, &step->in[0], read_byte);
  if (!in_place(step)) touch_arg(s, &step->in[0], return_byte);
  touch_workspace(s, step, read_byte);
  touch_arg(s, &step->out[0], arrive_byte);
}

static void (*const runs[])(Shadow *s, const Step *step) = {[STEP_KERNEL] = run_kernel,          [STEP_BIG] = run_big,
                                                            [STEP_COLLECTIVE_START] = run_start, [STEP_COLLECTIVE_WAIT] = run_wait,
                                                            [STEP_TRANSFER_START] = run_start,   [STEP_TRANSFER_WAIT] = run_wait};

const char *shadow_run(const Program *p) {
  Shadow s = {.program = p, .arena = arena_open(), .step = -1};
  *wrong = 0;
  int *transient = arena_array(s.arena, int, p->transient), *host = arena_array(s.arena, int, p->host);
  s.tag = arena_array(s.arena, int *, p->nbuffers);
  for (int b = 0; b < p->nbuffers; b++) {
    const Buffer *buffer = &p->buffers[b];
    if (buffer->class == BUFFER_TRANSIENT || buffer->class == BUFFER_HOST) {
      bool here = buffer->class == BUFFER_TRANSIENT;
      s.tag[b] = (here ? transient : host) + buffer->offset;
      if (buffer->first >= 0 && (size_t)buffer->offset + buffer->nbytes > (here ? p->transient : p->host))
        complain(&s, "b%d is outside", b);
    } else {
      s.tag[b] = arena_ints(s.arena, (int)buffer->nbytes, b + 1); /* written before the program */
    }
  }
  for (s.step = 0; s.step < p->nsteps && !*wrong; s.step++) runs[p->steps[s.step].kind](&s, &p->steps[s.step]);
  arena_close(s.arena);
  return wrong;
}
