/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt.  It thinks in columns, so a row-major C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ.
 *
 * The fixed rule is the first algorithm that cuBLASLt's own heuristic proposes; sums split over K go through the workspace
 * or not at all, never through atomics on C, so that each run gives the same bits. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/bounds.h"
#include "kernels/cuda/rows.h"
#include "src/base/arena.h"
#include "src/dev/dev.h"

enum { CHOICES = 16 };

typedef struct Product {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
  float beta;
} Product;

/* This process's handle, made at the first call. */
static cublasLtHandle_t handle;

static void must(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) dev_memory_failed(what, "cuBLASLt: CUBLAS_STATUS_ALLOC_FAILED");
  if (status != CUBLAS_STATUS_SUCCESS) fail(FAIL_MACHINE, "%s: cuBLASLt: %s", what, cublasLtGetStatusString(status));
}

const char *cublaslt_version_text(void) {
  static char text[32];
  size_t v = cublasLtGetVersion();
  snprintf(text, sizeof text, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
  return text;
}

/* A row-major view as columns: transposed or not, and its leading dimension. */
static bool try_layout(const BigView *v, cublasLtMatrixLayout_t *layout, bool *transposed, Why *why) {
  static const cudaDataType_t types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
  int lead = v->stride[1] != 1 && v->dim[1] != 1;
  uint64_t inner = (uint64_t)v->dim[1 - lead], outer = (uint64_t)v->dim[lead];
  int64_t ld = outer == 1 ? (int64_t)inner : v->stride[lead];
  if (v->stride[1 - lead] != 1 && inner != 1) return why_not(why, "cuBLASLt takes matrices with one stride of 1");
  *transposed = lead == 1;
  must(cublasLtMatrixLayoutCreate(layout, types[v->type], inner, outer, ld), "a matrix");
  return true;
}

static uint32_t alignment(const BigView *v) { return (uint32_t)gpu_alignment(v->at); }

static bool try_choose(Product *p, int choice, const BigCall *call, Why *why) {
  static const size_t workspace = CUBLASLT_WORKSPACE;
  static const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const uint32_t a = alignment(&call->in[1]), b = alignment(&call->in[0]), c = alignment(&call->out[0]);
  const uint32_t bias = alignment(&call->in[2]), d = bias < c ? bias : c; /* of the bias it knows by that of the result */
  cublasLtMatmulPreference_t wish;
  cublasLtMatmulHeuristicResult_t found[CHOICES];
  int n = 0;
  must(cublasLtMatmulPreferenceCreate(&wish), "a preference");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
       "workspace");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
       "split sums");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a), "alignment");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b), "alignment");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c), "alignment");
  must(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d), "alignment");
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b, p->c, p->c, wish,
                                                         choice < CHOICES ? choice + 1 : CHOICES, found, &n);
  must(cublasLtMatmulPreferenceDestroy(wish), "a preference");
  if (status != CUBLAS_STATUS_SUCCESS || n <= choice || found[choice].state != CUBLAS_STATUS_SUCCESS)
    return why_not(why, "cuBLASLt has no %s for this product: %s", choice ? "more algorithms" : "algorithm",
                   cublasLtGetStatusString(status));
  p->algo = found[choice].algo;
  p->workspace = found[choice].workspaceSize;
  return true;
}

void cublaslt_release(void *plan) {
  Product *p = plan;
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->c) cublasLtMatrixLayoutDestroy(p->c);
  if (p->desc) cublasLtMatmulDescDestroy(p->desc);
  free(p);
}

/* The bias, which is a column's here, is a setting of the product: plans are shared by calls that differ in it. */
static void set_bias(const Product *p, const BigCall *call) {
  const void *at = call->in[2].at;
  if (call->in[2].rank) must(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at), "a bias");
}

static bool try_fill(Product *p, int choice, const BigCall *call, Why *why) {
  bool a = false, b = false, c = false;
  must(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  if (!try_layout(&call->in[1], &p->a, &a, why) || !try_layout(&call->in[0], &p->b, &b, why) ||
      !try_layout(&call->out[0], &p->c, &c, why))
    return false;
  CHECK(!c);
  const cublasOperation_t op_a = a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = b ? CUBLAS_OP_T : CUBLAS_OP_N;
  must(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a), "a product");
  must(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b), "a product");
  if (call->in[2].rank) {
    static const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    must(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "a bias");
    set_bias(p, call);
  }
  return try_choose(p, choice, call, why);
}

bool cublaslt_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  const BigView *a = &call->in[0], *c = &call->out[0];
  if (a->type == BIG_I32 || a->type != call->in[1].type || (c->type != a->type && c->type != BIG_F32))
    return why_not(why, "cuBLASLt multiplies two matrices of one type into that type or into f32");
  if (call->in[2].rank && (call->in[2].type != c->type || call->in[2].stride[0] != 1))
    return why_not(why, "cuBLASLt adds a bias of the result's type");
  if (!handle) must(cublasLtCreate(&handle), "cublasLtCreate");
  Product *p = xmalloc(sizeof *p);
  *p = (Product){.beta = call->n[0] ? 1 : 0};
  if (!try_fill(p, tools->choice, call, why)) return cublaslt_release(p), false;
  *plan = p;
  *workspace = p->workspace;
  return true;
}

void cublaslt_run(void *plan, const BigCall *call, cudaStream_t stream) {
  static const float alpha = 1;
  Product *p = plan;
  set_bias(p, call);
  must(cublasLtMatmul(handle, p->desc, &alpha, call->in[1].at, p->a, call->in[0].at, p->b, &p->beta, call->out[0].at, p->c,
                      call->out[0].at, p->c, &p->algo, call->workspace, p->workspace, stream),
       "matmul");
}

void cublaslt_tell(const void *plan, char word[GPU_TOLD]) {
  static const struct {
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    size_t nbytes;
    const char *name;
  } parts[] = {{CUBLASLT_ALGO_CONFIG_ID, 4, "algo"},
               {CUBLASLT_ALGO_CONFIG_TILE_ID, 4, ",tile"},
               {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, ",stages"},
               {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, ",split"},
               {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, ",scheme"},
               {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, ",swizzle"},
               {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, ",custom"},
               {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, ",inner"},
               {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, ",cluster"}};
  const Product *p = plan;
  int n = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    uint32_t value = 0; /* little-endian: what has two bytes fills the lower ones */
    size_t written = 0;
    must(cublasLtMatmulAlgoConfigGetAttribute(&p->algo, parts[i].attribute, &value, parts[i].nbytes, &written), parts[i].name);
    n += snprintf(word + n, (size_t)(GPU_TOLD - n), "%s%u", parts[i].name, value);
  }
}
