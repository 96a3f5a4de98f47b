/* SPDX-License-Identifier: Apache-2.0 */
/* A program without what it took to compile it. */
#include <string.h>

#include "src/fuse/fuse.h"

static void *copy_bytes(Arena *arena, const void *from, size_t nbytes) {
  void *to = arena_alloc(arena, nbytes);
  if (nbytes) memcpy(to, from, nbytes);
  return to;
}

#define COPY(arena, from, n) copy_bytes((arena), (from), sizeof *(from) * (size_t)(n))

static const Kernel *copy_kernel(Arena *arena, const Kernel *kernel) {
  Kernel *k = COPY(arena, kernel, 1);
  k->values = COPY(arena, kernel->values, kernel->nvalues);
  k->inputs = COPY(arena, kernel->inputs, kernel->ninputs);
  k->outputs = COPY(arena, kernel->outputs, kernel->noutputs);
  k->comment = arena_strdup(arena, kernel->comment);
  return k;
}

Program *program_copy(Arena *arena, const Program *program) {
  Program *p = COPY(arena, program, 1);
  p->arena = arena;
  p->graph = graph_clone(program->graph, arena);
  p->source = program->source ? graph_clone(program->source, arena) : NULL;
  p->steps = COPY(arena, program->steps, program->nsteps);
  for (int i = 0; i < p->nsteps; i++) {
    Step *s = &p->steps[i];
    s->in = COPY(arena, s->in, s->nin);
    s->out = COPY(arena, s->out, s->nout);
    if (s->kernel) s->kernel = copy_kernel(arena, s->kernel);
  }
  p->buffers = COPY(arena, program->buffers, program->nbuffers);
  for (int i = 0; i < p->nbuffers; i++) p->buffers[i].name = arena_strdup(arena, p->buffers[i].name);
  return p;
}
