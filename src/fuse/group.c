/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes become one kernel.
 *
 * Greedy, in node order: a node joins the kernels of the operands it can take from registers, then kernels that read the same
 * value are joined too.  A widened value goes with its one user, so that what is written is the 16 bits.  Two kernels are joined
 * only if their domains agree and nothing outside lies on a path between them (else neither could run first).  Kernels do not cross
 * phases, except within a chunk. */
#include <string.h>

#include "src/fuse/stage.h"

enum { GROUP_VALUES = 160, GROUP_ARGS = 28 }; /* what one kernel may hold and read: registers and compile time */

typedef struct Group {
  int parent; /* itself, or the group it was joined to */
  int first, last, count;
  Shape domain; /* columns are 1 until a FULL value is there */
  bool has_column;
} Group;

typedef struct Grouper {
  const Graph *g;
  Arena *arena;
  Hazard *const *hazards;
  int *group; /* by node, through find(); -1 */
  VEC(Group) groups;
  VEC(int) * members; /* by group */
  int *stamp, now;    /* by node: visited in search `now` */
  int *uses, *inside; /* by node: how often it is an input; few_args's: of members (else 0) */
  int *top;           /* by node: the last member of any kernel with a member before and one behind it; else itself */
} Grouper;

bool is_fusable(const Node *node) {
  OpKind kind = op_table[node->op].kind;
  return kind == KIND_POINTWISE || kind == KIND_REDUCE || node->op == OP_IOTA;
}

bool is_column(const Graph *g, const Node *node) {
  return op_table[node->op].kind == KIND_REDUCE && node->n[0] != graph_node(g, node->in[0])->shape.rank - 1;
}

Shape domain_of(const Graph *g, const Node *node) {
  Shape s = op_table[node->op].kind == KIND_REDUCE ? graph_node(g, node->in[0])->shape : node->shape;
  return s.rank ? s : SHAPE(1);
}

static int64_t columns(const Shape *s) { return s->dim[s->rank - 1]; }

int inner_operand(const Graph *g, const Node *node, int k) {
  int i = node->in[k];
  const Node *x = graph_node(g, i);
  if (x->op == OP_BROADCAST) {
    Shape from = graph_node(g, x->in[0])->shape;
    if (!from.rank || columns(&from) != 1) return -1;
    from.dim[from.rank - 1] = columns(&x->shape);
    if (!shape_equal(&from, &x->shape)) return -1; /* repeats along other axes than the columns */
    i = x->in[0];
    x = graph_node(g, i);
  }
  return is_fusable(x) && !is_column(g, x) ? i : -1;
}

static int find(const Grouper *r, int group) {
  while (r->groups.at[group].parent != group) group = r->groups.at[group].parent;
  return group;
}

static bool same_rows(const Shape *a, const Shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i + 1 < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

/* One row of many columns is a flat vector, which runs in chunks: scalars do not belong to it. */
static bool domains_agree(const Shape *a, const Shape *b) {
  enum { MANY = 4096 };
  if (!same_rows(a, b)) return false;
  int64_t x = columns(a), y = columns(b);
  if (x == y) return true;
  int64_t rows = shape_size(a) / x;
  return (x == 1 || y == 1) && !(rows == 1 && x * y > MANY);
}

static bool reaches(Grouper *r, int node, int target);

/* The last node that what is at or before a node may need: a kernel runs all its members at once. */
static int highest(const Grouper *r, int node) {
  while (r->top[node] > node) node = r->top[node];
  return node;
}

/* Whether something that must run before node does. */
static bool needs(Grouper *r, int node, int target) {
  const Node *x = graph_node(r->g, node);
  for (int k = 0; k < x->nin; k++)
    if (reaches(r, x->in[k], target)) return true;
  for (const Hazard *h = r->hazards[node]; h; h = h->next)
    if (reaches(r, h->reader, target)) return true;
  return false;
}

/* Whether `node` is in group `target` or needs it to run before. */
static bool reaches(Grouper *r, int node, int target) {
  if (r->stamp[node] == r->now) return false;
  int mine = r->group[node] >= 0 ? find(r, r->group[node]) : -1;
  if (mine == target) return true;
  if (highest(r, node) < r->groups.at[target].first) return false;
  r->stamp[node] = r->now;
  if (mine < 0) return needs(r, node, target);
  for (int m = 0; m < r->members[mine].n; m++) r->stamp[r->members[mine].at[m]] = r->now;
  for (int m = 0; m < r->members[mine].n; m++) /* all of its kernel runs at once */
    if (needs(r, r->members[mine].at[m], target)) return true;
  return false;
}

/* Whether a member of group a needs group b through anything that is not a member of either. */
static bool needs_outside(Grouper *r, int a, int b) {
  r->now++;
  for (int m = 0; m < r->members[a].n; m++) {
    const Node *x = graph_node(r->g, r->members[a].at[m]);
    for (int k = 0; k < x->nin; k++) {
      int inner = inner_operand(r->g, x, k), node = inner >= 0 ? inner : x->in[k];
      int of = inner >= 0 && r->group[inner] >= 0 ? find(r, r->group[inner]) : -1;
      if (of == a || of == b) continue; /* a register of the joined kernel */
      if (reaches(r, node, b)) return true;
    }
    for (const Hazard *h = r->hazards[r->members[a].at[m]]; h; h = h->next) {
      int of = r->group[h->reader] >= 0 ? find(r, r->group[h->reader]) : -1;
      if (of == a || (of == b && h->together)) continue;
      if (reaches(r, h->reader, b)) return true;
    }
  }
  return false;
}

static bool phases_agree(const Graph *g, const Node *a, const Node *b) {
  if (a->phase == b->phase) return true;
  return a->scope == b->scope && g->scopes.at[a->scope].kind == SCOPE_CHUNK;
}

static bool joinable(Grouper *r, int a, int b) {
  const Group *x = &r->groups.at[a], *y = &r->groups.at[b];
  if (!domains_agree(&x->domain, &y->domain) || x->count + y->count > GROUP_VALUES) return false;
  if (!phases_agree(r->g, graph_node(r->g, x->first), graph_node(r->g, y->last))) return false;
  return !needs_outside(r, a, b) && !needs_outside(r, b, a);
}

static int join(Grouper *r, int a, int b) {
  Group *x = &r->groups.at[a], *y = &r->groups.at[b];
  y->parent = a;
  if (y->first < x->first) x->first = y->first;
  if (y->last > x->last) x->last = y->last;
  x->count += y->count;
  for (int i = x->first; i < x->last; i++)
    if (r->top[i] < x->last) r->top[i] = x->last;
  if (columns(&y->domain) > columns(&x->domain)) x->domain = y->domain;
  for (int m = 0; m < r->members[b].n; m++) vec_push(r->arena, &r->members[a], r->members[b].at[m]);
  return a;
}

static bool is_member(const Grouper *r, int node, int a, int b) {
  int of = node >= 0 && r->group[node] >= 0 ? find(r, r->group[node]) : -1;
  return of >= 0 && (of == a || of == b);
}

/* Whether a kernel of both has room for the addresses of what it reads and writes.  An upper bound: what is read twice counts
 * twice, and what users outside may yet be joined counts as written. */
static bool few_args(Grouper *r, int a, int b) {
  int viewed = 0, others = 0, both[] = {a, b}; /* read through views, or made by no kernel; the rest */
  for (int i = 0; i < 2; i++)
    for (int m = 0; m < r->members[both[i]].n; m++) {
      const Node *x = graph_node(r->g, r->members[both[i]].at[m]);
      for (int k = 0; k < x->nin; k++) {
        int inner = inner_operand(r->g, x, k);
        bool within = is_member(r, inner, a, b);
        if (within) r->inside[inner] += inner == x->in[k];
        if (within || constant_of(r->g, x->in[k])) continue;
        *(inner < 0 ? &viewed : &others) += 1;
      }
    }
  for (int i = 0; i < 2; i++)
    for (int m = 0; m < r->members[both[i]].n; m++) {
      int node = r->members[both[i]].at[m];
      others += r->inside[node] < r->uses[node];
      r->inside[node] = 0;
    }
  return viewed <= GROUP_ARGS && viewed + others <= STEP_ARGS;
}

/* A widened value that one kernel value alone reads, in a register. */
static bool *find_followers(const Graph *g, Arena *arena, const int *uses) {
  bool *follows = arena_array(arena, bool, g->nodes.n);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    for (int k = 0; k < x->nin && is_fusable(x); k++) {
      int inner = inner_operand(g, x, k);
      if (inner >= 0 && inner == x->in[k] && uses[inner] == 1 && is_widened(graph_node(g, inner), g)) follows[inner] = true;
    }
  }
  return follows;
}

static int add_group(Grouper *r, int node) {
  const Node *x = graph_node(r->g, node);
  int id = r->groups.n;
  vec_push(r->arena, &r->groups, (Group){.parent = id, .first = node, .last = node, .count = 1, .domain = domain_of(r->g, x)});
  vec_push(r->arena, &r->members[id], node);
  return r->group[node] = id;
}

static int take_operands(Grouper *r, const Target *targets, int node, int mine) {
  const Node *x = graph_node(r->g, node);
  for (int k = 0; k < x->nin; k++) {
    int inner = inner_operand(r->g, x, k);
    if (inner < 0 || targets[inner].absorbed) continue;
    if (r->group[inner] < 0) { /* it has waited for this user */
      mine = join(r, mine, add_group(r, inner));
      mine = take_operands(r, targets, inner, mine);
      continue;
    }
    int other = find(r, r->group[inner]);
    if (other != mine && few_args(r, other, mine) && joinable(r, other, mine)) mine = join(r, other, mine);
  }
  return mine;
}

/* Joins kernels of one scope that read one value of the whole domain from memory.  Of different scopes they would keep each
 * other's results alive for long. */
static void join_readers(Grouper *r) {
  int n = r->g->nodes.n;
  int *reader = arena_array(r->arena, int, n); /* by value read: a group + 1 */
  for (int i = 0; i < n; i++) {
    if (r->group[i] < 0) continue;
    const Node *x = graph_node(r->g, i);
    for (int k = 0; k < x->nin; k++) {
      int mine = find(r, r->group[i]), from = x->in[k];
      if (inner_operand(r->g, x, k) >= 0 && r->group[from] >= 0 && find(r, r->group[from]) == mine) continue;
      if (constant_of(r->g, from)) continue;
      while (is_view(graph_node(r->g, from)) && graph_node(r->g, from)->op == OP_RESHAPE) from = graph_node(r->g, from)->in[0];
      if (shape_size(&graph_node(r->g, from)->shape) < shape_size(&r->groups.at[mine].domain)) continue;
      int other = reader[from] ? find(r, reader[from] - 1) : mine;
      bool same = shape_equal(&r->groups.at[mine].domain, &r->groups.at[other].domain) &&
                  x->scope == graph_node(r->g, r->groups.at[other].last)->scope;
      if (other != mine && same && few_args(r, other, mine) && joinable(r, other, mine)) mine = join(r, other, mine);
      reader[from] = mine + 1;
    }
  }
}

Grouping fuse_group(const Graph *g, Arena *arena, const Target *targets, Hazard *const *hazards, bool unfused) {
  int n = g->nodes.n;
  Grouper r = {
      .g = g, .arena = arena, .hazards = hazards, .group = arena_array(arena, int, n), .stamp = arena_array(arena, int, n)};
  memset(r.group, -1, sizeof *r.group * (size_t)n);
  r.top = arena_array(arena, int, n);
  for (int i = 0; i < n; i++) r.top[i] = i;
  r.members = (void *)arena_alloc(arena, sizeof *r.members * (size_t)n);
  r.uses = count_uses(g, arena).of;
  r.inside = arena_array(arena, int, n);
  const bool *follows = find_followers(g, arena, r.uses);
  for (int i = 0; i < n; i++) {
    if (!is_fusable(graph_node(g, i)) || targets[i].absorbed || (follows[i] && !unfused)) continue;
    int mine = add_group(&r, i);
    if (!unfused) take_operands(&r, targets, i, mine);
  }
  if (!unfused) join_readers(&r);
  Grouping result = {.group = arena_array(arena, int, n)};
  int *number = arena_array(arena, int, r.groups.n);
  for (int i = 0; i < n; i++) {
    result.group[i] = -1;
    if (r.group[i] < 0) continue;
    int root = find(&r, r.group[i]);
    if (!number[root]) number[root] = ++result.n;
    result.group[i] = number[root] - 1;
  }
  return result;
}
