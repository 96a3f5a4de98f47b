/* SPDX-License-Identifier: Apache-2.0 */
#include "test/gpu/judge.h"

#include <math.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/rows.h"
#include "src/base/arena.h"
#include "src/base/text.h"

GpuTools judge_tools;
cudaStream_t judge_stream;

/* Follows the plain kernels' text and uses its View. */
static const char kernels[] =
    "static __device__ long long element(const View &v, long long e) {\n"
    "  long long p = 0;\n"
    "  for (int r = v.rank - 1; r >= 0; r--) { p += e % v.dim[r] * v.stride[r]; e /= v.dim[r]; }\n"
    "  return p;\n"
    "}\n"
    "static __device__ unsigned long long mix(unsigned long long x) {\n"
    "  x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ull; x ^= x >> 27; x *= 0x94d049bb133111ebull; return x ^ x >> 31;\n"
    "}\n"
    "extern \"C\" __global__ void judge_fill(View v, long long n, float scale, unsigned long long seed) {\n"
    "  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += (long long)gridDim.x * blockDim.x) {\n"
    "    unsigned long long x = mix(seed * 0x9e3779b97f4a7c15ull + e + 1);\n"
    "    float y = 0;\n" /* the sum of four uniforms of [-1,1): variance 4/3 */
    "    for (int i = 0; i < 4; i++) y += ((x >> 16 * i & 0xffff) + 0.5f) / 32768.f - 1.f;\n"
    "    put(v, element(v, e), y * 0.8660254f * scale);\n"
    "  }\n"
    "}\n"
    "extern \"C\" __global__ void judge_error(View x, View y, long long n, double *sums) {\n"
    "  __shared__ double d[256], m[256];\n"
    "  d[threadIdx.x] = m[threadIdx.x] = 0;\n"
    "  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += (long long)gridDim.x * blockDim.x) {\n"
    "    double a = get(x, element(x, e)), b = get(y, element(y, e));\n"
    "    d[threadIdx.x] += (a - b) * (a - b); m[threadIdx.x] += b * b;\n"
    "  }\n"
    "  __syncthreads();\n"
    "  for (int t = 1; threadIdx.x == 0 && t < 256; t++) { d[0] += d[t]; m[0] += m[t]; }\n"
    "  if (threadIdx.x == 0) { sums[2 * blockIdx.x] = d[0]; sums[2 * blockIdx.x + 1] = m[0]; }\n"
    "}\n"
    "extern \"C\" __global__ void judge_bits(View v, long long n, unsigned long long *sum) {\n"
    "  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += (long long)gridDim.x * blockDim.x)\n"
    "    atomicAdd(sum, mix(((unsigned long long)__float_as_uint(get(v, element(v, e))) << 32) + e));\n"
    "}\n";

enum { BLOCKS = 528, BLOCK = 256, ALLOCATIONS = 1024 };
static void *allocations[ALLOCATIONS];
static int nallocations;
static void *fill, *error_of, *bits_of;
static void *scratch;

static void nvrtc_must(nvrtcResult status, nvrtcProgram program) {
  if (status == NVRTC_SUCCESS) return;
  static char log[16384];
  size_t n = 0;
  if (nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS && n < sizeof log) nvrtcGetProgramLog(program, log);
  fail(FAIL_BUG, "NVRTC: %s\n%s", nvrtcGetErrorString(status), log);
}

static cudaLibrary_t library;

static void *kernel_find(void *plain, const char *name) {
  cudaKernel_t kernel = NULL;
  GPU_MUST(cudaLibraryGetKernel(&kernel, plain, name));
  return kernel;
}

char *judge_compile(const char *source, const char *arch, size_t *n) {
  nvrtcProgram program;
  char option[40];
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  const char *options[] = {option, "-fmad=false"};
  nvrtc_must(nvrtcCreateProgram(&program, source, "plain.cu", 0, NULL, NULL), NULL);
  nvrtc_must(nvrtcCompileProgram(program, 2, options), program);
  nvrtc_must(nvrtcGetCUBINSize(program, n), program);
  char *cubin = xmalloc(*n);
  nvrtc_must(nvrtcGetCUBIN(program, cubin), program);
  nvrtcDestroyProgram(&program);
  return cubin;
}

static cudaLibrary_t load(const char *source) {
  struct cudaDeviceProp device;
  char arch[16];
  size_t n = 0;
  cudaLibrary_t loaded;
  GPU_MUST(cudaGetDeviceProperties(&device, 0));
  snprintf(arch, sizeof arch, "sm_%d%d", device.major, device.minor);
  char *cubin = judge_compile(source, arch, &n);
  GPU_MUST(cudaLibraryLoadData(&loaded, cubin, NULL, NULL, 0, NULL, NULL, 0));
  free(cubin);
  return loaded;
}

bool judge_open(void) {
  int n = 0;
  if (judge_stream) return true;
  if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) return false;
  Text source = {0};
  text_printf(&source, "%s%s", gpu_plain_text(), kernels);
  library = load(source.at);
  judge_tools = (GpuTools){.kernel = kernel_find, .plain = library};
  text_close(&source);
  fill = kernel_find(library, "judge_fill");
  error_of = kernel_find(library, "judge_error");
  bits_of = kernel_find(library, "judge_bits");
  GPU_MUST(cudaMalloc(&scratch, 2 * BLOCKS * sizeof(double)));
  GPU_MUST(cudaStreamCreateWithFlags(&judge_stream, cudaStreamNonBlocking));
  return true;
}

static void *allocate(size_t nbytes) {
  void *at = NULL;
  CHECK(nallocations < ALLOCATIONS);
  GPU_MUST(cudaMalloc(&at, nbytes ? nbytes : 1));
  GPU_MUST(cudaMemsetAsync(at, 0xff, nbytes, judge_stream));
  return allocations[nallocations++] = at;
}

void judge_reset(void) {
  judge_wait();
  while (nallocations > 0) GPU_MUST(cudaFree(allocations[--nallocations]));
}

void judge_wait(void) { GPU_MUST(cudaStreamSynchronize(judge_stream)); }

static int64_t count(const BigView *v) {
  int64_t n = 1;
  for (int r = 0; r < v->rank; r++) n *= v->dim[r];
  return n;
}

static size_t size_of(int type) { return type == BIG_F32 || type == BIG_I32 ? 4 : 2; }

BigView judge_shape(int type, int rank, const int64_t *dim) {
  BigView v = {.rank = rank, .type = type};
  int64_t n = 1;
  for (int r = rank - 1; r >= 0; r--) {
    v.dim[r] = dim[r];
    v.stride[r] = n;
    n *= dim[r];
  }
  return v;
}

BigView judge_tensor(int type, int rank, const int64_t *dim) {
  BigView v = judge_shape(type, rank, dim);
  v.at = allocate((size_t)count(&v) * size_of(type));
  return v;
}

BigView judge_columns(const BigView *v, int64_t from, int64_t n, int64_t heads) {
  BigView part = *v;
  int last = v->rank - 1;
  part.at = (char *)v->at + from * (int64_t)size_of(v->type);
  part.dim[last] = heads ? heads : n;
  if (!heads) return part;
  part.rank++;
  part.stride[last] = part.dim[last + 1] = n / heads;
  part.stride[last + 1] = 1;
  return part;
}

static void launch(void *kernel, void **parameters) {
  cudaLaunchConfig_t config = {.gridDim = {BLOCKS, 1, 1}, .blockDim = {BLOCK, 1, 1}, .stream = judge_stream};
  GPU_MUST(cudaLaunchKernelExC(&config, kernel, parameters));
}

void judge_fill(const BigView *v, double scale, uint64_t seed) {
  long long n = count(v);
  float factor = (float)scale;
  unsigned long long s = seed;
  launch(fill, (void *[]){(void *)v, &n, &factor, &s});
}

void judge_poison(const BigView *v) { GPU_MUST(cudaMemsetAsync(v->at, 0xff, (size_t)count(v) * size_of(v->type), judge_stream)); }

void judge_put(const BigView *v, const int32_t *values) {
  GPU_MUST(cudaMemcpyAsync(v->at, values, (size_t)count(v) * 4, cudaMemcpyHostToDevice, judge_stream));
  judge_wait();
}

double judge_error(const BigView *x, const BigView *y) {
  static double sums[2 * BLOCKS];
  double difference = 0, norm = 0;
  long long n = count(y);
  CHECK(n == count(x));
  launch(error_of, (void *[]){(void *)x, (void *)y, &n, &scratch});
  GPU_MUST(cudaMemcpyAsync(sums, scratch, sizeof sums, cudaMemcpyDeviceToHost, judge_stream));
  judge_wait();
  for (int i = 0; i < BLOCKS; i++) difference += sums[2 * i], norm += sums[2 * i + 1];
  return sqrt(difference) / (norm == 0 ? 1 : sqrt(norm));
}

uint64_t judge_bits(const BigView *v) {
  unsigned long long sum = 0;
  long long n = count(v);
  GPU_MUST(cudaMemsetAsync(scratch, 0, sizeof sum, judge_stream));
  launch(bits_of, (void *[]){(void *)v, &n, &scratch});
  GPU_MUST(cudaMemcpyAsync(&sum, scratch, sizeof sum, cudaMemcpyDeviceToHost, judge_stream));
  judge_wait();
  return sum;
}

JudgeRun judge_prepare(const GpuImpl *row, const BigCall *call) {
  JudgeRun run = {.row = row};
  size_t most = row->row->workspace(call);
  if (!row->try_prepare(&judge_tools, call, &run.plan, &run.nbytes, &run.why)) return run.plan = NULL, run;
  CHECK(run.nbytes <= most);
  run.workspace = allocate(run.nbytes);
  return run;
}

void judge_run(JudgeRun *run, const BigCall *call) {
  BigCall with = *call;
  with.workspace = run->workspace;
  run->row->run(run->plan, &with, judge_stream);
}

void judge_release(JudgeRun *run) {
  if (run->plan) run->row->release(run->plan);
  run->plan = NULL;
}

const GpuImpl *judge_row(const char *op, const char *name) {
  const GpuImpl *row;
  for (int i = 0; (row = gpu_impl(op, i)); i++)
    if (strcmp(row->row->name, name) == 0) return row;
  fail(FAIL_BUG, "no row %s of %s", name, op);
}
