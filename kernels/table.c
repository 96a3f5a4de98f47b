/* SPDX-License-Identifier: Apache-2.0 */
/* The table of big-op implementations and the fixed rule: the first row that applies, is there and computes right.  Rows
 * of one op are in the order of speed on the CPUs measured (test/bench); its plain reference is last. */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "kernels/texts.h"
#include "src/base/arena.h"

#define LIBRARY_ROW(lib, of, may)                                                                                                  \
  {                                                                                                                                \
    .op = "matmul", .name = #lib, .family = of, .deterministic = true, .applies = may, .native = lib##_matmul,                     \
    .library = lib##_library                                                                                                       \
  }

static const BigImpl rows[] = {
    {.op = "matmul", .name = "own", .deterministic = true, .workspace = own_matmul_workspace, .text = own_matmul_text},
    LIBRARY_ROW(onednn, NULL, NULL),
    LIBRARY_ROW(mkl, "cblas", cblas_applies),
    LIBRARY_ROW(blis, "cblas", cblas_applies),
    LIBRARY_ROW(openblas, "cblas", cblas_applies),
    LIBRARY_ROW(cblas, "cblas", cblas_applies),
    {.op = "matmul", .name = "reference", .deterministic = true, .native = reference_matmul},
    {.op = "attention",
     .name = "flash",
     .deterministic = true,
     .workspace = flash_attention_workspace,
     .text = flash_attention_text},
    {.op = "attention", .name = "reference", .deterministic = true, .native = reference_attention},
    {.op = "attention_grad",
     .name = "flash",
     .deterministic = true,
     .workspace = flash_attention_grad_workspace,
     .text = flash_attention_grad_text},
    {.op = "attention_grad", .name = "reference", .deterministic = true, .native = reference_attention_grad},
    {.op = "embedding", .name = "rows", .deterministic = true, .applies = embedding_applies, .native = parallel_embedding},
    {.op = "embedding", .name = "reference", .deterministic = true, .native = reference_embedding},
    {.op = "embedding_grad",
     .name = "sorted",
     .deterministic = true,
     .applies = embedding_applies,
     .native = parallel_embedding_grad},
    {.op = "embedding_grad", .name = "reference", .deterministic = true, .native = reference_embedding_grad},
    {.op = "route", .name = "rows", .deterministic = true, .applies = route_applies, .native = parallel_route},
    {.op = "route", .name = "reference", .deterministic = true, .native = reference_route},
    {.op = "take", .name = "rows", .deterministic = true, .applies = embedding_applies, .native = parallel_take},
    {.op = "take", .name = "reference", .deterministic = true, .native = reference_take},
    {.op = "grouped", .name = "own", .deterministic = true, .workspace = own_grouped_workspace, .text = own_grouped_text},
    {.op = "grouped", .name = "reference", .deterministic = true, .native = reference_grouped},
    {.op = "grouped_grad", .name = "own", .deterministic = true, .workspace = own_grouped_workspace, .text = own_grouped_grad_text},
    {.op = "grouped_grad", .name = "reference", .deterministic = true, .native = reference_grouped_grad},
};
enum { ROWS = sizeof rows / sizeof *rows };

const BigImpl *kernels_row(const char *op, int i) {
  for (int row = 0; row < ROWS; row++)
    if (strcmp(rows[row].op, op) == 0 && i-- == 0) return &rows[row];
  return NULL;
}

const char *kernels_prelude(void) {
  static char *prelude;
  if (prelude) return prelude;
  Text text = {0};
  text_printf(&text, "%s%s", text_big, text_prelude);
  return prelude = text.at;
}

const char *kernels_prelude_cuda(void) { return text_prelude_cuda; }

Operand operand_of(const BigView *view) {
  bool transposed = view->stride[1] != 1 && view->dim[1] != 1;
  int lead = transposed ? 1 : 0;
  /* A stride of a dimension of size 1 says nothing; BLAS wants a leading dimension that could be. */
  return (Operand){transposed, view->dim[lead] == 1 ? view->dim[1 - lead] : view->stride[lead]};
}

/* What kernels_choose went round; a line each, the same line once. */
static Text notes;

static void note_add(const char *op, const char *name, const char *why) {
  Text line = {0};
  text_printf(&line, "%s: %s %s\n", op, name, why);
  if (!notes.at || !strstr(notes.at, line.at)) text_add(&notes, line.at, line.n);
  text_close(&line);
}

const char *kernels_note(int i) {
  static char *line;
  const char *at = notes.at;
  for (; at && *at && i > 0; i--) at = strchr(at, '\n') + 1;
  if (!at || !*at) return NULL;
  free(line);
  return line = strndup(at, (size_t)(strchr(at, '\n') - at));
}

bool kernels_allowed(const BigImpl *row, const char *only) {
  return !only || strcmp(only, "auto") == 0 || strcmp(only, row->name) == 0 || (row->family && strcmp(only, row->family) == 0);
}

/* "onednn, reference": for an error. */
static void names_print(const char *op, Text *text) {
  const BigImpl *row;
  for (int i = 0; (row = kernels_row(op, i)); i++) text_printf(text, "%s%s", i ? ", " : "", row->name);
}

const BigImpl *kernels_choose(const char *op, const BigCall *call, const char *only) {
  const BigImpl *row;
  Text tried = {0}, names = {0};
  for (int i = 0; (row = kernels_row(op, i)); i++) {
    Why why = {""};
    if (!kernels_allowed(row, only)) continue;
    if (!row->deterministic)
      why_not(&why, "is not deterministic");
    else if (kernels_try_row(row, call, &why))
      return text_close(&tried), row;
    if (strstr(why.text, "computes wrong")) note_add(op, row->name, why.text);
    text_printf(&tried, "\n  %s: %s", row->name, why.text);
  }
  names_print(op, &names);
  fail(FAIL_INPUT, "cpu.%s: %s: no implementation can be used%s\nhelp: cpu.%s is auto or one of %s", op, only ? only : "auto",
       tried.at ? tried.at : "", op, names.at ? names.at : "none");
}

size_t kernels_workspace(const char *op, const BigCall *call, const char *only) {
  const BigImpl *row;
  size_t most = 0;
  for (int i = 0; (row = kernels_row(op, i)); i++) {
    if (!kernels_allowed(row, only) || !row->deterministic || !row->workspace || (row->applies && !row->applies(call))) continue;
    size_t nbytes = row->workspace(call);
    if (nbytes > most) most = nbytes;
  }
  return most;
}
