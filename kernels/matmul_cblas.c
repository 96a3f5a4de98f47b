/* SPDX-License-Identifier: Apache-2.0 */
/* matmul through whatever CBLAS is installed: a row a library, each with its own call that sets the number of threads. */
#include "kernels/rows.h"

/* cblas.h's prototype, with enumerations as int; 32-bit sizes, as distributions build them. */
typedef void CblasSgemm(int order, int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc);
typedef void SetThreads(long threads); /* takes an int or a long: the same register in every 64-bit calling convention */

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef struct Cblas {
  const char *names[4], *threads_name; /* of the library's files; of its function that takes a number of threads, or NULL */
  BigRun *run;
  Library library;
  CblasSgemm *sgemm;
  SetThreads *set_threads;
  int threads; /* set last */
} Cblas;

static BigRun run_mkl, run_blis, run_openblas, run_cblas;

static Cblas mkl = {{"libmkl_rt.so.2", "libmkl_rt.so", NULL}, "MKL_Set_Num_Threads", run_mkl, {0}, NULL, NULL, 0};
static Cblas blis = {
    {"libblis.so.4", "libblis.so.3", "libblis.so", NULL}, "bli_thread_set_num_threads", run_blis, {0}, NULL, NULL, 0};
static Cblas openblas = {
    {"libopenblas.so.0", "libopenblas.so", NULL}, "openblas_set_num_threads", run_openblas, {0}, NULL, NULL, 0};
static Cblas cblas = {{"libcblas.so.3", "libblas.so.3", NULL}, NULL, run_cblas, {0}, NULL, NULL, 0};

static void cblas_run(Cblas *lib, const BigCall *call) {
  const BigView *c = &call->out[0];
  Operand a = operand_of(&call->in[0]), b = operand_of(&call->in[1]);
  if (lib->set_threads && lib->threads != call->threads) lib->set_threads(lib->threads = call->threads);
  lib->sgemm(ROW_MAJOR, a.transposed ? TRANS : NO_TRANS, b.transposed ? TRANS : NO_TRANS, (int)c->dim[0], (int)c->dim[1],
             (int)call->in[0].dim[1], 1, call->in[0].at, (int)a.ld, call->in[1].at, (int)b.ld, call->n[0] ? 1 : 0, c->at,
             (int)operand_of(c).ld);
}

static void run_mkl(const BigCall *call) { cblas_run(&mkl, call); }
static void run_blis(const BigCall *call) { cblas_run(&blis, call); }
static void run_openblas(const BigCall *call) { cblas_run(&openblas, call); }
static void run_cblas(const BigCall *call) { cblas_run(&cblas, call); }

static BigRun *cblas_find(Cblas *lib, Why *why) {
  if (!library_try_open(&lib->library, lib->names, why)) return NULL;
  lib->sgemm = (CblasSgemm *)library_symbol(&lib->library, "cblas_sgemm");
  if (lib->threads_name) lib->set_threads = (SetThreads *)library_symbol(&lib->library, lib->threads_name);
  if (lib->sgemm) return lib->run;
  why_not(why, "%s has no cblas_sgemm", lib->library.path);
  return NULL;
}

BigRun *mkl_matmul(Why *why) { return cblas_find(&mkl, why); }
BigRun *blis_matmul(Why *why) { return cblas_find(&blis, why); }
BigRun *openblas_matmul(Why *why) { return cblas_find(&openblas, why); }
BigRun *cblas_matmul(Why *why) { return cblas_find(&cblas, why); }

const char *mkl_library(void) { return mkl.library.path; }
const char *blis_library(void) { return blis.library.path; }
const char *openblas_library(void) { return openblas.library.path; }
const char *cblas_library(void) { return cblas.library.path; }

bool cblas_applies(const BigCall *call) {
  const BigView *views[] = {&call->in[0], &call->in[1], &call->out[0]};
  for (int i = 0; i < 3; i++)
    if (views[i]->dim[0] > INT32_MAX || views[i]->dim[1] > INT32_MAX || operand_of(views[i]).ld > INT32_MAX) return false;
  return true;
}
