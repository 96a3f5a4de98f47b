/* SPDX-License-Identifier: Apache-2.0 */
/* Three programs over one arena: one draws two matrices (products of zeros draw less power than those of a model, and are faster),
 * one multiplies them, one reads a large vector and writes another. */
#include "src/exec/rates.h"

#include "src/base/clock.h"
#include "src/exec/job.h"

typedef struct Sizes {
  int64_t width;  /* of the square matrices */
  int64_t vector; /* elements */
  int many;       /* runs between two looks at the clock */
  DType dtype;    /* of the matrices */
} Sizes;

/* Large beside caches; a product takes milliseconds on either. */
static const Sizes cpu_sizes = {1024, 16 << 20, 1, DT_F32}, gpu_sizes = {8192, 256 << 20, 10, DT_BF16};

static const Sizes *sizes_of(const Choices *choices) { return choices->cuda ? &gpu_sizes : &cpu_sizes; }

static void declare(Graph *g, const char *name, DType dtype, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = dtype, .shape = shape});
}

static void declare_matrix(Graph *g, const char *name, const Sizes *s) { declare(g, name, s->dtype, SHAPE(s->width, s->width)); }

/* Uniform in [-1, 1). */
static void store_draws(Graph *g, const char *name, const Sizes *s, int64_t key) {
  int places = ir_iota(g, DT_I64, SHAPE(s->width * s->width), 0);
  int bits = ir_cast(g, DT_F32, ir_binary(g, OP_RANDOM, ir_const(g, DT_I64, (double)key), places));
  declare_matrix(g, name, s);
  ir_store(g, name, ir_cast(g, s->dtype, ir_reshape(g, ir_scale(g, bits, 0x1p-31), SHAPE(s->width, s->width))));
}

static const Graph *graph_draws(Arena *arena, const Sizes *s) {
  Graph *g = graph_open(arena);
  store_draws(g, "a", s, 1);
  store_draws(g, "b", s, 2);
  return g;
}

static const Graph *graph_product(Arena *arena, const Sizes *s) {
  Graph *g = graph_open(arena);
  declare_matrix(g, "a", s);
  declare_matrix(g, "b", s);
  declare_matrix(g, "c", s);
  int in[] = {ir_load(g, "a"), ir_load(g, "b")};
  ir_store(g, "c", graph_push(g, (Node){.op = OP_MATMUL, .dtype = s->dtype, .nin = 2, .in = in}));
  return g;
}

static const Graph *graph_copy_vector(Arena *arena, const Sizes *s) {
  Graph *g = graph_open(arena);
  declare(g, "from", DT_F32, SHAPE(s->vector));
  declare(g, "to", DT_F32, SHAPE(s->vector));
  ir_store(g, "to", ir_scale(g, ir_load(g, "from"), 0.5));
  return g;
}

/* Runs a second of the program, all ranks at a time.  busy (may be NULL): what sensors say half-way. */
static double runs_per_second(Job *job, int program, int many, double seconds, DevSensors *busy) {
  int64_t runs = 0;
  job_run(job, program); /* libraries prepare themselves in a first run */
  dev_sync(job->dev);
  comm_barrier(job->comm);
  for (double begin = clock_seconds();;) {
    for (int i = 0; i < many; i++) job_run(job, program);
    double took = clock_seconds() - begin;
    if (busy && took > seconds / 2) {
      *busy = dev_sensors(job->dev, true);
      busy = NULL;
    }
    dev_sync(job->dev);
    took = clock_seconds() - begin;
    runs += many;
    if (took >= seconds) return (double)runs / took;
  }
}

void device_rate_programs(Arena *arena, const Choices *choices, const Program *programs[RATE_PROGRAMS]) {
  static const Graph *(*const graphs[])(Arena * arena, const Sizes *s) = {
      [RATE_DRAWS] = graph_draws, [RATE_PRODUCT] = graph_product, [RATE_COPY] = graph_copy_vector};
  for (int i = 0; i < RATE_PROGRAMS; i++)
    programs[i] = compile(arena, graphs[i](arena, sizes_of(choices)), NULL, choices, "rates", true, true, NULL);
}

DeviceRates device_rates(Dev *dev, Comm *comm, const Choices *choices, double seconds) {
  const Sizes *s = sizes_of(choices);
  Arena *arena = arena_open();
  DeviceRates rates = {.busy = dev_sensors(dev, true)};
  Job *job = job_open(arena, dev, comm, NULL, choices, false);
  const Program *programs[RATE_PROGRAMS];
  device_rate_programs(arena, choices, programs);
  for (int i = 0; i < RATE_PROGRAMS; i++) job_add(job, programs[i], "rates");
  job_start(job);
  job_run(job, RATE_DRAWS);
  double n = (double)s->width;
  rates.products = 2 * n * n * n * runs_per_second(job, RATE_PRODUCT, s->many, seconds, &rates.busy);
  rates.bytes = 2 * sizeof(float) * (double)s->vector * runs_per_second(job, RATE_COPY, s->many, seconds, NULL);
  job_close(job);
  arena_close(arena);
  return rates;
}
