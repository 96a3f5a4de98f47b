/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text: scopes, vars, then nodes, one line each.
 *
 *   scope 1 block "layers.0"
 *   var param "layers.0.q" f32[64,64] unit="layers.0" init=normal std=0.02
 *   var state "m/layers.0" f32[16384] @host
 *   %0 = load "layers.0.q" : f32[64,64] @1 fwd
 *   %3 = matmul %1 %0 ta=0 tb=1 : f32[192,64] @1 fwd
 *
 * A node's line is: index, op, inputs, name, numbers, f, table, result, scope, phase. */
#include <string.h>

#include "src/base/hash.h"
#include "src/ir/ir.h"

const char *const phase_names[PHASE_COUNT] = {"fwd", "rec", "bwd"};
const char *const var_class_names[VAR_CLASSES] = {"input", "step", "param", "state", "carry", "output"};
const char *const var_home_names[VAR_HOMES] = {"device", "host", "file"};
const char *const scope_kind_names[SCOPE_KINDS] = {"plain", "block", "chunk"};
const char *const init_names[INIT_KINDS] = {"zero", "one", "normal"};

static void print_quoted(Text *text, const char *s) {
  text_add(text, "\"", 1);
  for (; *s; s++)
    if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
      text_printf(text, "\\x%02x", (unsigned char)*s);
    else
      text_add(text, s, 1);
  text_add(text, "\"", 1);
}

static void print_double(Text *text, double value) {
  char out[NUM_TEXT];
  num_double(value, out);
  text_add(text, out, strlen(out));
}

static void print_type(Text *text, DType dtype, const Shape *s) {
  text_printf(text, "%s[", dtype < DT_COUNT ? dtype_name(dtype) : "?");
  for (int i = 0; i < s->rank && i < IR_RANK; i++) text_printf(text, "%s%lld", i ? "," : "", (long long)s->dim[i]);
  text_add(text, "]", 1);
}

/* " lo=2 hi=4", or " axes=1,0" where the row says as many as the rank. */
static void print_numbers(Text *text, const Node *node, const char *names) {
  if (!strcmp(names, "*")) {
    text_printf(text, " axes=");
    for (int i = 0; i < node->shape.rank && i < IR_RANK; i++) text_printf(text, "%s%lld", i ? "," : "", (long long)node->n[i]);
    return;
  }
  for (int i = 0; *names; i++) {
    size_t n = strcspn(names, " ");
    text_printf(text, " %.*s=%lld", (int)n, names, (long long)node->n[i]);
    names += n + strspn(names + n, " ");
  }
}

void graph_print_node(const Graph *g, int i, Text *text) {
  const Node *node = graph_node(g, i);
  if (node->op >= OP_COUNT) {
    text_printf(text, "%%%d = op %d", i, (int)node->op);
    return;
  }
  const OpRow *row = &op_table[node->op];
  text_printf(text, "%%%d = %s", i, row->name);
  for (int k = 0; k < node->nin; k++) text_printf(text, " %%%d", node->in[k]);
  if (row->has_name) {
    text_add(text, " ", 1);
    print_quoted(text, node->name ? node->name : "");
  }
  print_numbers(text, node, row->numbers);
  if (row->has_f) {
    text_printf(text, " f=");
    print_double(text, node->f);
  }
  for (int64_t k = 0; node->op == OP_TABLE && node->table && k < node->n[0]; k++) {
    text_printf(text, k ? "," : " values=");
    print_double(text, node->table[k]);
  }
  text_printf(text, " : ");
  print_type(text, node->dtype, &node->shape);
  text_printf(text, " @%d %s", node->scope, node->phase < PHASE_COUNT ? phase_names[node->phase] : "?");
}

static void print_var(Text *text, const Var *v) {
  text_printf(text, "var %s ", var_class_names[v->class]);
  print_quoted(text, v->name);
  text_add(text, " ", 1);
  print_type(text, v->dtype, &v->shape);
  if (v->home != HOME_DEVICE) text_printf(text, " @%s", var_home_names[v->home]);
  if (v->class == VAR_PARAM) {
    if (v->unit) {
      text_printf(text, " unit=");
      print_quoted(text, v->unit);
    }
    text_printf(text, " init=%s std=", init_names[v->init]);
    print_double(text, v->std);
  }
  if (v->within) {
    text_printf(text, " within=");
    print_quoted(text, v->within);
    text_printf(text, " axis=%d", v->axis);
  }
  text_add(text, "\n", 1);
}

void graph_print(const Graph *g, Text *text) {
  for (int i = 1; i < g->scopes.n; i++) {
    text_printf(text, "scope %d %s ", i, scope_kind_names[g->scopes.at[i].kind]);
    print_quoted(text, g->scopes.at[i].name);
    text_add(text, "\n", 1);
  }
  for (int i = 0; i < g->vars.n; i++) print_var(text, &g->vars.at[i]);
  for (int i = 0; i < g->nodes.n; i++) {
    graph_print_node(g, i, text);
    text_add(text, "\n", 1);
  }
}

uint64_t graph_hash(const Graph *g) {
  Text text = {0};
  Sha256 sha;
  text_add(&text, "", 0);
  graph_print(g, &text);
  sha256_init(&sha);
  sha256_add(&sha, text.at, text.n);
  text_close(&text);
  return sha256_u64(&sha);
}
