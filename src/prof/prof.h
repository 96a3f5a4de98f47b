/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step of training goes.
 *
 * While a profile is recorded, the host's clock brackets every span of host work and every item (a step of a program) that is
 * run, and on a GPU CUPTI records what each item has started there.  What was recorded becomes a trace, in the dialect of
 * Chrome's format that PyTorch's Kineto writes (chrome://tracing, Perfetto and Holistic Trace Analysis read it), and a table.
 *
 * The table charges every instant of the recorded steps once: to the item that is computing; else to a copy; else to the
 * collective that is under way (which is then exposed); else, nothing being busy, to the host's work where it is in a span
 * of its own, or to a gap.  So the rows' shares add up to the steps' time.
 *
 * All functions take a profile that is NULL or not recording, and do nothing then. */
#ifndef PROF_PROF_H
#define PROF_PROF_H

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/base/vec.h"
#include "src/dev/dev.h"

typedef struct Prof Prof;

typedef enum ProfKind {
  PROF_PRODUCTS,
  PROF_ATTENTION,
  PROF_EMBEDDING,
  PROF_ROUTING, /* of experts: what chooses them, and rows on their way to them and back */
  PROF_FUSED,
  PROF_UPDATE, /* kernels of a program that writes states */
  PROF_COPIES,
  PROF_GATHERS, /* PROF_GATHERS, PROF_REDUCTIONS: exposed */
  PROF_REDUCTIONS,
  PROF_GAPS,
  PROF_HOST,
  PROF_KINDS
} ProfKind;
extern const char *const prof_kind_names[PROF_KINDS];

/* A step of a program: what one run of it computes and moves, as far as the algorithm asks for it; 0: unknown. */
typedef struct ProfItem {
  const char *name;
  ProfKind kind;
  double flops, nbytes;
  bool narrow; /* a product of 16-bit operands */
} ProfItem;

/* --- recording ------------------------------------------------------------------------------------------------------------ */

Prof *prof_open(Dev *dev, int rank, int ranks);
void prof_close(Prof *prof);
/* Registers a program, before anything is recorded; items stay the caller's.  Returns its number. */
int prof_program(Prof *prof, const char *name, const ProfItem *items, int nitems);

/* What is alive at each item of a program: alive[item * nclasses + class] bytes; all stays the caller's. */
void prof_memory(Prof *prof, int program, const char *const *classes, int nclasses, const size_t *alive);
/* Who holds memory at its peak; stays the caller's. */
typedef struct ProfHolder {
  double nbytes;
  const char *class, *name;
} ProfHolder;
typedef struct ProfPeak {
  double nbytes;     /* all that is planned; 0: not told */
  const char *place; /* "backward of layers.31, matmul, in micro.last" */
  VEC(ProfHolder) holders;
} ProfPeak;
void prof_peak(Prof *prof, const ProfPeak *peak);

/* prof_arm makes ready, which takes a while on a GPU; prof_start records from now on, and now is the trace's zero: ranks call it
 * right after a barrier.  wall: the same on all ranks, seconds since 1970. */
void prof_arm(Prof *prof);
void prof_start(Prof *prof, double wall);
void prof_stop(Prof *prof); /* waits for the device */
bool prof_on(const Prof *prof);

void prof_step_begin(Prof *prof, int64_t number); /* of training */
void prof_step_end(Prof *prof);
/* Host work; spans nest.  name is kept, not copied. */
void prof_span_begin(Prof *prof, const char *name);
void prof_span_end(Prof *prof);
void prof_run_begin(Prof *prof, int program);
void prof_run_end(Prof *prof);
void prof_item_begin(Prof *prof, int item); /* within a run */
void prof_item_end(Prof *prof);

/* --- what was recorded ------------------------------------------------------------------------------------------------------ */

void prof_trace_print(const Prof *prof, Text *out);
/* The items of the first recorded step in the order in which they were started; seconds: when each began (on a device, if it has
 * told), from the first one's. */
typedef void ProfVisit(void *self, int program, int item, double seconds);
void prof_visit(const Prof *prof, ProfVisit *visit, void *self);

/* All numbers but rank, ranks, first and last are sums over the recorded steps. */
typedef struct ProfRow {
  const char *program; /* "" : of none */
  ProfKind kind;
  const char *name;
  double calls;
  double busy;          /* seconds from begin to end of each call */
  double own;           /* seconds of the steps that are charged to it */
  double flops, nbytes; /* 0: unknown */
  double floor;         /* seconds at the device's sustained rates: the slower of flops and bytes; 0: unknown */
} ProfRow;

typedef struct ProfTable {
  int64_t rank, ranks, first, last, steps; /* first, last: of training, steps: how many were recorded */
  const char *device;
  double seconds; /* of the steps; rows' own add up to it */
  int64_t strays; /* kernels that belong to no item */
  VEC(ProfRow) rows;
  ProfPeak peak;
} ProfTable;

ProfTable *prof_table(const Prof *prof, Arena *arena);
/* As text: lines of fields between tabs, the first is the line's type; one that reads back as the same table. */
void prof_table_write(const ProfTable *table, Text *out);
bool prof_table_try_read(Arena *arena, const char *path, ProfTable **table, Why *why);

/* For people.  tables: n >= 1 ranks', of which tables[shown] is broken down by item, most time first, at most nrows of them. */
void prof_table_print(ProfTable *const *tables, int n, int shown, int nrows, Text *out);

/* Sustained rates of a device by its name; 0: unknown. */
typedef struct ProfRates {
  double narrow, wide; /* FLOP/s of products with 16-bit and with 32-bit operands */
  double bytes;        /* a second, read and written */
} ProfRates;
ProfRates prof_rates(const char *device);

#endif
