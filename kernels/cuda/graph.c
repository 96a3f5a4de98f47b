/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's descriptors behind graph.h: tensors and ops are made and finished, proposals are asked for, looked at and built. */
#include "kernels/cuda/graph.h"

#include <stdio.h>
#include <string.h>

#include "src/dev/dev.h"

typedef cudnnBackendDescriptor_t Desc;

/* This process's handle, made at the first plan. */
static cudnnHandle_t handle;

/* cuDNN's own words on the call that failed last, on one line. */
static const char *last_words(void) {
  static char words[512];
  cudnnGetLastErrorString(words, sizeof words);
  words[sizeof words - 1] = 0;
  for (char *c = words; *c; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  return words;
}

/* Another row would be taken where cuDNN refuses; what the GPU happens to have free must not choose between them. */
static void check_memory(cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) dev_memory_failed(what, cudnnGetErrorString(status));
}

static bool try_start(Why *why) {
  if (handle) return true;
  cudnnStatus_t status = cudnnCreate(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  check_memory(status, "cuDNN");
  handle = NULL;
  return why_not(why, "cuDNN does not start: %s: %s", cudnnGetErrorString(status), last_words());
}

static bool refuse(Graph *graph, cudnnStatus_t status, const char *what) {
  graph->refused = true;
  check_memory(status, what);
  return why_not(&graph->why, "cuDNN refuses %s: %s: %s", what, cudnnGetErrorString(status), last_words());
}

static Desc desc_open(Graph *graph, cudnnBackendDescriptorType_t type, const char *what) {
  Desc desc = NULL;
  if (graph->refused) return NULL;
  CHECK(graph->ndescs < GRAPH_DESCS);
  cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &desc);
  if (status != CUDNN_STATUS_SUCCESS) return refuse(graph, status, what), NULL;
  return graph->descs[graph->ndescs++] = desc;
}

static void desc_set(Graph *graph, Desc desc, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                     const void *values, const char *what) {
  if (graph->refused) return;
  cudnnStatus_t status = cudnnBackendSetAttribute(desc, name, type, n, values);
  if (status != CUDNN_STATUS_SUCCESS) refuse(graph, status, what);
}

static void desc_finish(Graph *graph, Desc desc, const char *what) {
  if (graph->refused) return;
  cudnnStatus_t status = cudnnBackendFinalize(desc);
  if (status != CUDNN_STATUS_SUCCESS) refuse(graph, status, what);
}

static void set_desc(Graph *graph, Desc desc, cudnnBackendAttributeName_t name, Desc value, const char *what) {
  desc_set(graph, desc, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

typedef enum Where { IN_MEMORY, VIRTUAL, BY_VALUE } Where;

static GraphTensor tensor_make(Graph *graph, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4], int64_t alignment,
                               Where where) {
  GraphTensor t = {.uid = ++graph->nuids, .type = type};
  const bool yes = true;
  memcpy(t.dim, dim, sizeof t.dim);
  memcpy(t.stride, stride, sizeof t.stride);
  t.desc = desc_open(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t.uid, "a tensor's name");
  desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "a tensor's type");
  desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim, "a tensor's shape");
  desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride, "a tensor's strides");
  desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "a tensor's alignment");
  if (where == VIRTUAL) desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes, "a virtual tensor");
  if (where == BY_VALUE) desc_set(graph, t.desc, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes, "a number");
  desc_finish(graph, t.desc, "a tensor");
  return t;
}

GraphTensor graph_memory(Graph *graph, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4], size_t alignment) {
  return tensor_make(graph, type, dim, stride, (int64_t)alignment, IN_MEMORY);
}

GraphTensor graph_number(Graph *graph, cudnnDataType_t type) {
  static const int64_t one[4] = {1, 1, 1, 1};
  return tensor_make(graph, type, one, one, 4, BY_VALUE);
}

static GraphTensor result(Graph *graph, cudnnDataType_t type, const int64_t dim[4], const GraphTensor *to) {
  const int64_t packed[4] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
  return to ? *to : tensor_make(graph, type, dim, packed, 16, VIRTUAL);
}

static void add_op(Graph *graph, Desc op, const char *what) {
  desc_finish(graph, op, what);
  CHECK(graph->nops < GRAPH_OPS);
  graph->ops[graph->nops++] = op;
}

GraphTensor graph_pointwise(Graph *graph, GraphOp op) {
  static const char what[] = "a pointwise op";
  int64_t dim[4], axis = op.axis;
  for (int r = 0; r < 4; r++) dim[r] = op.y && op.y->dim[r] > op.x->dim[r] ? op.y->dim[r] : op.x->dim[r];
  GraphTensor to = result(graph, op.type, dim, op.to);
  Desc pointwise = desc_open(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
  desc_set(graph, pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &op.mode, what);
  desc_set(graph, pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &op.math, what);
  if (op.mode == CUDNN_POINTWISE_GEN_INDEX) desc_set(graph, pointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, what);
  desc_finish(graph, pointwise, what);
  Desc use = desc_open(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, op.x->desc, what);
  if (op.y) set_desc(graph, use, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, op.y->desc, what);
  if (op.condition) set_desc(graph, use, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, op.condition->desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to.desc, what);
  add_op(graph, use, what);
  return to;
}

GraphTensor graph_matmul(Graph *graph, const GraphTensor *a, const GraphTensor *b, cudnnDataType_t type, const GraphTensor *to) {
  static const char what[] = "a matrix product";
  const cudnnDataType_t math = CUDNN_DATA_FLOAT;
  const int64_t heads = a->dim[1] > b->dim[1] ? a->dim[1] : b->dim[1], dim[4] = {a->dim[0], heads, a->dim[2], b->dim[3]};
  GraphTensor c = result(graph, type, dim, to);
  Desc matmul = desc_open(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
  desc_set(graph, matmul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
  desc_finish(graph, matmul, what);
  Desc use = desc_open(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul, what);
  add_op(graph, use, what);
  return c;
}

GraphTensor graph_reduce(Graph *graph, cudnnReduceTensorOp_t op, const GraphTensor *x, const GraphTensor *to) {
  static const char what[] = "a reduction";
  const cudnnDataType_t math = CUDNN_DATA_FLOAT;
  const int64_t dim[4] = {x->dim[0], x->dim[1], x->dim[2], 1};
  GraphTensor y = result(graph, CUDNN_DATA_FLOAT, dim, to);
  Desc reduction = desc_open(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
  desc_set(graph, reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op, what);
  desc_set(graph, reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, what);
  desc_finish(graph, reduction, what);
  Desc use = desc_open(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.desc, what);
  add_op(graph, use, what);
  return y;
}

GraphTensor graph_view(Graph *graph, const GraphTensor *x, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4]) {
  static const char what[] = "a reshape";
  GraphTensor y = tensor_make(graph, type, dim, stride, 16, VIRTUAL);
  Desc use = desc_open(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->desc, what);
  set_desc(graph, use, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.desc, what);
  add_op(graph, use, what);
  return y;
}

/* The engine behind a proposal (to be destroyed); NULL: cuDNN does not tell. */
static Desc engine_of(Desc config) {
  Desc engine = NULL;
  int64_t n = 0;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return NULL;
  if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) ==
      CUDNN_STATUS_SUCCESS)
    return engine;
  cudnnBackendDestroyDescriptor(engine);
  return NULL;
}

/* Whether an engine says that its results may differ from run to run; true also when it does not say. */
static bool is_nondeterministic(Desc engine) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t n = 0;
  bool may_differ = false;
  if (!engine || cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes) != CUDNN_STATUS_SUCCESS)
    return true;
  for (int64_t i = 0; i < n && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
    may_differ |= notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  return may_differ;
}

enum { KNOBS = 48 };

/* "engine10,k3=1,k21=4": the engine's number and how its knobs are set, in cuDNN's order. */
static void tell(Desc config, Desc engine, char told[], int room) {
  Desc knobs[KNOBS] = {0};
  int64_t n = 0, number = -1;
  int made = 0, at = 0;
  if (engine) cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &number);
  at += snprintf(told, (size_t)room, "engine%lld", (long long)number);
  while (made < KNOBS && cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[made]) == CUDNN_STATUS_SUCCESS)
    made++;
  if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n, knobs) !=
      CUDNN_STATUS_SUCCESS)
    n = 0;
  for (int64_t i = 0; i < n && i < made && at < room; i++) {
    cudnnBackendKnobType_t type = 0;
    int64_t value = 0, got = 0;
    if (cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got, &type) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &got, &value) ==
            CUDNN_STATUS_SUCCESS)
      at += snprintf(told + at, (size_t)(room - at), ",k%d=%lld", (int)type, (long long)value);
  }
  while (made > 0) cudnnBackendDestroyDescriptor(knobs[--made]);
}

/* Builds the proposal's plan; or false, with the reason. */
static bool try_build(Desc config, size_t most, GraphPlan *plan, Why *why) {
  int64_t n = 0, nbytes = 0;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->desc) != CUDNN_STATUS_SUCCESS)
    return why_not(why, "cuDNN makes no plan: %s", last_words());
  if (cudnnBackendSetAttribute(plan->desc, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) !=
          CUDNN_STATUS_SUCCESS ||
      cudnnBackendSetAttribute(plan->desc, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) !=
          CUDNN_STATUS_SUCCESS ||
      cudnnBackendFinalize(plan->desc) != CUDNN_STATUS_SUCCESS ||
      cudnnBackendGetAttribute(plan->desc, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &nbytes) !=
          CUDNN_STATUS_SUCCESS)
    why_not(why, "cuDNN cannot build its proposal: %s", last_words());
  else if (nbytes < 0 || (size_t)nbytes > most)
    why_not(why, "cuDNN wants %lld bytes of workspace where %zu are planned", (long long)nbytes, most);
  else
    return plan->workspace = (size_t)nbytes, true;
  cudnnBackendDestroyDescriptor(plan->desc);
  return false;
}

/* The plan of a proposal, if it meets the wish and so many before it have been passed over. */
static bool try_proposal(Desc config, GraphWish *wish, GraphPlan *plan, Why *why) {
  Desc engine = engine_of(config);
  bool built = false;
  if (wish->deterministic && is_nondeterministic(engine))
    why_not(why, "cuDNN proposes none but nondeterministic plans");
  else if (try_build(config, wish->most, plan, why) && !(built = wish->choice-- == 0)) {
    cudnnBackendDestroyDescriptor(plan->desc);
    why_not(why, "cuDNN has no more plans");
  }
  if (built) tell(config, engine, plan->told, sizeof plan->told);
  if (engine) cudnnBackendDestroyDescriptor(engine);
  return built;
}

enum { PROPOSALS = 32 };

/* Asks cuDNN in one mode for proposals, best first, and builds the first that will do, after so many that would do too. */
static bool try_mode(Graph *graph, Desc ops, cudnnBackendHeurMode_t mode, GraphWish *wish, GraphPlan *plan, Why *why) {
  static const char what[] = "to propose plans";
  Desc configs[PROPOSALS] = {0};
  int64_t n = 0;
  bool built = false;
  Desc query = desc_open(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
  set_desc(graph, query, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, ops, what);
  desc_set(graph, query, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, what);
  desc_finish(graph, query, what);
  if (graph->refused) return *why = graph->why, false;
  for (int i = 0; i < PROPOSALS; i++)
    CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]) == CUDNN_STATUS_SUCCESS);
  cudnnStatus_t status =
      cudnnBackendGetAttribute(query, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &n, configs);
  if (status != CUDNN_STATUS_SUCCESS || n == 0)
    why_not(why, "cuDNN proposes no plan for this shape: %s", status == CUDNN_STATUS_SUCCESS ? "an empty list" : last_words());
  for (int64_t i = 0; i < n && i < PROPOSALS && !built; i++) built = try_proposal(configs[i], wish, plan, why);
  for (int i = 0; i < PROPOSALS; i++) cudnnBackendDestroyDescriptor(configs[i]);
  return built;
}

static void graph_drop(Graph *graph) {
  while (graph->ndescs > 0) cudnnBackendDestroyDescriptor(graph->descs[--graph->ndescs]);
}

bool graph_try_plan(Graph *graph, GraphWish wish, GraphPlan *plan, Why *why) {
  static const char what[] = "the graph";
  if (!try_start(why)) return graph_drop(graph), false;
  Desc ops = desc_open(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
  desc_set(graph, ops, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
  desc_set(graph, ops, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->nops, graph->ops, what);
  desc_finish(graph, ops, what);
  bool built = false;
  if (graph->refused)
    why_not(why, "%s", graph->why.text);
  else
    built = try_mode(graph, ops, CUDNN_HEUR_MODE_A, &wish, plan, why) ||
            (!graph->refused && try_mode(graph, ops, CUDNN_HEUR_MODE_FALLBACK, &wish, plan, &(Why){""}));
  graph_drop(graph);
  return built;
}

static void must(cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  check_memory(status, what);
  fail(FAIL_MACHINE, "%s: cuDNN: %s: %s\nhelp: gpu.attention: plain goes without cuDNN", what, cudnnGetErrorString(status),
       last_words());
}

void graph_run(Desc plan, int n, const int64_t *uids, void *const *at, void *workspace, cudaStream_t stream) {
  static const char what[] = "attention";
  Desc pack;
  must(cudnnSetStream(handle, stream), what);
  must(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), what);
  must(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids), what);
  must(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at), what);
  must(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace), what);
  must(cudnnBackendFinalize(pack), what);
  must(cudnnBackendExecute(handle, plan, pack), what);
  must(cudnnBackendDestroyDescriptor(pack), what);
}
