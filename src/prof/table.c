/* SPDX-License-Identifier: Apache-2.0 */
/* A table as text and back. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/prof/prof.h"

static const char magic[] = "hpctrain-profile";
enum { TABLE_VERSION = 1, FIELDS = 10, ROWS_MOST = 1 << 16 };

/* Names with what separates fields made blanks. */
static void print_name(Text *out, const char *name) {
  for (; *name; name++) text_add(out, *name == '\t' || *name == '\n' || *name == '\r' ? " " : name, 1);
}

static void print_number(Text *out, double value) {
  char number[NUM_TEXT];
  text_printf(out, "\t%s", num_double(value, number));
}

void prof_table_write(const ProfTable *t, Text *out) {
  text_printf(out, "%s\t%d\nrank\t%lld\t%lld\nsteps\t%lld\t%lld\t%lld\ndevice\t", magic, TABLE_VERSION, (long long)t->rank,
              (long long)t->ranks, (long long)t->first, (long long)t->last, (long long)t->steps);
  print_name(out, t->device);
  text_printf(out, "\nstrays\t%lld\nseconds", (long long)t->strays);
  print_number(out, t->seconds);
  if (t->peak.nbytes > 0) {
    text_printf(out, "\nmemory");
    print_number(out, t->peak.nbytes);
    text_printf(out, "\t");
    print_name(out, t->peak.place);
  }
  for (int i = 0; i < t->peak.holders.n; i++) {
    const ProfHolder *h = &t->peak.holders.at[i];
    text_printf(out, "\nholder");
    print_number(out, h->nbytes);
    text_printf(out, "\t%s\t", h->class);
    print_name(out, h->name);
  }
  text_printf(out, "\nrows\t%d\n# row\tprogram\tkind\tname\tcalls\tbusy\town\tflops\tbytes\tfloor\n", t->rows.n);
  for (int i = 0; i < t->rows.n; i++) {
    const ProfRow *r = &t->rows.at[i];
    text_printf(out, "row\t");
    print_name(out, r->program);
    text_printf(out, "\t%s\t", prof_kind_names[r->kind]);
    print_name(out, r->name);
    const double numbers[] = {r->calls, r->busy, r->own, r->flops, r->nbytes, r->floor};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) print_number(out, numbers[k]);
    text_printf(out, "\n");
  }
}

/* --- reading ----------------------------------------------------------------------------------------------------------------- */

/* Cuts line at its tabs; returns how many fields, FIELDS + 1 for more. */
static int split(char *line, char *field[FIELDS]) {
  int n = 0;
  for (char *at = line; at && n <= FIELDS; n++) {
    if (n < FIELDS) field[n] = at;
    at = strchr(at, '\t');
    if (at) *at++ = 0;
  }
  return n;
}

static bool read_amount(const char *text, double *value) {
  return num_parse_double(text, value) && isfinite(*value) && *value >= 0;
}

static bool read_row(Arena *arena, ProfTable *t, char **field) {
  ProfRow r = {.program = arena_strdup(arena, field[1]), .name = arena_strdup(arena, field[3])};
  double *const numbers[] = {&r.calls, &r.busy, &r.own, &r.flops, &r.nbytes, &r.floor};
  while (r.kind < PROF_KINDS && strcmp(prof_kind_names[r.kind], field[2])) r.kind++;
  for (int k = 0; k < 6; k++)
    if (!read_amount(field[4 + k], numbers[k])) return false;
  if (r.kind == PROF_KINDS || t->rows.n == ROWS_MOST) return false;
  vec_push(arena, &t->rows, r);
  return true;
}

static bool read_holder(Arena *arena, ProfTable *t, char **field) {
  ProfHolder h = {.class = arena_strdup(arena, field[2]), .name = arena_strdup(arena, field[3])};
  if (!read_amount(field[1], &h.nbytes) || t->peak.holders.n == ROWS_MOST) return false;
  vec_push(arena, &t->peak.holders, h);
  return true;
}

static bool read_line(Arena *arena, ProfTable *t, int64_t *rows, char *line) {
  char *field[FIELDS];
  if (*line == '#') return true;
  int n = split(line, field);
  const char *what = field[0];
  if (!strcmp(what, "row")) return n == FIELDS && read_row(arena, t, field);
  if (!strcmp(what, "rank") && n == 3) return num_parse_int(field[1], &t->rank) && num_parse_int(field[2], &t->ranks);
  if (!strcmp(what, "steps") && n == 4)
    return num_parse_int(field[1], &t->first) && num_parse_int(field[2], &t->last) && num_parse_int(field[3], &t->steps);
  if (!strcmp(what, "device") && n == 2) return (t->device = arena_strdup(arena, field[1]));
  if (!strcmp(what, "strays") && n == 2) return num_parse_int(field[1], &t->strays);
  if (!strcmp(what, "holder") && n == 4) return read_holder(arena, t, field);
  if (!strcmp(what, "memory") && n == 3)
    return read_amount(field[1], &t->peak.nbytes) && (t->peak.place = arena_strdup(arena, field[2]));
  if (!strcmp(what, "rows") && n == 2) return num_parse_int(field[1], rows);
  return !strcmp(what, "seconds") && n == 2 && read_amount(field[1], &t->seconds);
}

static bool is_whole(const ProfTable *t) {
  return t->device && t->steps > 0 && t->first > 0 && t->last >= t->first && t->seconds > 0 && t->rank >= 0 && t->rank < t->ranks;
}

static bool read_lines(Arena *arena, ProfTable *t, char *text, const char *path, Why *why) {
  int number = 0;
  int64_t rows = -1;
  char *next, first[64];
  snprintf(first, sizeof first, "%s\t%d", magic, TABLE_VERSION);
  for (char *line = text; *line; line = next) {
    next = strchr(line, '\n');
    if (!next) return why_not(why, "%s is cut short", path);
    *next++ = 0;
    bool ok = number++ ? read_line(arena, t, &rows, line) : !strcmp(line, first);
    if (!ok) return why_not(why, number > 1 ? "%s:%d is no line of a profile" : "%s:%d: no profile of this program", path, number);
  }
  return (is_whole(t) && t->rows.n == rows) || why_not(why, "%s is not a whole profile", path);
}

bool prof_table_try_read(Arena *arena, const char *path, ProfTable **table, Why *why) {
  size_t n;
  char *text = file_read(path, &n);
  if (!text) return why_not(why, "%s: %s", path, strerror(errno));
  ProfTable *t = *table = arena_new(arena, ProfTable);
  bool ok = strlen(text) == n ? read_lines(arena, t, text, path, why) : why_not(why, "%s: no profile of this program", path);
  free(text);
  return ok;
}
