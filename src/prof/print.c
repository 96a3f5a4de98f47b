/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a profile for people: kinds over ranks, kinds by program, items. */
#include <stdlib.h>
#include <string.h>

#include "src/prof/prof.h"

static double own_of(const ProfTable *t, const char *program, ProfKind kind) {
  double sum = 0;
  for (int i = 0; i < t->rows.n; i++)
    if (t->rows.at[i].kind == kind && (!program || !strcmp(t->rows.at[i].program, program))) sum += t->rows.at[i].own;
  return sum;
}

static double per_step(const ProfTable *t, double seconds) { return 1e3 * seconds / (double)t->steps; }

/* --- ranks ------------------------------------------------------------------------------------------------------------------- */

static const char *kind_label(ProfKind kind) {
  return kind == PROF_GATHERS ? "gathers exposed" : kind == PROF_REDUCTIONS ? "reductions exposed" : prof_kind_names[kind];
}

static void print_over_ranks(ProfTable *const *tables, int n, int kind, Text *out) {
  double least = 0, most = 0, sum = 0, whole = 0;
  int64_t slowest = 0;
  for (int i = 0; i < n; i++) {
    double ms = per_step(tables[i], kind == PROF_KINDS ? tables[i]->seconds : own_of(tables[i], NULL, (ProfKind)kind));
    if (!i || ms < least) least = ms;
    if (!i || ms > most) most = ms, slowest = tables[i]->rank;
    sum += ms;
    whole += per_step(tables[i], tables[i]->seconds);
  }
  if (sum == 0) return;
  text_printf(out, "  %-18s %9.3f %9.3f %9.3f %5lld %6.1f\n", kind == PROF_KINDS ? "step" : kind_label((ProfKind)kind), least,
              sum / n, most, (long long)slowest, 100 * sum / whole);
}

static void print_ranks(ProfTable *const *tables, int n, Text *out) {
  text_printf(out, "%-20s %9s %9s %9s %5s %6s\n", "ms/step", "min", "avg", "max", "rank", "%");
  for (int kind = 0; kind <= PROF_KINDS; kind++) print_over_ranks(tables, n, kind, out);
}

/* --- programs ------------------------------------------------------------------------------------------------------------------
 */

/* The first row of each program stands for it. */
static bool is_first(const ProfTable *t, int row) {
  for (int i = 0; i < row; i++)
    if (!strcmp(t->rows.at[i].program, t->rows.at[row].program)) return false;
  return true;
}

static void print_programs(const ProfTable *t, Text *out) {
  bool there[PROF_KINDS];
  text_printf(out, "%-20s %9s", "ms/step", "all");
  for (int kind = 0; kind < PROF_KINDS; kind++) {
    there[kind] = own_of(t, NULL, (ProfKind)kind) > 0;
    if (there[kind]) text_printf(out, " %10s", prof_kind_names[kind]);
  }
  text_printf(out, "\n");
  for (int i = 0; i < t->rows.n; i++) {
    const char *program = t->rows.at[i].program;
    double all = 0;
    if (!is_first(t, i)) continue;
    for (int kind = 0; kind < PROF_KINDS; kind++) all += own_of(t, program, (ProfKind)kind);
    text_printf(out, "  %-18.40s %9.3f", *program ? program : "between", per_step(t, all));
    for (int kind = 0; kind < PROF_KINDS; kind++)
      if (there[kind]) text_printf(out, " %10.3f", per_step(t, own_of(t, program, (ProfKind)kind)));
    text_printf(out, "\n");
  }
}

/* --- items ---------------------------------------------------------------------------------------------------------------------
 */

static int by_own(const void *a, const void *b) {
  const ProfRow *x = a, *y = b;
  return x->own != y->own ? (x->own > y->own ? -1 : 1) : strcmp(x->name, y->name);
}

/* Rows of one name and kind together, whatever their program. */
static int merge(const ProfTable *t, ProfRow *rows) {
  int n = 0;
  for (int i = 0; i < t->rows.n; i++) {
    const ProfRow *r = &t->rows.at[i];
    int k = 0;
    while (k < n && (rows[k].kind != r->kind || strcmp(rows[k].name, r->name))) k++;
    if (k == n) rows[n++] = (ProfRow){.program = "", .kind = r->kind, .name = r->name};
    rows[k].calls += r->calls;
    rows[k].busy += r->busy;
    rows[k].own += r->own;
    rows[k].flops += r->flops;
    rows[k].nbytes += r->nbytes;
    rows[k].floor += r->floor;
  }
  qsort(rows, (size_t)n, sizeof *rows, by_own);
  return n;
}

static void print_cell(Text *out, int width, int decimals, double value, bool known) {
  if (known)
    text_printf(out, " %*.*f", width, decimals, value);
  else
    text_printf(out, " %*s", width, "-");
}

static void print_row(const ProfTable *t, const ProfRow *r, Text *out) {
  bool runs = r->busy > 0;
  text_printf(out, "%9.3f %5.1f", per_step(t, r->own), 100 * r->own / t->seconds);
  print_cell(out, 6, 0, r->calls / (double)t->steps, r->calls > 0);
  print_cell(out, 8, r->flops < 1e11 * r->busy ? 3 : 0, 1e-12 * r->flops / r->busy, runs && r->flops > 0);
  print_cell(out, 6, r->nbytes < 1e10 * r->busy ? 2 : 0, 1e-9 * r->nbytes / r->busy, runs && r->nbytes > 0 && r->flops == 0);
  print_cell(out, 8, 2, r->busy / r->floor, runs && r->floor > 0);
  bool hidden = (r->kind == PROF_GATHERS || r->kind == PROF_REDUCTIONS) && r->busy > 1.001 * r->own;
  text_printf(out, "  %s: %.90s", kind_label(r->kind), r->name);
  if (hidden) text_printf(out, " (%.3f ms in all)", per_step(t, r->busy));
  text_printf(out, "\n");
}

static void print_items(const ProfTable *t, int nrows, Text *out) {
  ProfRow *rows = xmalloc(sizeof *rows * (size_t)(t->rows.n + 1)), rest = {0};
  int n = merge(t, rows);
  text_printf(out, "%9s %5s %6s %8s %6s %8s\n", "ms/step", "%", "calls", "TFLOP/s", "GB/s", "x floor");
  for (int i = 0; i < n; i++)
    if (i < nrows)
      print_row(t, &rows[i], out);
    else
      rest.own += rows[i].own;
  if (n > nrows)
    text_printf(out, "%9.3f %5.1f %6s %8s %6s %8s  %d more\n", per_step(t, rest.own), 100 * rest.own / t->seconds, "", "", "", "",
                n - nrows);
  free(rows);
}

static void print_peak(const ProfTable *t, Text *out) {
  const ProfPeak *peak = &t->peak;
  bool small = peak->nbytes < 0x1p30;
  double unit = small ? 0x1p20 : 0x1p30;
  if (!peak->nbytes) return;
  text_printf(out, "\nrank %lld, memory: %.3f %s planned, most of it in use in %s\n%9s  %-11s\n", (long long)t->rank,
              peak->nbytes / unit, small ? "MiB" : "GiB", peak->place, small ? "MiB" : "GiB", "class");
  for (int i = 0; i < peak->holders.n; i++)
    text_printf(out, "%9.3f  %-11s  %.100s\n", peak->holders.at[i].nbytes / unit, peak->holders.at[i].class,
                peak->holders.at[i].name);
}

void prof_table_print(ProfTable *const *tables, int n, int shown, int nrows, Text *out) {
  const ProfTable *t = tables[shown];
  text_printf(out, "profile  %lld step%s, %lld to %lld; %lld rank%s; %s\n\n", (long long)t->steps, t->steps == 1 ? "" : "s",
              (long long)t->first, (long long)t->last, (long long)t->ranks, t->ranks == 1 ? "" : "s", t->device);
  print_ranks(tables, n, out);
  text_printf(out, "\nrank %lld, by program\n", (long long)t->rank);
  print_programs(t, out);
  text_printf(out, "\nrank %lld, by item\n", (long long)t->rank);
  print_items(t, nrows, out);
  print_peak(t, out);
  if (t->strays) text_printf(out, "note  %lld kernels belong to no item of a program\n", (long long)t->strays);
}
