/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/device_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/random_graph.h"

DeviceCases *device_cases_open(void) {
  Arena *arena = arena_open();
  DeviceCases *cases = arena_new(arena, DeviceCases);
  cases->arena = arena;
  return cases;
}

void device_cases_close(DeviceCases *cases) { arena_close(cases->arena); }

/* The graph with every Var's name behind a prefix, so that programs of one job have no Var in common. */
static Graph *with_prefix(Arena *arena, const Graph *g, const char *prefix) {
  Graph *out = graph_open(arena);
  for (int i = 0; i < g->vars.n; i++) {
    Var var = g->vars.at[i];
    var.name = arena_printf(arena, "%s/%s", prefix, var.name);
    graph_var(out, var);
  }
  out->scopes.n = 0;
  for (int i = 0; i < g->scopes.n; i++) vec_push(arena, &out->scopes, g->scopes.at[i]);
  for (int i = 0; i < g->nodes.n; i++) {
    Node node = *graph_node(g, i);
    if (node.name) node.name = out->vars.at[graph_find_var(g, node.name)].name;
    graph_copy(out, &node, node.in);
  }
  return out;
}

static double **copy_values(Arena *arena, const Graph *g, double *const *values) {
  double **copy = arena_array(arena, double *, g->vars.n);
  for (int v = 0; v < g->vars.n; v++) {
    size_t n = (size_t)shape_size(&g->vars.at[v].shape);
    copy[v] = memcpy(arena_array(arena, double, n), values[v], sizeof(double) * n);
  }
  return copy;
}

void device_cases_add(DeviceCases *cases, const Graph *g, double *const *values, const char *label) {
  Arena *arena = cases->arena;
  DeviceCase c = {.label = arena_strdup(arena, label)};
  Text text = {0};
  graph_print(g, &text);
  c.text = arena_strdup(arena, text.at);
  text_close(&text);
  c.graph = with_prefix(arena, g, arena_printf(arena, "%d", cases->cases.n));
  c.before = copy_values(arena, g, values);
  c.after = copy_values(arena, g, values);
  graph_interpret(g, c.after, NULL, NULL);
  vec_push(arena, &cases->cases, c);
}

void device_cases_add_text(DeviceCases *cases, const char *text, const char *label) {
  Graph *g = graph_open(cases->arena);
  Why why = {""};
  if (!graph_try_parse(g, text, &why)) check_failed(__FILE__, __LINE__, "%s: %s", label, why.text);
  device_cases_add(cases, g, random_values(cases->arena, g, 1), label);
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

static void fill(void *to, DType dtype, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) dtype_store(dtype, to, i, from[i]);
}

/* Whatever the Var is, and wherever. */
static void put_var(Job *job, const Var *var, const double *values, Arena *arena) {
  int64_t n = shape_size(&var->shape);
  void *at = arena_alloc(arena, (size_t)n * dtype_size(var->dtype));
  fill(at, var->dtype, values, n);
  if (var->class == VAR_INPUT || var->class == VAR_STEP)
    memcpy(job_var(job, var->name, NULL), at, (size_t)n * dtype_size(var->dtype));
  else
    job_write(job, var->name, 0, n, at);
}

static void **run_case(const DeviceCase *c, Job *job, int program, Arena *arena) {
  const Graph *g = c->graph;
  void **left = arena_array(arena, void *, g->vars.n);
  for (int v = 0; v < g->vars.n; v++) put_var(job, &g->vars.at[v], c->before[v], arena);
  job_run(job, program);
  for (int v = 0; v < g->vars.n; v++) {
    int64_t n = shape_size(&g->vars.at[v].shape);
    left[v] = arena_alloc(arena, (size_t)n * dtype_size(g->vars.at[v].dtype));
    job_read(job, g->vars.at[v].name, 0, n, left[v]);
  }
  return left;
}

DeviceResults device_cases_run(const DeviceCases *cases, const Choices *choices) {
  Arena *arena = cases->arena;
  int n = cases->cases.n, ones[MESH_AXES] = {1, 1, 1, 1, 1};
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .cache = check_folder(), .threads = 2});
  Comm *comm = comm_self();
  Mesh *mesh = mesh_open(comm, ones);
  Job *job = job_open(arena, dev, comm, mesh, choices, false);
  DeviceResults results = {arena_array(arena, void **, n)};
  for (int i = 0; i < n; i++) {
    const char *name = arena_printf(arena, "case %d", i);
    job_add(job, compile(arena, cases->cases.at[i].graph, NULL, choices, name, true, true, NULL), name);
  }
  JobStart start = job_start(job);
  if (getenv("HPCTRAIN_TEST_TIMES")) fprintf(stderr, "%d kernels in %.1f s\n", start.kernels, start.seconds);
  for (int i = 0; i < n; i++) results.var[i] = run_case(&cases->cases.at[i], job, i, arena);
  job_close(job);
  mesh_close(mesh);
  comm_close(comm);
  dev_close(dev);
  return results;
}

/* --- comparing ---------------------------------------------------------------------------------------------------------- */

static char wrong[512];

/* How far a Var is from what it should be, relative to its norm; integers, infinities and what is no number: infinitely far
 * unless equal. */
static double distance(const Var *var, const void *is, const double *want) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < shape_size(&var->shape); i++) {
    double a = dtype_load(var->dtype, is, i), b = want[i];
    if (a == b || (isnan(a) && isnan(b))) continue;
    if (var->dtype != DT_F32 || !isfinite(a) || !isfinite(b)) return INFINITY;
    difference += (a - b) * (a - b);
  }
  for (int64_t i = 0; i < shape_size(&var->shape); i++) norm += isfinite(want[i]) ? want[i] * want[i] : 0;
  return difference == 0 ? 0 : sqrt(difference) / fmax(sqrt(norm), 1e-3);
}

const char *device_compare(const DeviceCases *cases, const DeviceResults *results, double tolerance) {
  for (int i = 0; i < cases->cases.n; i++) {
    const DeviceCase *c = &cases->cases.at[i];
    for (int v = 0; v < c->graph->vars.n; v++) {
      const Var *var = &c->graph->vars.at[v];
      double far = distance(var, results->var[i][v], c->after[v]);
      if (far <= tolerance) continue;
      fputs(c->text, stderr);
      snprintf(wrong, sizeof wrong, "%s: var %s is %g off (first element %g, want %g)", c->label, var->name, far,
               dtype_load(var->dtype, results->var[i][v], 0), c->after[v][0]);
      return wrong;
    }
  }
  return "";
}

const char *device_same_bits(const DeviceCases *cases, const DeviceResults *a, const DeviceResults *b) {
  for (int i = 0; i < cases->cases.n; i++) {
    const DeviceCase *c = &cases->cases.at[i];
    for (int v = 0; v < c->graph->vars.n; v++) {
      const Var *var = &c->graph->vars.at[v];
      if (!memcmp(a->var[i][v], b->var[i][v], (size_t)shape_size(&var->shape) * dtype_size(var->dtype))) continue;
      fputs(c->text, stderr);
      snprintf(wrong, sizeof wrong, "%s: the bits of var %s differ", c->label, var->name);
      return wrong;
    }
  }
  return "";
}
