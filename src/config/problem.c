/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a run file and the words of the command line, collected in order of place and told in one message:
 *
 *   unknown key 'train.learning_rate'
 *     --> llama7b.yaml:14:3
 *   14 |   learning_rate: 3e-4
 *      |   ^^^^^^^^^^^^^ called 'lr' here
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/config/table.h"

enum { TOLD_MAX = 50, LINE_MAX_BYTES = 160 };

void problem_add_full(Problems *p, Problem problem) { vec_push(p->arena, &p->list, problem); }

void problem_add(Problems *p, Place place, const char *label, const char *what, ...) {
  va_list args;
  va_start(args, what);
  char text[1024];
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  problem_add_full(p, (Problem){.place = place, .label = label, .what = arena_strdup(p->arena, text)});
}

/* The caret line under a text that begins at column 1; columns count characters, not bytes. */
static void print_caret(int column, int width, const char *label, Text *out) {
  text_printf(out, "%*s", column - 1, "");
  for (int i = 0; i < (width > 0 ? width : 1); i++) text_add(out, "^", 1);
  if (label) text_printf(out, " %s", label);
  text_add(out, "\n", 1);
}

static const char *line_of(const char *text, int line, int *nbytes) {
  for (; line > 1 && *text; text++) line -= *text == '\n';
  *nbytes = (int)strcspn(text, "\r\n");
  return text;
}

static void print_file_place(const Problems *p, const Problem *problem, Text *out) {
  const Place *at = &problem->place;
  int nbytes, margin = snprintf(NULL, 0, "%d", at->line);
  const char *line = line_of(p->text, at->line, &nbytes);
  text_printf(out, "\n%*s--> %s:%d:%d", margin, "", p->name ? p->name : "built-in demo", at->line, at->column);
  if (nbytes > LINE_MAX_BYTES) { /* not worth quoting */
    if (problem->label) text_printf(out, "\n%*s | %s", margin, "", problem->label);
    return;
  }
  text_printf(out, "\n%d | ", at->line);
  for (int i = 0; i < nbytes; i++) text_add(out, line[i] == '\t' ? " " : line + i, 1);
  text_printf(out, "\n%*s | ", margin, "");
  print_caret(at->column, at->width, problem->label, out);
  out->at[--out->n] = 0; /* the newline: the caller joins lines */
}

static void print_argument_place(const Problems *p, const Problem *problem, Text *out) {
  const Place *at = &problem->place;
  int indent = 6 + snprintf(NULL, 0, "argument %d: ", at->argument);
  text_printf(out, "\n  --> argument %d: %s\n", at->argument, p->argv[at->argument]);
  print_caret(indent + at->column, at->width, problem->label, out);
  out->at[--out->n] = 0;
}

void problem_print(const Problems *p, const Problem *problem, Text *out) {
  text_printf(out, "%s", problem->what);
  if (problem->place.argument) {
    print_argument_place(p, problem, out);
  } else if (problem->place.line && p->text) {
    print_file_place(p, problem, out);
  } else if (p->name) {
    text_printf(out, "\n  --> %s", p->name);
  }
  if (problem->body) text_printf(out, "\n%s", problem->body);
  if (problem->help) text_printf(out, "\nhelp: %s", problem->help);
}

/* File first, from top to bottom, then what has no line, then the command line. */
static int64_t problem_order(const Problem *p) {
  if (p->place.argument) return INT64_MAX / 2 + p->place.argument;
  if (!p->place.line) return INT64_MAX / 2;
  return (int64_t)p->place.line * 100000 + p->place.column;
}

static void problems_sort(Problems *p) { /* insertion: few, nearly sorted, must be stable */
  for (int i = 1; i < p->list.n; i++) {
    Problem moved = p->list.at[i];
    int j = i;
    for (; j > 0 && problem_order(&p->list.at[j - 1]) > problem_order(&moved); j--) p->list.at[j] = p->list.at[j - 1];
    p->list.at[j] = moved;
  }
}

void problems_end(Problems *p) {
  if (!p->list.n) return;
  problems_sort(p);
  Text out = {0};
  for (int i = 0; i < p->list.n && i < TOLD_MAX; i++) {
    if (i) text_printf(&out, "\n\nerror: ");
    problem_print(p, &p->list.at[i], &out);
  }
  if (p->list.n > TOLD_MAX) text_printf(&out, "\n\nand %d more errors", p->list.n - TOLD_MAX);
  const char *text = arena_strdup(p->arena, out.at);
  text_close(&out); /* a fail hook may jump back into a test */
  fail(FAIL_INPUT, "%s", text);
}
