/* SPDX-License-Identifier: Apache-2.0 */
/* GB/s of generated kernels on a GPU: bench_cuda [-v] [-j] [-b BLOCKS] [CASE]
 * As bench_gen: a case is a graph that goes through fusion as in a run; bytes are those of every Var read or written, once.
 * The sizes are far beyond the caches.  Median of several runs, by events.  -v: texts and registers; -j: JSON lines; -b: the most
 * blocks that sums over rows are cut into. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/cuda_kernels.h"
#include "test/unit/kernel_graphs.h"

enum { RUNS = 21, ARGS = 64 };

static const struct Case {
  const char *name;
  KernelGraph *build;
  DType type;
  int64_t n, m;
} cases[] = {
    {"copy", graph_copy_of, DT_F32, 1 << 28, 1},
    {"copy", graph_copy_of, DT_BF16, 1 << 29, 1},
    {"cast", graph_cast, DT_BF16, 202383360, 1},
    {"norm", graph_norm, DT_F32, 16384, 2048},
    {"norm", graph_norm, DT_F32, 8192, 4096},
    {"norm", graph_norm, DT_F32, 8192, 8192},
    {"norm", graph_norm, DT_BF16, 16384, 2048},
    {"norm", graph_norm, DT_BF16, 8192, 4096},
    {"norm", graph_norm, DT_BF16, 8192, 5120},
    {"norm", graph_norm, DT_BF16, 8192, 8192},
    {"norm_grad", graph_norm_grad, DT_F32, 16384, 2048},
    {"norm_grad", graph_norm_grad, DT_F32, 8192, 4096},
    {"norm_grad", graph_norm_grad, DT_BF16, 16384, 2048},
    {"norm_grad", graph_norm_grad, DT_BF16, 8192, 4096},
    {"norm_grad", graph_norm_grad, DT_BF16, 8192, 5120},
    {"norm_grad", graph_norm_grad, DT_BF16, 8192, 8192},
    {"swiglu", graph_swiglu, DT_F32, 8192, 11008},
    {"swiglu", graph_swiglu, DT_BF16, 8192, 11008},
    {"swiglu", graph_swiglu, DT_BF16, 16384, 5632},
    {"swiglu_grad", graph_swiglu_grad, DT_F32, 8192, 11008},
    {"swiglu_grad", graph_swiglu_grad, DT_BF16, 8192, 11008},
    {"swiglu_grad", graph_swiglu_grad, DT_BF16, 16384, 5632},
    {"rope", graph_rope, DT_F32, 65536, 128},
    {"rope", graph_rope_qkv, DT_BF16, 32768, 128},
    {"rope", graph_rope_qkv, DT_BF16, 32768, 64},
    {"loss", graph_loss, DT_F32, 4096, 32000},
    {"loss", graph_loss, DT_F32, 1024, 128256},
    {"loss", graph_loss, DT_BF16, 8192, 32000},
    {"loss", graph_loss, DT_BF16, 2048, 128256},
    {"adamw", graph_adamw, DT_F32, 1 << 27, 1},
    {"adamw", graph_adamw, DT_BF16, 1 << 27, 1},
    {"adamw_brief", graph_adamw_brief, DT_BF16, 1 << 27, 1},
    {"squares", graph_squares, DT_F32, 202383360, 1024},
    {"squares", graph_squares, DT_F32, 202383360, 64},
    {"hash", graph_hash_of, DT_F32, 202383360, 1024},
    {"transpose", graph_transpose, DT_F32, 16384, 8192},
    {"transpose", graph_transpose, DT_BF16, 16384, 16384},
};

typedef struct Bench {
  Dev *dev;
  const Program *program;
  CudaKernels *kernels;
  DevModule *module;
  int *kernel; /* of each step */
  char *base;  /* of the device's memory */
  char **at;   /* of each buffer */
  size_t nbytes;
  double traffic;
} Bench;

/* The same numbers again and again, from a period that is no power of 2. */
static void fill(Dev *dev, char *at, const Var *v, size_t nbytes) {
  enum { PERIOD = 1000003 };
  static float reals[PERIOD];
  static int32_t integers[PERIOD];
  static uint16_t halves[PERIOD];
  for (int i = 0; i < PERIOD; i++) {
    reals[i] = (float)((int64_t)i * 2654435761 % 1024) / 1024 + 0.01f;
    integers[i] = i % 500;
    halves[i] = bf16_of(reals[i]);
  }
  const void *from = v->dtype == DT_F32 ? (const void *)reals : v->dtype == DT_BF16 ? (const void *)halves : integers;
  size_t period = PERIOD * dtype_size(v->dtype);
  for (size_t i = 0; i < nbytes; i += period) dev_copy_in(dev, at + i, from, nbytes - i < period ? nbytes - i : period);
}

static int uses(const Graph *g, const char *var) {
  int n = 0;
  for (int k = 0; k < g->nodes.n; k++) {
    const Node *node = &g->nodes.at[k];
    n += (node->op == OP_LOAD || node->op == OP_STORE) && !strcmp(node->name, var);
  }
  return n;
}

/* One allocation: the transient part, then the Vars. */
static void bench_place(Bench *b, const Graph *g) {
  enum { ALIGN = 256 };
  const Program *p = b->program;
  size_t *var = arena_array(p->arena, size_t, g->vars.n + 1);
  var[0] = (p->transient + ALIGN - 1) / ALIGN * ALIGN;
  for (int i = 0; i < g->vars.n; i++) {
    size_t nbytes = dtype_size(g->vars.at[i].dtype) * (size_t)shape_size(&g->vars.at[i].shape);
    var[i + 1] = var[i] + (nbytes + ALIGN - 1) / ALIGN * ALIGN;
    b->traffic += uses(g, g->vars.at[i].name) * (double)nbytes;
  }
  b->nbytes = var[g->vars.n];
  b->base = dev_alloc(b->dev, b->nbytes, "benchmark");
  for (int i = 0; i < g->vars.n; i++) fill(b->dev, b->base + var[i], &g->vars.at[i], var[i + 1] - var[i]);
  b->at = arena_array(p->arena, char *, p->nbuffers);
  for (int i = 0; i < p->nbuffers; i++)
    b->at[i] = b->base + (p->buffers[i].class == BUFFER_VAR ? var[p->buffers[i].var] : (size_t)p->buffers[i].offset);
}

static void step_run(const Bench *b, int i) {
  const Step *s = &b->program->steps[i];
  void *at[ARGS];
  for (int k = 0; k < s->nin + s->nout; k++) {
    const StepArg *arg = k < s->nin ? &s->in[k] : &s->out[k - s->nin];
    at[k] = b->at[arg->place.buffer] + arg->place.offset * (int64_t)dtype_size(arg->dtype);
  }
  cuda_kernels_launch(b->kernels, b->dev, b->module, b->kernel[i], at, s->nin + s->nout);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Seconds of steps first to last, the median. */
static double bench_time(const Bench *b, int first, int last) {
  double seconds[RUNS];
  DevEvent *from = dev_event_open(b->dev), *to = dev_event_open(b->dev);
  for (int run = -2; run < RUNS; run++) {
    dev_event_record(from);
    for (int i = first; i <= last; i++) step_run(b, i);
    dev_event_record(to);
    double s = dev_event_seconds(from, to);
    if (run >= 0) seconds[run] = s;
  }
  dev_event_close(from);
  dev_event_close(to);
  qsort(seconds, RUNS, sizeof *seconds, by_size);
  return seconds[RUNS / 2];
}

static void print_times(const Bench *b, const struct Case *c, bool json) {
  const Program *p = b->program;
  double seconds = bench_time(b, 0, p->nsteps - 1), rate = b->traffic / seconds * 1e-9;
  printf(json ? "{\"bench\": \"%s\", \"type\": \"%s\", \"n\": %lld, \"m\": %lld, \"ms\": %.4f, \"gbs\": %.0f, \"kernels\": ["
              : "%-12s %-4s (%lld,%lld): %.3f ms %.0f GB/s",
         c->name, dtype_name(c->type), (long long)c->n, (long long)c->m, seconds * 1e3, rate);
  for (int i = 0; i < p->nsteps && (json || p->nsteps > 1); i++) {
    const DevLaunch *l = &b->kernels->launches.at[b->kernel[i]];
    printf(json ? "%s{\"blocks\": %u, \"threads\": %u, \"ms\": %.4f}" : "%s %ux%u %.3f ms",
           i      ? ","
           : json ? ""
                  : ";",
           l->grid[0], l->block[0], bench_time(b, i, i) * 1e3);
  }
  printf(json ? "]}\n" : "\n");
  fflush(stdout);
}

typedef struct Wanted {
  bool verbose, json;
  int blocks; /* 0: as in a run */
  const char *only;
} Wanted;

static void case_run(Dev *dev, const struct Case *c, const Wanted *wanted) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  c->build(g, c->n, c->m, c->type);
  FuseOptions fuse = {.column_blocks = wanted->blocks ? wanted->blocks : GPU_COLUMN_BLOCKS,
                      .column_block_rows = GPU_COLUMN_BLOCK_ROWS,
                      .column_block_width = wanted->blocks ? 0 : GPU_COLUMN_BLOCK_WIDTH};
  Bench b = {.dev = dev, .program = fuse_program(arena, g, &fuse), .kernels = cuda_kernels_open()};
  const Program *p = b.program;
  b.kernel = arena_array(arena, int, p->nsteps);
  for (int i = 0; i < p->nsteps; i++) b.kernel[i] = cuda_kernels_add(b.kernels, p->steps[i].kernel, cuda_aligned(&p->steps[i]));
  b.module = cuda_kernels_load(b.kernels, dev, 1);
  for (int i = 0; i < b.kernels->texts.n && wanted->verbose; i++) printf("%s", b.kernels->texts.at[i]);
  if (wanted->verbose) printf("%s", dev_build_log(dev));
  bench_place(&b, g);
  print_times(&b, c, wanted->json);
  dev_unload(b.module);
  dev_free(dev, b.base, b.nbytes);
  cuda_kernels_close(b.kernels);
  arena_close(arena);
}

int main(int argc, char **argv) {
  Wanted wanted = {0};
  for (int option; (option = getopt(argc, argv, "vjb:")) != -1;) {
    wanted.verbose |= option == 'v';
    wanted.json |= option == 'j';
    if (option == 'b') wanted.blocks = atoi(optarg);
    if (option == '?') return 2;
  }
  wanted.only = argv[optind];
  Dev *dev = cuda_device_try(NULL, 4);
  if (!dev) return 0;
  printf(wanted.json ? "{\"device\": \"%s\"}\n" : "%s\n", dev_describe(dev));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!wanted.only || !strcmp(wanted.only, cases[i].name)) case_run(dev, &cases[i], &wanted);
  dev_close(dev);
  return 0;
}
