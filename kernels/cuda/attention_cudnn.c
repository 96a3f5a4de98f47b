/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN's fused engines, forward and backward.
 *
 * The gradient comes in two kinds.  The fast one sums dQ over key blocks with float atomics into a float32 buffer that the
 * graph shows between the product dS·K and dQ; without that buffer in the graph the engine keeps dS (16 bit, B·H·S²) in
 * its workspace and each run gives the same bits.  Sequences are independent, and so are groups of heads, so a gradient
 * whose dS would pass SPLIT_BYTES is done in equal parts, one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/rows.h"
#include "src/base/arena.h"

static const size_t SPLIT_BYTES = (size_t)2 << 30;

/* Before this version the gradient needs a padding mask to be right when S is no multiple of 128. */
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

/* The largest divisor of n, at least 1, of which so many units of nbytes keep within SPLIT_BYTES. */
static int64_t divisor(int64_t n, size_t nbytes) {
  int64_t part = n;
  while (part > 1 && (n % part != 0 || (size_t)part * nbytes > SPLIT_BYTES)) part--;
  return part;
}

typedef enum Kind { FORWARD, GRADIENT, FAST_GRADIENT } Kind;

/* Operand numbers differ between the op and its gradient. */
static const struct { int q, k, start, nin, nout; } places[] = {{0, 1, 3, 3, 1}, {1, 2, 6, 5, 3}, {1, 2, 6, 5, 3}};

typedef struct Part {
  int64_t B, G;
} Part;

static Part part_of(const BigCall *call, Kind kind) {
  const BigView *q = &call->in[places[kind].q], *k = &call->in[places[kind].k];
  int64_t B = q->dim[0], S = q->dim[1], G = k->dim[2];
  size_t group = 2 * (size_t)(q->dim[2] / G) * (size_t)S * (size_t)S;
  if (kind != GRADIENT) return (Part){B, G};
  int64_t heads = divisor(G, group);
  return (Part){heads == G ? divisor(B, group * (size_t)G) : 1, heads};
}

static size_t bound(const BigCall *call, Kind kind) {
  const BigView *q = &call->in[places[kind].q], *k = &call->in[places[kind].k];
  Part part = part_of(call, kind);
  size_t S = (size_t)(q->dim[1] + 127) / 128 * 128, D = (size_t)q->dim[3], slack = (size_t)1 << 20;
  size_t heads = (size_t)(part.B * part.G * (q->dim[2] / k->dim[2]));
  size_t delta = 2 * heads * S * sizeof(float), sums = heads * S * D * sizeof(float), scores = heads * S * S * 2;
  size_t grouped = k->dim[2] == q->dim[2] ? 0 : 2 * heads * S * D * 2;
  return slack + (kind == FORWARD ? 0 : grouped + delta + (kind == GRADIENT ? scores : sums));
}

static int compute_capability(void) {
  int device = 0, major = 0, minor = 0;
  GPU_MUST(cudaGetDevice(&device));
  GPU_MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  GPU_MUST(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

static bool try_fit(const BigCall *call, Kind kind, Why *why) {
  const BigView *q = &call->in[places[kind].q];
  if (q->type != BIG_BF16 && q->type != BIG_F16) return why_not(why, "cuDNN's attention takes bf16 and f16");
  bool fits = true;
  for (int i = 0; i < places[kind].nin; i++) fits &= view_fits(&call->in[i], q->type);
  for (int i = 0; i < places[kind].nout; i++) fits &= view_fits(&call->out[i], q->type);
  if (!fits) return why_not(why, "cuDNN's attention takes heads that are contiguous and aligned to 16 bytes");
  if (kind == GRADIENT && compute_capability() > 90)
    return why_not(why, "cuDNN's gradient is known to give the same bits in every run up to compute capability 9.0 only");
  if (kind != FORWARD && q->dim[1] % 128 != 0 && cudnnGetVersion() < VERSION_ANY_LENGTH)
    return why_not(why, "cuDNN %s takes gradients of sequences that are multiples of 128 only", cudnn_version_text());
  return true;
}

static bool prepare(const GpuTools *tools, const BigCall *call, Kind kind, void **plan, size_t *workspace, Why *why) {
  const BigView *q = &call->in[places[kind].q], *k = &call->in[places[kind].k];
  if (!try_fit(call, kind, why)) return false;
  Attention *attention = xmalloc(sizeof *attention);
  *attention = (Attention){.scale = (float)call->f, .minus_infinity = -INFINITY, .one = 1};
  attention->window = (float)call->n[0];
  Part part = part_of(call, kind);
  attention->B = q->dim[0], attention->part_B = part.B;
  attention->G = k->dim[2], attention->part_G = part.G;
  Writer w = {.to = attention, .call = call, .B = part.B, .S = q->dim[1], .G = part.G, .D = q->dim[3]};
  w.H = q->dim[2] / k->dim[2] * part.G;
  w.type = q->type == BIG_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  w.windowed = call->n[0] != 0 && call->n[0] < w.S;
  w.segmented = call->in[places[kind].start].rank != 0;
  if (kind == FORWARD)
    attention_write_forward(&w);
  else
    attention_write_gradient(&w, kind == FAST_GRADIENT);
  GraphWish wish = {kind != FAST_GRADIENT, tools->choice, bound(call, kind) - w.buffers};
  if (!graph_try_plan(&w.graph, wish, &attention->plan, &attention->workspace, why)) return free(attention), false;
  attention->workspace = gpu_round(attention->workspace);
  *plan = attention;
  *workspace = attention->workspace + w.buffers;
  return true;
}

static size_t size_of(int type) { return type == BIG_F32 || type == BIG_I32 ? 4 : 2; }

/* Where the part that begins with sequence b and key head g has its share of the binding. */
static void *address(Attention *a, const Binding *binding, const BigCall *call, int64_t b, int64_t g) {
  const BigView *v = binding->source == FROM_IN ? &call->in[binding->at] : &call->out[binding->at];
  if (binding->source == FROM_PLAN) return (char *)a + binding->at;
  if (binding->source == FROM_WORKSPACE) return (char *)call->workspace + a->workspace + binding->at;
  int heads = v->rank == 4 ? 2 : 1; /* their dimension: (B,S,H,D) or lse's (B,H,S); start (B,S) has none */
  int64_t offset = b * v->stride[0] + (v->rank == 2 ? 0 : g * (v->dim[heads] / a->G) * v->stride[heads]);
  return (char *)v->at + offset * (int64_t)size_of(v->type);
}

void cudnn_attention_run(void *plan, const BigCall *call, cudaStream_t stream) {
  Attention *a = plan;
  int64_t uids[BINDINGS];
  void *at[BINDINGS];
  for (int i = 0; i < a->nbindings; i++) uids[i] = a->bindings[i].uid;
  for (int64_t b = 0; b < a->B; b += a->part_B)
    for (int64_t g = 0; g < a->G; g += a->part_G) {
      for (int i = 0; i < a->nbindings; i++) at[i] = address(a, &a->bindings[i], call, b, g);
      graph_run(a->plan, a->nbindings, uids, at, call->workspace, stream);
    }
}

bool cudnn_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  return prepare(tools, call, FORWARD, plan, workspace, why);
}

bool cudnn_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  return prepare(tools, call, GRADIENT, plan, workspace, why);
}

bool cudnn_attention_grad_fast_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  return prepare(tools, call, FAST_GRADIENT, plan, workspace, why);
}

void cudnn_attention_release(void *plan) {
  Attention *a = plan;
  cudnnBackendDestroyDescriptor(a->plan);
  free(a);
}

size_t cudnn_attention_workspace(const BigCall *call) { return bound(call, FORWARD); }
size_t cudnn_attention_grad_workspace(const BigCall *call) { return bound(call, GRADIENT); }
size_t cudnn_attention_grad_fast_workspace(const BigCall *call) { return bound(call, FAST_GRADIENT); }
