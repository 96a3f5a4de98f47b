/* SPDX-License-Identifier: Apache-2.0 */
/* GB/s of generated kernels for what a transformer is made of, beside loops written by hand: bench_gen [-v] [CASE]
 * A case is a graph; it goes through fusion as in a run.  Bytes are those of every Var read or written, once; so a case that
 * became several kernels shows it.  -v prints the kernels.  The best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/clock.h"
#include "src/dev/dev.h"
#include "src/gen/gen.h"
#include "test/unit/kernel_graphs.h"

enum { RUNS = 20, VARS = 16 };

typedef void KernelRun(void *const *p, int threads);

/* --- by hand: HAND(p, lo, hi) does rows lo to hi; p is the Vars in the order of the graph's ------------------------------- */

static const char hand_norm[] = "  const float *x = p[0], *r = p[1], *w = p[2]; float *h = p[3], *rs = p[4], *y = p[5];\n"
                                "  for (long i = lo; i < hi; i++) {\n"
                                "    float s = 0;\n"
                                "#pragma omp simd reduction(+ : s)\n"
                                "    for (int j = 0; j < M; j++) { float v = x[i*M+j] + r[i*M+j]; h[i*M+j] = v; s += v * v; }\n"
                                "    float k = rs[i] = 1 / sqrtf(s * (1.0f / M) + 1e-5f);\n"
                                "#pragma omp simd\n"
                                "    for (int j = 0; j < M; j++) y[i*M+j] = h[i*M+j] * k * w[j];\n"
                                "  }\n";
static const char hand_swiglu[] = "  const float *gu = p[0]; float *s = p[1];\n"
                                  "  for (long i = lo; i < hi; i++)\n"
                                  "#pragma omp simd\n"
                                  "    for (int j = 0; j < M; j++) {\n"
                                  "      float a = gu[i*2*M+j]; s[i*M+j] = a / (1 + hpt_exp(-a)) * gu[i*2*M+M+j];\n"
                                  "    }\n";
static const char hand_rope[] = "  const float *q = p[0], *c = p[1], *s = p[2]; float *o = p[3];\n"
                                "  for (long i = lo; i < hi; i++)\n"
                                "    for (int h = 0; h < 16; h++)\n"
                                "#pragma omp simd\n"
                                "      for (int j = 0; j < M / 2; j++) {\n"
                                "        float a = q[(i*16+h)*M+j], b = q[(i*16+h)*M+M/2+j];\n"
                                "        float C = c[i%(N/8)*(M/2)+j], S = s[i%(N/8)*(M/2)+j];\n"
                                "        o[(i*16+h)*M+j] = a * C - b * S; o[(i*16+h)*M+M/2+j] = b * C + a * S;\n"
                                "      }\n";
static const char hand_loss[] = "  const float *x = p[0]; const int *label = p[1]; float *loss = p[2], *d = p[3];\n"
                                "  for (long i = lo; i < hi; i++) {\n"
                                "    float m = -1e30f, s = 0;\n"
                                "#pragma omp simd reduction(max : m)\n"
                                "    for (int j = 0; j < M; j++) m = x[i*M+j] > m ? x[i*M+j] : m;\n"
                                "#pragma omp simd reduction(+ : s)\n"
                                "    for (int j = 0; j < M; j++) { float e = hpt_exp(x[i*M+j] - m); d[i*M+j] = e; s += e; }\n"
                                "    loss[i] = m + hpt_log(s) - x[i*M+label[i]];\n"
                                "    float k = 1.0f / 2048 / s;\n"
                                "#pragma omp simd\n"
                                "    for (int j = 0; j < M; j++) d[i*M+j] = d[i*M+j] * k;\n"
                                "    d[i*M+label[i]] -= 1.0f / 2048;\n"
                                "  }\n";
static const char hand_adamw[] = "  float *P = p[0], *m = p[1], *v = p[2], *g = p[3], f = *(float *)p[4], lr = *(float *)p[5];\n"
                                 "  float c1 = *(float *)p[6], c2 = *(float *)p[7];\n"
                                 "#pragma omp simd\n"
                                 "  for (long i = lo; i < hi; i++) {\n"
                                 "    float d = g[i] * f, a = m[i] * 0.9f + d * 0.1f, b = v[i] * 0.95f + d * d * 0.05f;\n"
                                 "    m[i] = a; v[i] = b;\n"
                                 "    P[i] -= lr * (a * c1 / (sqrtf(b * c2) + 1e-8f) + P[i] * 0.1f);\n"
                                 "  }\n";

typedef struct Case {
  const char *name;
  KernelGraph *build;
  int64_t n, m;
  const char *hand; /* may be NULL */
} Case;

static const Case cases[] = {
    {"norm", graph_norm, 2048, 256, hand_norm},       {"norm", graph_norm, 2048, 4096, hand_norm},
    {"norm_grad", graph_norm_grad, 2048, 256, NULL},  {"norm_grad", graph_norm_grad, 2048, 4096, NULL},
    {"swiglu", graph_swiglu, 2048, 688, hand_swiglu}, {"swiglu_grad", graph_swiglu_grad, 2048, 688, NULL},
    {"rope", graph_rope, 2048, 32, hand_rope},        {"rope", graph_rope, 2048, 128, hand_rope},
    {"loss", graph_loss, 2048, 512, hand_loss},       {"loss", graph_loss, 256, 32000, hand_loss},
    {"adamw", graph_adamw, 5000000, 1, hand_adamw},
};

/* --- running ------------------------------------------------------------------------------------------------------------ */

typedef struct Bench {
  Dev *dev;
  Program *program;
  KernelRun **run; /* of each step */
  void **at;       /* of each buffer */
  void *vars[VARS];
  double bytes;
} Bench;

static void *filled(Dev *dev, const Var *v) {
  int64_t n = shape_size(&v->shape);
  void *at = dev_alloc(dev, dtype_size(v->dtype) * (size_t)n, v->name);
  for (int64_t i = 0; i < n; i++) {
    if (v->dtype == DT_F32) ((float *)at)[i] = (float)((i * 2654435761u) % 1024) / 1024 + 0.01f;
    if (v->dtype == DT_I32) ((int32_t *)at)[i] = (int32_t)(i % 500);
  }
  return at;
}

static void bench_load(Bench *b, const Case *c, bool verbose) {
  const Program *p = b->program;
  Text text = {0}, kernels = {0};
  for (int i = 0; i < p->nsteps; i++) {
    CHECK(p->steps[i].kind == STEP_KERNEL);
    char symbol[16];
    snprintf(symbol, sizeof symbol, "k%d", i);
    gen_c(p->steps[i].kernel, symbol, &kernels);
  }
  if (verbose) printf("%s", kernels.at);
  text_printf(&text, "%s%s", kernels_prelude(), kernels.at);
  text_printf(&text,
              "enum { N = %lld, M = %lld };\n"
              "static void part(void *const *p, long lo, long hi) {\n%s}\n"
              "void hand(void *const *p, int threads) {\n"
              "#pragma omp parallel num_threads(threads)\n"
              "  { long t = omp_get_thread_num(), n = omp_get_num_threads(); part(p, N * t / n, N * (t + 1) / n); }\n"
              "}\n",
              (long long)c->n, (long long)c->m, c->hand ? c->hand : "");
  void *image;
  size_t nbytes;
  Why why;
  double start = clock_seconds();
  if (!dev_try_build(b->dev, (const char *const *)&text.at, 1, &image, &nbytes, NULL, &why)) fail(FAIL_MACHINE, "%s", why.text);
  if (verbose) printf("compiled in %.2f s\n", clock_seconds() - start);
  DevModule *module = dev_load(b->dev, image, nbytes);
  free(image);
  b->run = arena_array(p->arena, KernelRun *, p->nsteps + 1);
  for (int i = 0; i <= p->nsteps; i++) {
    char symbol[16];
    snprintf(symbol, sizeof symbol, i < p->nsteps ? "k%d" : "hand", i);
    *(void **)&b->run[i] = dev_symbol(module, symbol);
  }
  text_close(&kernels);
  text_close(&text);
}

static void bench_place(Bench *b, const Graph *g) {
  const Program *p = b->program;
  char *transient = dev_alloc(b->dev, p->transient, "transient");
  CHECK(g->vars.n <= VARS);
  for (int i = 0; i < g->vars.n; i++) {
    b->vars[i] = filled(b->dev, &g->vars.at[i]);
    int uses = 0;
    for (int k = 0; k < g->nodes.n; k++) {
      const Node *node = &g->nodes.at[k];
      uses += (node->op == OP_LOAD || node->op == OP_STORE) && !strcmp(node->name, g->vars.at[i].name);
    }
    b->bytes += uses * (double)shape_size(&g->vars.at[i].shape) * (double)dtype_size(g->vars.at[i].dtype);
  }
  b->at = arena_array(p->arena, void *, p->nbuffers);
  for (int i = 0; i < p->nbuffers; i++)
    b->at[i] = p->buffers[i].class == BUFFER_VAR ? b->vars[p->buffers[i].var] : transient + p->buffers[i].offset;
}

static void step_run(const Bench *b, int i, int threads) {
  const Step *s = &b->program->steps[i];
  void *at[STEP_ARGS];
  for (int k = 0; k < s->nin + s->nout; k++) {
    const StepArg *arg = k < s->nin ? &s->in[k] : &s->out[k - s->nin];
    at[k] = (char *)b->at[arg->place.buffer] + arg->place.offset * (int64_t)dtype_size(arg->dtype);
  }
  b->run[i](at, threads);
}

static double bench_time(const Bench *b, int threads, bool hand) {
  double best = 1e9;
  for (int run = 0; run < RUNS; run++) {
    double start = clock_seconds();
    if (hand) b->run[b->program->nsteps](b->vars, threads);
    for (int i = 0; i < b->program->nsteps && !hand; i++) step_run(b, i, threads);
    double seconds = clock_seconds() - start;
    if (run && seconds < best) best = seconds;
  }
  return best;
}

static void case_run(const Case *c, bool verbose) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  c->build(g, c->n, c->m, DT_F32);
  Bench b = {.dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .threads = 2})};
  b.program = fuse_program(arena, g, &(FuseOptions){0});
  if (verbose) {
    Text text = {0};
    program_print(b.program, &text);
    printf("%s", text.at);
    text_close(&text);
  }
  bench_place(&b, g);
  bench_load(&b, c, verbose);
  printf("%-12s (%lld,%lld): %d kernel%s", c->name, (long long)c->n, (long long)c->m, b.program->nsteps,
         b.program->nsteps == 1 ? "" : "s");
  for (int threads = 1; threads <= 2; threads++) {
    double seconds = bench_time(&b, threads, false);
    printf("  %d thread%s %.3f ms %.1f GB/s", threads, threads == 1 ? "" : "s", seconds * 1e3, b.bytes / seconds * 1e-9);
    if (c->hand) printf(" (by hand %.1f)", b.bytes / bench_time(&b, threads, true) * 1e-9);
  }
  printf("\n");
  fflush(stdout);
  arena_close(arena);
}

int main(int argc, char **argv) {
  bool verbose = argc > 1 && !strcmp(argv[1], "-v");
  const char *only = argc > 1 + verbose ? argv[1 + verbose] : NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!only || !strcmp(only, cases[i].name)) case_run(&cases[i], verbose);
  return 0;
}
