/* SPDX-License-Identifier: Apache-2.0 */
/* The table of big-op implementations for CPUs and the rule that picks from it. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/big.h"
#include "src/base/fail.h"
#include "src/base/text.h"

typedef struct BigImpl {
  const char *op;     /* "matmul" */
  const char *name;   /* "onednn": what cpu.matmul and the banner say */
  const char *family; /* another name that stands for several rows: "cblas" for any library with that interface; or NULL */
  bool deterministic;

  /* Whether the row can do this call (shapes, strides); NULL: always. */
  bool (*applies)(const BigCall *call);
  /* Bytes of workspace it wants; NULL: none. */
  size_t (*workspace)(const BigCall *call);
  /* A row is one of two things.  native: a function in a library found at run time (NULL and a reason when it is not there). */
  BigRun *(*native)(Why *why);
  /* text: C source of `void SYMBOL(const BigCall *call)` specialised for this call, appended to source; it will be compiled
   * with the run's generated kernels (cc -O3 -march=native -ffp-contract=off -fopenmp), after kernels_prelude. */
  void (*text)(const BigCall *call, const char *symbol, Text *source);
  /* native: the file of the library behind it, once native has found it; NULL: none but this program. */
  const char *(*library)(void);
} BigImpl;

/* Whether `only` (NULL or "auto": any) allows the row, by its name or its family's. */
bool kernels_allowed(const BigImpl *row, const char *only);

/* What precedes generated code: big.h's text, vector types, exp/log.  Never freed. */
const char *kernels_prelude(void);
const char *kernels_prelude_cuda(void); /* the same of CUDA code; nothing else precedes that */

/* Row number i of op, in the order of the fixed rule; NULL past the last. */
const BigImpl *kernels_row(const char *op, int i);

/* Whether the row applies to the call, is there, and computes right.  A row that stands on a library is run on the call's
 * own shapes and compared with plain arithmetic before its first use; the verdict is remembered in this process, and in the
 * verdicts' folder by library file, CPU and call. */
bool kernels_try_row(const BigImpl *row, const BigCall *call, Why *why);

/* Runs a matmul on the call's own shapes with data of its own, and compares: for rows of text once they are compiled. */
bool kernels_try_check(const BigCall *call, BigRun *run, Why *why);

/* The same for a row of text once it has been built as `run`; symbol stands for the text.  Rows of other ops than matmul are
 * not checked: true. */
bool kernels_try_built(const BigImpl *row, const BigCall *call, const char *symbol, BigRun *run, Why *why);

/* The folder of verdicts (copied), one that only the user can write; NULL, the state at start: none. */
void kernels_set_verdicts(const char *folder);

/* Line i of what kernels_choose met and went round, for a warning ("matmul: onednn computes wrong: …"); NULL past the last. */
const char *kernels_note(int i);

/* The first row of op that applies, is available and is deterministic; `only` (NULL or "auto": any) restricts the names.
 * Ends the job when there is none, naming the key. */
const BigImpl *kernels_choose(const char *op, const BigCall *call, const char *only);

/* Bytes of workspace that are enough for whichever row kernels_choose would pick.  Pure: for plans, it tries no library. */
size_t kernels_workspace(const char *op, const BigCall *call, const char *only);

#endif
