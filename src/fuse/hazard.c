/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that write over what they read: a LOAD gives a Var's value from before the program, and yet a STORE's value is
 * written straight into the Var.  So whoever reads the old value runs before whoever writes the new one, or in the same kernel
 * if it reads each element where the new one is written.  Where that cannot be, the Var is written by a copy at the end. */
#include <string.h>

#include "src/fuse/stage.h"

typedef struct Access {
  struct Access *next;
  int node; /* that reads */
  Shape shape;
  Layout layout; /* within the Var */
} Access;

typedef struct Finder {
  const Graph *g;
  Arena *arena;
  const Target *targets;
  Access **reads; /* by var */
  int *absorber;  /* by node: the absorbed ADD that this product belongs to; -1 */
} Finder;

int *fuse_absorbers(const Graph *g, Arena *arena, const Target *targets) {
  int *absorber = arena_ints(arena, g->nodes.n, -1);
  for (int i = 0; i < g->nodes.n; i++)
    if (targets[i].absorbed) absorber[graph_node(g, i)->in[1]] = i;
  return absorber;
}

bool *fuse_stored_vars(const Graph *g, Arena *arena) {
  bool *stored = arena_array(arena, bool, g->vars.n);
  for (int i = 0; i < g->nodes.n; i++)
    if (graph_node(g, i)->op == OP_STORE) stored[graph_find_var(g, graph_node(g, i)->name)] = true;
  return stored;
}

int fuse_var_read(const Graph *g, int node) {
  while (is_view(graph_node(g, node))) node = graph_node(g, node)->in[0];
  const Node *x = graph_node(g, node);
  return x->op == OP_LOAD ? graph_find_var(g, x->name) : -1;
}

/* Which node's step a node is part of. */
static int runs_as(const Finder *f, int node) {
  const Node *x = graph_node(f->g, node);
  if (x->op == OP_RESULT) return x->in[0];
  return f->absorber[node] >= 0 ? f->absorber[node] : node;
}

static void find_reads(Finder *f) {
  const Graph *g = f->g;
  const bool *stored = fuse_stored_vars(g, f->arena);
  Layout *at = arena_array(f->arena, Layout, g->nodes.n);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    at[i] = layout_root(g, i);
    if (is_view(x)) CHECK(layout_view(g, x, &at[x->in[0]], &at[i]));
    if (is_view(x) || x->op == OP_CONCAT || x->op == OP_STORE) continue; /* their inputs are copies or read by others */
    for (int k = 0; k < x->nin; k++) {
      int var = fuse_var_read(g, x->in[k]);
      if (var < 0 || !stored[var]) continue;
      Access *access = arena_new(f->arena, Access);
      *access = (Access){f->reads[var], i, graph_node(g, x->in[k])->shape, at[x->in[k]]};
      f->reads[var] = access;
    }
  }
}

static void extent(const Access *a, int64_t *lo, int64_t *hi) {
  *lo = *hi = a->layout.offset;
  for (int i = 0; i < a->shape.rank; i++) *hi += (a->shape.dim[i] - 1) * a->layout.stride[i];
}

static bool overlap(const Access *a, const Access *b) {
  int64_t alo, ahi, blo, bhi;
  extent(a, &alo, &ahi);
  extent(b, &blo, &bhi);
  return alo <= bhi && blo <= ahi;
}

/* Whether a kernel reads each element where it writes it. */
static bool same_place(const Graph *g, const Access *read, const Access *write) {
  if (!is_fusable(graph_node(g, write->node)) || !is_fusable(graph_node(g, read->node))) return false;
  if (read->layout.offset != write->layout.offset || !shape_equal(&read->shape, &write->shape)) return false;
  for (int i = 0; i < read->shape.rank; i++)
    if (read->shape.dim[i] > 1 && read->layout.stride[i] != write->layout.stride[i]) return false;
  return !is_column(g, graph_node(g, read->node)) && !is_column(g, graph_node(g, write->node));
}

/* Adds what must run before a writer of a part of var; false: that cannot be. */
static bool order_writer(Finder *f, Hazard **hazards, int var, const Access *write) {
  int writer = runs_as(f, write->node);
  for (const Access *read = f->reads[var]; read; read = read->next) {
    int reader = runs_as(f, read->node);
    if (!overlap(read, write)) continue;
    bool together = same_place(f->g, read, write);
    if (reader == writer && f->absorber[write->node] == read->node) continue; /* its product adds to what it reads */
    if (reader > writer || (reader == writer && !together)) return false;
    if (reader == writer) continue;
    Hazard *h = arena_new(f->arena, Hazard);
    *h = (Hazard){hazards[writer], reader, together};
    hazards[writer] = h;
  }
  return true;
}

Hazard **fuse_hazards(const Graph *g, Arena *arena, const Target *targets, bool *copied, bool *again) {
  Finder f = {.g = g, .arena = arena, .targets = targets, .absorber = fuse_absorbers(g, arena, targets)};
  Hazard **hazards = arena_array(arena, Hazard *, g->nodes.n);
  f.reads = arena_array(arena, Access *, g->vars.n);
  find_reads(&f);
  bool *found = memcpy(arena_array(arena, bool, g->vars.n), copied, sizeof *copied * (size_t)g->vars.n);
  *again = false;
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    const Target *t = &targets[i];
    if (t->root < 0 || graph_node(g, t->root)->op != OP_STORE || x->op == OP_CONCAT || t->absorbed) continue;
    int var = graph_find_var(g, graph_node(g, t->root)->name);
    Access write = {.node = i, .shape = x->shape, .layout = {.offset = t->offset}};
    memcpy(write.layout.stride, t->stride, sizeof write.layout.stride);
    if (copied[var] != found[var] || order_writer(&f, hazards, var, &write)) continue;
    CHECK(!copied[var]); /* a copy at the end can be put behind everything */
    *again = copied[var] = true;
  }
  return hazards;
}
