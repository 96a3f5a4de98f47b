/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every graph between passes, checked in every build.  A node's shape and dtype are inferred again and
 * compared, so a pass that edits nodes in place is found out. */
#include <string.h>

#include "src/ir/ir.h"

static bool is_attention(const Node *node) { return node->op == OP_ATTENTION || node->op == OP_ATTENTION_GRAD; }

/* What is not on the device is fetched, or goes from a SEND to a Var that is not there either. */
static bool try_homes(const Graph *g, const Node *node, Why *why) {
  bool to_far = node->op == OP_STORE && g->vars.at[graph_find_var(g, node->name)].home != HOME_DEVICE;
  for (int k = 0; k < node->nin; k++) {
    bool far = graph_is_far(g, node->in[k]);
    if (to_far && g->nodes.at[node->in[k]].op != OP_SEND) return why_not(why, "var '%s' is not on the device: send", node->name);
    if (far && !to_far && node->op != OP_FETCH) return why_not(why, "node %d is not on the device: fetch it", node->in[k]);
    if (!far && node->op == OP_FETCH) return why_not(why, "node %d is on the device", node->in[k]);
  }
  return true;
}

static bool try_node(const Graph *g, int i, Why *why) {
  const Node *node = &g->nodes.at[i];
  if (node->op >= OP_COUNT) return why_not(why, "no such op");
  Node again = *node;
  if (!graph_try_infer(g, i, &again, why)) return false;
  if (again.dtype != node->dtype) return why_not(why, "its type should be %s", dtype_name(again.dtype));
  if (!shape_equal(&again.shape, &node->shape)) return why_not(why, "its shape does not follow from its inputs");
  if (node->scope < 0 || node->scope >= g->scopes.n) return why_not(why, "no scope %d", node->scope);
  if (node->phase >= PHASE_COUNT) return why_not(why, "no phase %d", (int)node->phase);
  for (int k = 0; k < node->nin && node->op != OP_RESULT; k++)
    if (is_attention(&g->nodes.at[node->in[k]])) return why_not(why, "attention is read through its results");
  return try_homes(g, node, why);
}

/* A node that fails is named in *at; -1 where it is no node. */
static bool try_graph(const Graph *g, Arena *scratch, int *at, Why *why) {
  *at = -1;
  if (g->scopes.n < 1) return why_not(why, "there is no scope 0");
  for (int i = 0; i < g->vars.n; i++) {
    const Var *v = &g->vars.at[i];
    if (!v->name || graph_find_var(g, v->name) != i) return why_not(why, "var %d is not found by its name", i);
    if (v->dtype >= DT_COUNT || v->class >= VAR_CLASSES || !shape_sane(&v->shape))
      return why_not(why, "var '%s' has an impossible type, shape or class", v->name);
    if (v->home != HOME_DEVICE && (v->home >= VAR_HOMES || (v->class != VAR_STATE && v->class != VAR_CARRY)))
      return why_not(why, "var '%s' cannot be kept off the device", v->name);
  }
  bool *stored = arena_array(scratch, bool, g->vars.n);
  for (*at = 0; *at < g->nodes.n; ++*at) {
    if (!try_node(g, *at, why)) return false;
    const Node *node = &g->nodes.at[*at];
    if (node->op != OP_STORE) continue;
    bool *is = &stored[graph_find_var(g, node->name)];
    if (*is) return why_not(why, "var '%s' is stored twice", node->name);
    *is = true;
  }
  return true;
}

static bool try_check(const Graph *g, int *at, Why *why) {
  Arena *scratch = arena_open();
  bool ok = try_graph(g, scratch, at, why);
  arena_close(scratch);
  return ok;
}

bool graph_try_check(const Graph *g, Why *why) {
  int at;
  return try_check(g, &at, why);
}

void graph_check(const Graph *g, const char *after) {
  int at;
  Why why;
  Text text = {0};
  if (try_check(g, &at, &why)) return;
  if (at >= 0) {
    text_printf(&text, "\n  ");
    graph_print_node(g, at, &text);
  }
  fail(FAIL_BUG,
       "the graph is wrong after %s: %s%.4000s\nhelp: this is a fault of hpctrain; please report it with run.yaml and log.txt",
       after, why.text, text.at ? text.at : "");
}
