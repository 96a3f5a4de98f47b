/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN's fused engines, forward and backward.
 *
 * The gradient comes in two kinds.  The fast one sums dQ over key blocks with float atomics into a float32 buffer that the
 * graph shows between the product dS·K and dQ; without that buffer in the graph the engine keeps dS (16 bit, B·H·S²) in
 * its workspace and each run gives the same bits.  Sequences are independent, and so are groups of heads, so a gradient
 * whose dS would be too large is done in equal parts, one after another (bounds.h), padded where cuDNN wants it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/bounds.h"
#include "kernels/cuda/rows.h"
#include "src/base/arena.h"

/* Before this version the gradient is right only when S is a multiple of ATTENTION_ROWS. */
enum { VERSION_ANY_LENGTH = 91600 };

const char *cudnn_version_text(void) {
  static char text[32];
  size_t v = cudnnGetVersion();
  snprintf(text, sizeof text, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
  return text;
}

/* Whether the engines can read the view: 16-byte accesses along the head. */
static bool view_fits(const BigView *v, int type) {
  bool fits = v->rank == 4 && v->type == type && (v->stride[3] == 1 || v->dim[3] == 1) && gpu_alignment(v->at) >= 16;
  for (int r = 0; fits && r < 3; r++) fits = v->dim[r] == 1 || v->stride[r] % 8 == 0;
  return fits;
}

static int compute_capability(void) {
  int device = 0, major = 0, minor = 0;
  GPU_MUST(cudaGetDevice(&device));
  GPU_MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  GPU_MUST(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

static size_t size_of(int type) { return type == BIG_F32 || type == BIG_I32 ? 4 : 2; }

static bool wants_pads(const BigCall *call, AttentionKind kind) {
  return kind != ATTENTION_FORWARD && call->in[attention_places[kind].q].dim[1] % ATTENTION_ROWS != 0 &&
         cudnnGetVersion() < VERSION_ANY_LENGTH;
}

/* Whether a part of the view is a box of equally long, equally distant rows. */
static bool box_fits(const BigView *v) {
  bool rows = v->rank != 4 || v->dim[2] == 1 || v->stride[2] == v->dim[3];
  return rows && (v->rank < 3 || v->dim[0] == 1 || v->stride[0] % v->stride[1] == 0) && (v->stride[v->rank - 1] == 1);
}

static bool try_fit(const BigCall *call, AttentionKind kind, Why *why) {
  const AttentionPlaces *places = &attention_places[kind];
  const BigView *q = &call->in[places->q];
  if (q->type != BIG_BF16 && q->type != BIG_F16) return why_not(why, "cuDNN's attention takes bf16 and f16");
  bool fits = true, boxes = true;
  for (int i = 0; i < places->nin + places->nout; i++) {
    const BigView *v = i < places->nin ? &call->in[i] : &call->out[i - places->nin];
    fits &= v->rank != 4 || view_fits(v, q->type);
    boxes &= !v->rank || box_fits(v);
  }
  if (!fits) return why_not(why, "cuDNN's attention takes heads that are contiguous and aligned to 16 bytes");
  if (kind == ATTENTION_GRADIENT && compute_capability() > 90)
    return why_not(why, "cuDNN's gradient is known to give the same bits in every run up to compute capability 9.0 only");
  if (wants_pads(call, kind) && !boxes)
    return why_not(why, "cuDNN %s takes gradients of sequences that are multiples of %d only, and heads apart cannot be padded",
                   cudnn_version_text(), ATTENTION_ROWS);
  return true;
}

/* The call as the graph sees it: on padded copies. */
static void add_pads(Attention *a, const BigCall *call, AttentionKind kind) {
  const AttentionPlaces *places = &attention_places[kind];
  size_t offset = 0;
  a->padded = *call;
  for (int i = 0; i < places->nin + places->nout; i++) {
    bool in = i < places->nin;
    int at = in ? i : i - places->nin;
    const BigView *v = in ? &call->in[at] : &call->out[at];
    if (!v->rank) continue;
    *(in ? &a->padded.in[at] : &a->padded.out[at]) = attention_padded(call, kind, v);
    a->pads[a->npads++] = (Pad){in ? FROM_IN : FROM_OUT, at, offset};
    size_t nbytes = attention_padded_bytes(call, kind, v);
    *(in ? &a->pads_in : &a->pads_out) += nbytes;
    offset += nbytes;
  }
}

static bool prepare(const GpuTools *tools, const BigCall *call, AttentionKind kind, size_t bound, void **plan, size_t *workspace,
                    Why *why) {
  const AttentionPlaces *places = &attention_places[kind];
  const BigView *q = &call->in[places->q], *k = &call->in[places->k];
  if (!try_fit(call, kind, why)) return false;
  Attention *a = xmalloc(sizeof *a);
  *a = (Attention){.scale = (float)call->f, .minus_infinity = -INFINITY, .one = 1};
  a->window = (float)call->n[0];
  AttentionPart part = attention_part(call, kind);
  a->B = q->dim[0], a->part_B = part.B;
  a->G = k->dim[2], a->part_G = part.G;
  if (wants_pads(call, kind)) add_pads(a, call, kind);
  Writer w = {.to = a, .call = a->npads ? &a->padded : call, .B = part.B, .G = part.G, .D = q->dim[3]};
  w.S = w.call->in[places->q].dim[1];
  w.H = q->dim[2] / k->dim[2] * part.G;
  w.type = q->type == BIG_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  w.windowed = call->n[0] != 0 && call->n[0] < w.S;
  w.segmented = call->in[places->start].rank != 0;
  if (kind == ATTENTION_FORWARD)
    attention_write_forward(&w);
  else
    attention_write_gradient(&w, kind == ATTENTION_FAST_GRADIENT);
  a->buffers = w.buffers;
  size_t ours = a->buffers + a->pads_in + a->pads_out;
  CHECK(ours <= bound);
  GraphWish wish = {kind != ATTENTION_FAST_GRADIENT, tools->choice, bound - ours};
  if (!graph_try_plan(&w.graph, wish, &a->plan, why)) return free(a), false;
  a->engine = gpu_round(a->plan.workspace);
  *plan = a;
  *workspace = a->engine + ours;
  return true;
}

/* Where the part that begins with sequence b and key head g has its share of a view. */
static char *part_address(const Attention *a, const BigView *v, int64_t b, int64_t g) {
  int heads = v->rank == 4 ? 2 : 1; /* their dimension: (B,S,H,D) or lse's (B,H,S); start (B,S) has none */
  int64_t offset = b * v->stride[0] + (v->rank == 2 ? 0 : g * (v->dim[heads] / a->G) * v->stride[heads]);
  return (char *)v->at + offset * (int64_t)size_of(v->type);
}

static char *pad_address(const Attention *a, const Pad *pad, const BigCall *call) {
  return (char *)call->workspace + a->engine + a->buffers + pad->offset;
}

static void *address(Attention *a, const Binding *binding, const BigCall *call, int64_t b, int64_t g) {
  if (binding->source == FROM_PLAN) return (char *)a + binding->at;
  if (binding->source == FROM_WORKSPACE) return (char *)call->workspace + a->engine + binding->at;
  for (int i = 0; i < a->npads; i++)
    if (a->pads[i].source == binding->source && a->pads[i].at == binding->at) return pad_address(a, &a->pads[i], call);
  return part_address(a, binding->source == FROM_IN ? &call->in[binding->at] : &call->out[binding->at], b, g);
}

/* A view's rows: (B,S,H·D), (B,H,S) or (1,B,S). */
static struct cudaPitchedPtr rows_of(void *at, const BigView *v, size_t width, size_t height) {
  size_t size = size_of(v->type), pitch = (size_t)v->stride[v->rank == 2 || height == 1 ? 0 : 1] * size;
  size_t rows = v->rank == 2 || height == 1 || v->dim[0] == 1 ? height : (size_t)(v->stride[0] / v->stride[1]);
  return (struct cudaPitchedPtr){at, pitch < width ? width : pitch, width, rows};
}

/* A part's share of an operand into its padded copy, or back. */
static void pad_copy(const Attention *a, const Pad *pad, const BigCall *call, int64_t b, int64_t g, cudaStream_t stream) {
  bool in = pad->source == FROM_IN;
  const BigView *v = in ? &call->in[pad->at] : &call->out[pad->at], *copy = in ? &a->padded.in[pad->at] : &a->padded.out[pad->at];
  size_t size = size_of(v->type), B = (size_t)a->part_B;
  size_t heads = (size_t)((v->rank == 4 ? v->dim[2] : v->dim[1]) * a->part_G / a->G);
  size_t S = (size_t)v->dim[v->rank == 3 ? 2 : 1];
  size_t width = size * (v->rank == 4 ? heads * (size_t)v->dim[3] : S), height = v->rank == 4 ? S : v->rank == 3 ? heads : B;
  struct cudaPitchedPtr ours = rows_of(part_address(a, v, b, g), v, width, height);
  struct cudaPitchedPtr padded = rows_of(pad_address(a, pad, call), copy, width, height);
  struct cudaMemcpy3DParms copying = {.srcPtr = in ? ours : padded,
                                      .dstPtr = in ? padded : ours,
                                      .extent = {width, height, v->rank == 2 ? 1 : B},
                                      .kind = cudaMemcpyDeviceToDevice};
  GPU_MUST(cudaMemcpy3DAsync(&copying, stream));
}

static void pads_copy(const Attention *a, Source source, const BigCall *call, int64_t b, int64_t g, cudaStream_t stream) {
  for (int i = 0; i < a->npads; i++)
    if (a->pads[i].source == source) pad_copy(a, &a->pads[i], call, b, g, stream);
}

void cudnn_attention_run(void *plan, const BigCall *call, cudaStream_t stream) {
  Attention *a = plan;
  int64_t uids[BINDINGS];
  void *at[BINDINGS];
  for (int i = 0; i < a->nbindings; i++) uids[i] = a->bindings[i].uid;
  if (a->npads) GPU_MUST(cudaMemsetAsync(pad_address(a, &a->pads[0], call), 0, a->pads_in, stream));
  for (int64_t b = 0; b < a->B; b += a->part_B)
    for (int64_t g = 0; g < a->G; g += a->part_G) {
      pads_copy(a, FROM_IN, call, b, g, stream);
      for (int i = 0; i < a->nbindings; i++) at[i] = address(a, &a->bindings[i], call, b, g);
      graph_run(a->plan.desc, a->nbindings, uids, at, call->workspace, stream);
      pads_copy(a, FROM_OUT, call, b, g, stream);
    }
}

bool cudnn_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  size_t bound = gpu_rows[GPU_ATTENTION_CUDNN].workspace(call);
  return prepare(tools, call, ATTENTION_FORWARD, bound, plan, workspace, why);
}

bool cudnn_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  size_t bound = gpu_rows[GPU_ATTENTION_GRAD_CUDNN].workspace(call);
  return prepare(tools, call, ATTENTION_GRADIENT, bound, plan, workspace, why);
}

bool cudnn_attention_grad_fast_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  size_t bound = gpu_rows[GPU_ATTENTION_GRAD_CUDNN_FAST].workspace(call);
  return prepare(tools, call, ATTENTION_FAST_GRADIENT, bound, plan, workspace, why);
}

void cudnn_attention_release(void *plan) {
  Attention *a = plan;
  cudnnBackendDestroyDescriptor(a->plan.desc);
  free(a);
}

void cudnn_attention_tell(const void *plan, char word[GPU_TOLD]) {
  const Attention *a = plan;
  snprintf(word, GPU_TOLD, "%s%s", a->plan.told, a->npads ? ",padded" : "");
}
