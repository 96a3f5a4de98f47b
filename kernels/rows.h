/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: the functions behind the rows of the table, and the libraries they stand on. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "kernels/kernels.h"

/* A shared library found at run time. */
typedef struct Library {
  const char *path; /* the file it was loaded from */
  void *handle;
} Library;

/* Opens the first of names (NULL-terminated) that loads, once a process: later calls answer as the first did. */
bool library_try_open(Library *library, const char *const *names, Why *why);
void *library_symbol(const Library *library, const char *name); /* NULL: not there */

/* An element of a matrix of floats, whatever its strides. */
static inline float *view_at(const BigView *v, int64_t i, int64_t j) {
  return (float *)v->at + i * v->stride[0] + j * v->stride[1];
}

/* matmul's operand as BLAS sees it in row-major order: whether it is transposed, and its leading dimension. */
typedef struct Operand {
  bool transposed;
  int64_t ld;
} Operand;
Operand operand_of(const BigView *view);

/* Plain loops in double: the judge of the rest. */
BigRun *reference_matmul(Why *why);
BigRun *reference_attention(Why *why);
BigRun *reference_attention_grad(Why *why);
BigRun *reference_embedding(Why *why);
BigRun *reference_embedding_grad(Why *why);

BigRun *reference_route(Why *why);
BigRun *reference_take(Why *why);
BigRun *reference_grouped(Why *why);
BigRun *reference_grouped_grad(Why *why);

bool embedding_applies(const BigCall *call);
BigRun *parallel_embedding(Why *why);
BigRun *parallel_embedding_grad(Why *why);

/* From the experts of so many pairs what lies behind them in route's result: order, inverse and offsets. */
void route_sort(int32_t *expert, int64_t pairs, int64_t E);
bool route_applies(const BigCall *call);
BigRun *parallel_route(Why *why);
BigRun *parallel_take(Why *why);

BigRun *onednn_matmul(Why *why);
const char *onednn_library(void);

bool cblas_applies(const BigCall *call);
BigRun *mkl_matmul(Why *why);
BigRun *blis_matmul(Why *why);
BigRun *openblas_matmul(Why *why);
BigRun *cblas_matmul(Why *why);
const char *mkl_library(void);
const char *blis_library(void);
const char *openblas_library(void);
const char *cblas_library(void);

size_t own_matmul_workspace(const BigCall *call);
void own_matmul_text(const BigCall *call, const char *symbol, Text *source);

size_t own_grouped_workspace(const BigCall *call); /* of both */
void own_grouped_text(const BigCall *call, const char *symbol, Text *source);
void own_grouped_grad_text(const BigCall *call, const char *symbol, Text *source);

size_t flash_attention_workspace(const BigCall *call);
void flash_attention_text(const BigCall *call, const char *symbol, Text *source);
size_t flash_attention_grad_workspace(const BigCall *call);
void flash_attention_grad_text(const BigCall *call, const char *symbol, Text *source);

#endif
