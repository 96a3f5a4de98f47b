/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of one rank as JSON, an event a line.  Kineto's dialect: times in microseconds after baseTimeNanoseconds; kernels and
 * copies carry stream and correlation, by which readers find the call that started them; steps of training are the annotations
 * ProfilerStep#N; "rank": is followed by a blank, since Holistic Trace Analysis looks for it so.  The pid is the rank, so that
 * ranks' traces can be laid side by side. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/prof/impl.h"

typedef struct Trace {
  const Prof *prof;
  Text *out;
  int events;
  long thread; /* the host's */
} Trace;

static void print_string(Text *out, const char *s) {
  text_printf(out, "\"");
  for (const unsigned char *c = (const unsigned char *)s; *c; c++)
    text_printf(out, *c == '"' || *c == '\\' ? "\\%c" : *c < 32 ? "\\u%04x" : "%c", *c);
  text_printf(out, "\"");
}

static void event_begin(Trace *t, const char *phase, const char *name, long thread) {
  text_printf(t->out, "%s\n  {\"ph\": \"%s\", \"name\": ", t->events++ ? "," : "", phase);
  print_string(t->out, name);
  text_printf(t->out, ", \"pid\": %d, \"tid\": %ld", t->prof->rank, thread);
}

static double micros(const Trace *t, double time) { return 1e6 * (time - t->prof->zero); }

/* What lasts; arguments and the closing braces follow. */
static void complete(Trace *t, const char *category, const char *name, long thread, double begin, double end) {
  double from = micros(t, begin);
  event_begin(t, "X", name, thread);
  text_printf(t->out, ", \"cat\": \"%s\", \"ts\": %.3f, \"dur\": %.3f, \"args\": {", category, from, micros(t, end) - from);
}

/* --- who is who ------------------------------------------------------------------------------------------------------------- */

static void metadata_text(Trace *t, const char *what, long thread, const char *value) {
  event_begin(t, "M", what, thread);
  text_printf(t->out, ", \"ts\": 0, \"args\": {\"name\": ");
  print_string(t->out, value);
  text_printf(t->out, "}}");
}

static void metadata_order(Trace *t, const char *what, long thread, int order) {
  event_begin(t, "M", what, thread);
  text_printf(t->out, ", \"ts\": 0, \"args\": {\"sort_index\": %d}}", order);
}

static void name_threads(Trace *t) {
  const Prof *prof = t->prof;
  char name[64];
  int streams = 0;
  snprintf(name, sizeof name, "rank %d", prof->rank);
  metadata_text(t, "process_name", t->thread, name);
  metadata_order(t, "process_sort_index", t->thread, prof->rank);
  metadata_text(t, "thread_name", t->thread, "host");
  metadata_order(t, "thread_sort_index", t->thread, 0);
  for (int i = 0; i < prof->events.n && prof->back; i++) {
    uint32_t stream = prof->events.at[i].stream;
    int k = 0;
    while (prof->events.at[k].stream != stream) k++;
    if (k < i) continue;
    snprintf(name, sizeof name, "stream %u", stream);
    metadata_text(t, "thread_name", (long)stream, name);
    metadata_order(t, "thread_sort_index", (long)stream, ++streams);
  }
}

/* --- the host --------------------------------------------------------------------------------------------------------------- */

static void print_host(Trace *t) {
  const Prof *prof = t->prof;
  char name[64];
  for (int i = 0; i < prof->steps.n; i++) {
    const ProfStep *s = &prof->steps.at[i];
    snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)s->number);
    complete(t, "user_annotation", name, t->thread, s->begin, s->end);
    text_printf(t->out, "}}");
  }
  for (int i = 0; i < prof->spans.n; i++) {
    const ProfSpan *s = &prof->spans.at[i];
    complete(t, s->program >= 0 ? "cpu_op" : "user_annotation", s->name, t->thread, s->begin, s->end);
    text_printf(t->out, "}}");
  }
}

/* The External id of an item's run is the number of its bracket plus one, so that 0 is none. */
static void print_item(Trace *t, int64_t bracket) {
  const ProfBracket *b = &t->prof->brackets.at[bracket];
  text_printf(t->out, "\"External id\": %lld, \"program\": ", (long long)bracket + 1);
  print_string(t->out, bracket_program(t->prof, b)->name);
  text_printf(t->out, ", \"step\": %d, \"kind\": \"%s\"", b->item, prof_kind_names[bracket_item(t->prof, b)->kind]);
}

static void print_brackets(Trace *t) {
  for (int i = 0; i < t->prof->brackets.n; i++) {
    const ProfBracket *b = &t->prof->brackets.at[i];
    complete(t, "cpu_op", bracket_item(t->prof, b)->name, t->thread, b->begin, b->end);
    print_item(t, i);
    text_printf(t->out, "}}");
  }
}

/* Counters, where they change.  A program that is over leaves what the next one begins with. */
static void print_memory(Trace *t) {
  Arena *arena = arena_open();
  const double *begins = prof_begins(t->prof, arena);
  const size_t *before = NULL;
  for (int i = 0; i < t->prof->brackets.n; i++) {
    const ProfBracket *b = &t->prof->brackets.at[i];
    const ProfProgram *p = bracket_program(t->prof, b);
    if (!p->alive) continue;
    const size_t *alive = &p->alive[b->item * p->nclasses];
    if (before && !memcmp(before, alive, sizeof *alive * (size_t)p->nclasses)) continue;
    before = alive;
    event_begin(t, "C", "memory (bytes)", t->thread);
    text_printf(t->out, ", \"ts\": %.3f, \"args\": {", micros(t, begins[i]));
    for (int c = 0; c < p->nclasses; c++) text_printf(t->out, "%s\"%s\": %zu", c ? ", " : "", p->classes[c], alive[c]);
    text_printf(t->out, "}}");
  }
  arena_close(arena);
}

static void print_calls(Trace *t) {
  for (int i = 0; i < t->prof->calls.n; i++) {
    const ProfEvent *c = &t->prof->calls.at[i];
    complete(t, strncmp(c->name, "cuda", 4) ? "cuda_driver" : "cuda_runtime", c->name, t->thread, c->begin, c->end);
    text_printf(t->out, "\"correlation\": %u}}", c->correlation);
  }
}

/* --- the device -------------------------------------------------------------------------------------------------------------- */

static void print_flow(Trace *t, const ProfEvent *e) {
  const ProfEvent *call = prof_call(t->prof, e->correlation);
  if (!call) return;
  for (int end = 0; end < 2; end++) {
    event_begin(t, end ? "f" : "s", "ac2g", end ? (long)e->stream : t->thread);
    text_printf(t->out, ", \"cat\": \"ac2g\", \"id\": %u, \"ts\": %.3f%s}", e->correlation, micros(t, end ? e->begin : call->begin),
                end ? ", \"bp\": \"e\"" : "");
  }
}

static void print_kernel(Trace *t, const ProfEvent *e) {
  text_printf(t->out, ", \"grid\": [%d, %d, %d], \"block\": [%d, %d, %d], \"registers per thread\": %d, \"shared memory\": %d",
              e->grid[0], e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2], e->registers, e->shared);
}

static void print_moved(Trace *t, const ProfEvent *e) {
  double seconds = e->end - e->begin;
  text_printf(t->out, ", \"bytes\": %llu", (unsigned long long)e->nbytes);
  if (seconds > 0) text_printf(t->out, ", \"memory bandwidth (GB/s)\": %.3f", 1e-9 * (double)e->nbytes / seconds);
}

static void print_device(Trace *t) {
  static const char *const categories[] = {[PROF_KERNEL] = "kernel", [PROF_COPY] = "gpu_memcpy", [PROF_SET] = "gpu_memset"};
  for (int i = 0; i < t->prof->events.n; i++) {
    const ProfEvent *e = &t->prof->events.at[i];
    complete(t, categories[e->what], e->name, (long)e->stream, e->begin, e->end);
    text_printf(t->out, "\"device\": %u, \"context\": %u, \"stream\": %u, \"correlation\": %u", e->device, e->context, e->stream,
                e->correlation);
    if (e->bracket >= 0) {
      text_printf(t->out, ", ");
      print_item(t, e->bracket);
    }
    (e->what == PROF_KERNEL ? print_kernel : print_moved)(t, e);
    text_printf(t->out, "}}");
    print_flow(t, e);
  }
}

void prof_trace_print(const Prof *prof, Text *out) {
  Trace t = {.prof = prof, .out = out, .thread = (long)getpid()};
  text_printf(out, "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{\"id\": 0, \"name\": ");
  print_string(out, dev_describe(prof->dev));
  text_printf(out, "}],\n\"distributedInfo\": {\"backend\": \"%s\", \"rank\": %d, \"world_size\": %d},\n",
              prof->back ? "nccl" : "mpi", prof->rank, prof->ranks);
  text_printf(out, "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %.0f,\n\"traceEvents\": [", 1e9 * prof->wall);
  name_threads(&t);
  print_host(&t);
  print_brackets(&t);
  print_memory(&t);
  if (prof->back) {
    print_calls(&t);
    print_device(&t);
  }
  text_printf(out, "\n]\n}\n");
}
