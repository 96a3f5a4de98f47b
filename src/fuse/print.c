/* SPDX-License-Identifier: Apache-2.0 */
/* A program for people: every step with what it computes, reads and writes, then every buffer with its life and its place. */
#include <inttypes.h>

#include "src/fuse/fuse.h"

static const char *const level_names[] = {"const", "row", "full", "column"};
static const char *const class_names[] = {"var", "table", "transient", "host"};
static const char *const kernel_op_names[] = {"input", "const", "iota", NULL, "sum", "maximum", "column_sum"};

/* "1.50 GiB" */
static void print_bytes(Text *text, size_t nbytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double n = (double)nbytes;
  int u = 0;
  for (; n >= 1024 && u < 4; u++) n /= 1024;
  text_printf(text, u ? "%.2f %s" : "%.0f %s", n, units[u]);
}

/* "(8,256 x 64)": rows and columns. */
static void print_domain(Text *text, const Shape *s) {
  text_printf(text, "(");
  for (int a = 0; a < s->rank; a++) text_printf(text, "%s%" PRId64, a == 0 ? "" : a == s->rank - 1 ? " x " : ",", s->dim[a]);
  text_printf(text, ")");
}

static void print_shape(Text *text, const Shape *s) {
  text_printf(text, "(");
  for (int a = 0; a < s->rank; a++) text_printf(text, "%s%" PRId64, a ? "," : "", s->dim[a]);
  text_printf(text, ")");
}

static void print_strides(Text *text, const int64_t *stride, int rank) {
  text_printf(text, " [");
  for (int a = 0; a < rank; a++) text_printf(text, "%s%" PRId64, a ? "," : "", stride[a]);
  text_printf(text, "]");
}

/* "b7 "wq" + 128 f32" */
static void print_place(const Program *p, Text *text, const StepArg *arg) {
  text_printf(text, "b%d \"%s\"", arg->place.buffer, p->buffers[arg->place.buffer].name);
  if (arg->place.offset) text_printf(text, " + %" PRId64, arg->place.offset);
  text_printf(text, " %s", dtype_name(arg->dtype));
}

/* --- kernels ------------------------------------------------------------------------------------------------------------ */

static void print_value(Text *text, const Kernel *k, int i) {
  const KernelValue *v = &k->values[i];
  char number[NUM_TEXT];
  text_printf(text, "    v%d %s %s = %s", i, level_names[v->level], dtype_name(v->dtype),
              v->kop == K_POINTWISE ? op_table[v->op].name : kernel_op_names[v->kop]);
  for (int n = 0; n < v->nin; n++) text_printf(text, " v%d", v->in[n]);
  if (v->kop == K_INPUT) text_printf(text, " %d", v->input);
  if (v->kop == K_CONST) text_printf(text, " %s", num_double(v->f, number));
  if (v->kop == K_IOTA) text_printf(text, " axis %d", v->axis);
  text_printf(text, "\n");
}

static void print_kernel(const Program *p, Text *text, const Step *s) {
  const Kernel *k = s->kernel;
  print_domain(text, &k->domain);
  text_printf(text, ", %d block%s\n", k->blocks, k->blocks == 1 ? "" : "s");
  for (int i = 0; i < s->nin; i++) {
    text_printf(text, "    input %d: ", i);
    print_place(p, text, &s->in[i]);
    print_strides(text, k->inputs[i].stride, k->domain.rank);
    text_printf(text, "\n");
  }
  for (int i = 0; i < k->nvalues; i++) print_value(text, k, i);
  for (int i = 0; i < s->nout; i++) {
    text_printf(text, "    output v%d: ", k->outputs[i].value);
    print_place(p, text, &s->out[i]);
    print_strides(text, k->outputs[i].stride, k->domain.rank);
    text_printf(text, "\n");
  }
}

/* --- other steps -------------------------------------------------------------------------------------------------------- */

static void print_arg(const Program *p, Text *text, const char *what, const StepArg *arg) {
  text_printf(text, "    %s ", what);
  print_place(p, text, arg);
  text_printf(text, " ");
  print_shape(text, &arg->shape);
  print_strides(text, arg->place.stride, arg->shape.rank);
  text_printf(text, "\n");
}

static void print_args(const Program *p, Text *text, const Step *s) {
  for (int i = 0; i < s->nin; i++) print_arg(p, text, "in ", &s->in[i]);
  for (int i = 0; i < s->nout; i++) print_arg(p, text, "out", &s->out[i]);
  if (s->workspace < 0) return;
  text_printf(text, "    workspace b%d ", s->workspace);
  print_bytes(text, p->buffers[s->workspace].nbytes);
  text_printf(text, "\n");
}

static void print_big(const Program *p, Text *text, const Step *s) {
  char number[NUM_TEXT];
  text_printf(text, "%s n=%" PRId64 ",%" PRId64 " f=%s\n", op_table[s->op].name, s->n[0], s->n[1], num_double(s->f, number));
  print_args(p, text, s);
}

static void print_start(const Program *p, Text *text, const Step *s) {
  text_printf(text, "%s %d, axis %" PRId64 " of %" PRId64 " ranks\n", op_table[s->op].name, s->collective, s->n[0], s->n[1]);
  print_args(p, text, s);
}

static void print_transfer(const Program *p, Text *text, const Step *s) {
  text_printf(text, "%s %d\n", op_table[s->op].name, s->collective);
  print_args(p, text, s);
}

static void print_wait(const Program *p, Text *text, const Step *s) {
  (void)p;
  text_printf(text, "%s %d\n", op_table[s->op].name, s->collective);
}

static const struct {
  const char *name;
  void (*print)(const Program *p, Text *text, const Step *s);
} step_kinds[] = {[STEP_KERNEL] = {"kernel", print_kernel},          [STEP_BIG] = {"big", print_big},
                  [STEP_COLLECTIVE_START] = {"start", print_start},  [STEP_COLLECTIVE_WAIT] = {"wait", print_wait},
                  [STEP_TRANSFER_START] = {"start", print_transfer}, [STEP_TRANSFER_WAIT] = {"wait", print_wait}};

/* --- the whole ---------------------------------------------------------------------------------------------------------- */

static void print_step(const Program *p, Text *text, int i) {
  static const char *const phases[PHASE_COUNT] = {"forward", "recompute", "backward"};
  const Step *s = &p->steps[i];
  const Node *node = graph_node(p->graph, s->node);
  const char *scope = p->graph->scopes.at[node->scope].name;
  text_printf(text, "step %d of node %d (%s%s%s): %s ", i, s->node, scope ? scope : "", scope && *scope ? ", " : "",
              phases[node->phase], step_kinds[s->kind].name);
  step_kinds[s->kind].print(p, text, s);
}

static void print_buffer(const Program *p, Text *text, int i) {
  const Buffer *b = &p->buffers[i];
  text_printf(text, "b%d %s \"%s\" ", i, class_names[b->class], b->name);
  print_bytes(text, b->nbytes);
  if (b->class == BUFFER_TRANSIENT || b->class == BUFFER_HOST) text_printf(text, " at %" PRId64, b->offset);
  text_printf(text, b->first < 0 ? ", unused\n" : ", steps %d to %d\n", b->first, b->last);
}

void program_print(const Program *p, Text *text) {
  text_printf(text, "%d steps, %d buffers, transient memory ", p->nsteps, p->nbuffers);
  print_bytes(text, p->transient);
  text_printf(text, ", alive at most ");
  print_bytes(text, p->live);
  text_printf(text, " (step %d)\n", p->peak_step);
  for (int i = 0; i < p->nsteps; i++) print_step(p, text, i);
  for (int i = 0; i < p->nbuffers; i++) print_buffer(p, text, i);
}
