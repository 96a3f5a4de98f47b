/* SPDX-License-Identifier: Apache-2.0 */
/* matmul through oneDNN's C interface, dnnl_sgemm: row-major, its own dispatch by CPU features, OpenMP inside. */
#include <omp.h>

#include "kernels/rows.h"

/* dnnl.h's prototype; the library is found at run time and its headers need not be there. */
typedef int DnnlSgemm(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                      const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static Library library;
static DnnlSgemm *dnnl_sgemm;

static void run_onednn(const BigCall *call) {
  const BigView *c = &call->out[0];
  Operand a = operand_of(&call->in[0]), b = operand_of(&call->in[1]);
  int threads = omp_get_max_threads();
  if (threads != call->threads) omp_set_num_threads(call->threads);
  int status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', c->dim[0], c->dim[1], call->in[0].dim[1], 1,
                          call->in[0].at, a.ld, call->in[1].at, b.ld, call->n[0] ? 1 : 0, c->at, operand_of(c).ld);
  if (threads != call->threads) omp_set_num_threads(threads);
  if (status != 0)
    fail(FAIL_MACHINE, "matrix product: dnnl_sgemm of %s returned status %d\nhelp: choose another with cpu.matmul", library.path,
         status);
}

BigRun *onednn_matmul(Why *why) {
  static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", NULL};
  if (!library_try_open(&library, names, why)) return NULL;
  dnnl_sgemm = (DnnlSgemm *)library_symbol(&library, "dnnl_sgemm");
  if (dnnl_sgemm) return run_onednn;
  why_not(why, "%s has no dnnl_sgemm", library.path);
  return NULL;
}

const char *onednn_library(void) { return library.path; }
