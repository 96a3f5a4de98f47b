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

static void print_profile(Prof *prof, Arena *arena) {
  Text text = {0};
  ProfTable *table = prof_table(prof, arena);
  prof_table_print(&table, 1, 0, 60, &text);
  fputs(text.at, stdout);
  text_close(&text);
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
  Mesh *mesh = mesh_data_parallel(comm, 1);
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
  Prof *prof = getenv("PROFILE") ? prof_open(dev, 0, 1) : NULL;
  if (prof) engine_profile(engine, prof);
  prof_arm(prof);
  prof_start(prof, 0);
  for (long s = 0; s < steps; s++) {
    double t = clock_seconds();
    prof_step_begin(prof, s + 1);
    for (long i = 0; i <= B * S; i++) ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)(s * (B * S + 1) + i)) * (double)model.vocab);
    engine_batch(engine, ids, ids + 1);
    engine_micro(engine, 0);
    r = engine_update(engine, s + 1, 3e-4);
    prof_step_end(prof);
    seconds[s] = clock_seconds() - t;
  }
  printf("compile %.3f s, kernels %d (%s) %.2f s, init %.2f s, first step %.3f s\n", compiled - begin, start.kernels,
         start.cached ? "cached" : "built", start.seconds, ready - compiled - start.seconds, seconds[0]);
  qsort(seconds, (size_t)steps, sizeof *seconds, by_size);
  printf(
      "%s %ldx%ld, %ld threads: step %.1f ms (best %.1f), %.0f tokens/s, loss %.4f, planned %.1f MiB, peak above start %.1f MiB\n",
      preset, B, S, threads, 1e3 * seconds[steps / 2], 1e3 * seconds[0], (double)(B * S) / seconds[steps / 2], r.loss,
      (double)(memory.vars + memory.tables + memory.transient) / 1048576, peak_mib() - before);
  prof_stop(prof);
  if (prof) print_profile(prof, arena);
  engine_close(engine);
  prof_close(prof);
  return 0;
}
