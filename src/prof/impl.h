/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from the inside, and what records a device.  Private to src/prof.  Times are seconds of clock_seconds(). */
#ifndef PROF_IMPL_H
#define PROF_IMPL_H

#include "src/prof/prof.h"

typedef enum ProfWhat { PROF_KERNEL, PROF_COPY, PROF_SET, PROF_CALL } ProfWhat;

/* What a device has done, or (PROF_CALL) what the host has called for it. */
typedef struct ProfEvent {
  ProfWhat what;
  const char *name;
  double begin, end;
  int64_t bracket; /* number of the bracket in which it was started; -1: in none */
  uint32_t stream, correlation, device, context;
  uint64_t nbytes; /* copied or set */
  int grid[3], block[3], registers, shared;
} ProfEvent;

/* Host work. */
typedef struct ProfSpan {
  const char *name;
  int program; /* that it runs; -1: none */
  double begin, end;
} ProfSpan;

/* One run of an item on the host: on a CPU its work, on a GPU its launch. */
typedef struct ProfBracket {
  int span, item;
  double begin, end;
} ProfBracket;

typedef struct ProfStep {
  int64_t number;
  double begin, end;
} ProfStep;

typedef struct ProfProgram {
  const char *name;
  const ProfItem *items;
  int nitems;
  const char *const *classes; /* prof_memory; NULL: not told */
  int nclasses;
  const size_t *alive;
} ProfProgram;

/* Records what a device does.  One profile a process. */
typedef struct ProfBack {
  void (*arm)(void);
  void (*enter)(uint64_t bracket); /* what is started from now on is this bracket's, to leave */
  void (*leave)(void);
  /* Hands over all that was recorded: of a bracket, or with bracket -1 where that is unknown. */
  void (*stop)(Prof *prof, void (*add)(Prof *prof, const ProfEvent *event));
} ProfBack;
extern const ProfBack prof_cupti; /* in the program's CUDA part */

enum { PROF_NESTED = 8 };

struct Prof {
  Arena *arena;
  Dev *dev;
  const ProfBack *back; /* NULL: the host does the work itself */
  int rank, ranks;
  bool on;
  double zero, wall;
  VEC(ProfProgram) programs;
  VEC(ProfStep) steps;
  VEC(ProfSpan) spans;
  VEC(ProfBracket) brackets;
  VEC(ProfEvent) events; /* of the device, by begin */
  VEC(ProfEvent) calls;  /* by correlation, each once */
  VEC(const char *) names;
  ProfPeak peak;
  int open[PROF_NESTED], nopen; /* spans */
};

static inline const ProfProgram *bracket_program(const Prof *prof, const ProfBracket *b) {
  return &prof->programs.at[prof->spans.at[b->span].program];
}
static inline const ProfItem *bracket_item(const Prof *prof, const ProfBracket *b) {
  return &bracket_program(prof, b)->items[b->item];
}

/* When each bracket's work began, by the device where it has told; in an arena. */
double *prof_begins(const Prof *prof, Arena *arena);

/* The call that started an event; NULL: unknown. */
const ProfEvent *prof_call(const Prof *prof, uint32_t correlation);

#endif
