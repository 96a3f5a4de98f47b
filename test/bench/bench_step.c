/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens a second of whole training steps without files or ranks: bench_step [PRESET [SEQUENCES [POSITIONS [THREADS [STEPS]]]]]
 * Random tokens; prints the median step, memory planned and used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/train/setup.h"

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double peak_mib(void) {
  size_t n;
  char *status = file_read("/proc/self/status", &n), *at = status ? strstr(status, "VmHWM:") : NULL;
  double kib = at ? strtod(at + 6, NULL) : 0;
  free(status);
  return kib / 1024;
}

/* Steps of one name together, in the order of first appearance; per training step, in ms. */
static void print_times(Arena *arena, const Job *job, int program, long steps) {
  const Program *p = job_program(job, program);
  const double *seconds = job_seconds(job, program);
  const char **names = arena_array(arena, const char *, p->nsteps);
  double *sums = arena_array(arena, double, p->nsteps);
  int *calls = arena_array(arena, int, p->nsteps), n = 0;
  for (int i = 0; i < p->nsteps; i++) {
    const char *name = job_step_name(arena, job, program, i);
    int k = 0;
    while (k < n && strcmp(names[k], name)) k++;
    if (k == n) names[n++] = name;
    sums[k] += seconds[i];
    calls[k]++;
  }
  for (int k = 0; k < n; k++) printf("%9.3f ms %4d x %.90s\n", 1e3 * sums[k] / (double)steps, calls[k], names[k]);
}

int main(int argc, char **argv) {
  const char *preset = argc > 1 ? argv[1] : "llama-5m";
  long B = argc > 2 ? atol(argv[2]) : 8, S = argc > 3 ? atol(argv[3]) : 256, threads = argc > 4 ? atol(argv[4]) : 2;
  long steps = argc > 5 ? atol(argv[5]) : 16;
  ModelConfig model;
  if (!model_preset(preset, &model)) fail(FAIL_INPUT, "no preset '%s'", preset);
  double before = peak_mib(), begin = clock_seconds();
  Arena *arena = arena_open();
  Comm *comm = comm_self();
  Mesh *mesh = setup_mesh(comm);
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .threads = (int)threads});
  EngineOptions o = {.model = model, .sequences = B, .positions = S, .passes = 1, .nominal_tokens = (double)(B * S)};
  o.adam = (AdamW){0.9, 0.95, 1e-8, 0.1};
  o.clip = 1;
  o.choices = (Choices){.units_alive = 2, .threads = (int)threads};
  const char *matmul = getenv("MATMUL"), *block = getenv("RECOMPUTE");
  o.choices.matmul = matmul ? matmul : "auto";
  o.choices.forget = block != NULL ? FORGET_BLOCKS : FORGET_NOTHING;
  o.train = true;
  Engine *engine = engine_open(arena, dev, comm, mesh, &o);
  double compiled = clock_seconds();
  JobStart start = engine_start(engine);
  engine_init(engine, 1);
  JobMemory memory = job_memory(engine_job(engine));
  Rng rng = rng_make(1, RNG_TEST, "tokens", 0);
  int32_t *ids = arena_array(arena, int32_t, B * S + 1);
  double *seconds = arena_array(arena, double, steps);
  double ready = clock_seconds();
  StepResult r = {0};
  if (getenv("PROFILE")) job_time((Job *)engine_job(engine));
  for (long s = 0; s < steps; s++) {
    double t = clock_seconds();
    for (long i = 0; i <= B * S; i++) ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)(s * (B * S + 1) + i)) * (double)model.vocab);
    engine_batch(engine, ids, ids + 1);
    engine_micro(engine, 0);
    r = engine_update(engine, 3e-4);
    seconds[s] = clock_seconds() - t;
  }
  printf("compile %.3f s, kernels %d (%s) %.2f s, init %.2f s, first step %.3f s\n", compiled - begin, start.kernels,
         start.cached ? "cached" : "built", start.seconds, ready - compiled - start.seconds, seconds[0]);
  qsort(seconds, (size_t)steps, sizeof *seconds, by_size);
  printf(
      "%s %ldx%ld, %ld threads: step %.1f ms (best %.1f), %.0f tokens/s, loss %.4f, planned %.1f MiB, peak above start %.1f MiB\n",
      preset, B, S, threads, 1e3 * seconds[steps / 2], 1e3 * seconds[0], (double)(B * S) / seconds[steps / 2], r.loss,
      (double)(memory.vars + memory.tables + memory.transient) / 1048576, peak_mib() - before);
  for (int p = 0; p < 2 && getenv("PROFILE"); p++) print_times(arena, engine_job(engine), p, steps);
  engine_close(engine);
  return 0;
}
