/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what graph_print wrote (text.c has the format).  The text may be anybody's: every node goes through graph_try_push,
 * whose result must be what the line says. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "src/ir/ir.h"

typedef struct Reader {
  Graph *g;
  const char *at;
  int line;
  Why *why;
} Reader;

static bool bad(Reader *r, const char *what) {
  return why_not(r->why, "line %d: expected %s at \"%.*s\"", r->line, what,
                 (int)strcspn(r->at, "\n") < 40 ? (int)strcspn(r->at, "\n") : 40, r->at);
}

static void skip_blanks(Reader *r) { r->at += strspn(r->at, " "); }

static bool take(Reader *r, const char *literal) {
  size_t n = strlen(literal);
  skip_blanks(r);
  if (strncmp(r->at, literal, n) != 0) return false;
  r->at += n;
  return true;
}

static bool need(Reader *r, const char *literal) { return take(r, literal) || bad(r, literal); }

/* What runs up to a blank, a delimiter or the end of the line: a number or a word. */
static bool read_token(Reader *r, char out[NUM_TEXT], const char *what) {
  skip_blanks(r);
  size_t n = strcspn(r->at, " ,=[]\"%:\n");
  if (n == 0 || n >= NUM_TEXT) return bad(r, what);
  memcpy(out, r->at, n);
  out[n] = 0;
  r->at += n;
  return true;
}

static bool read_int(Reader *r, int64_t *value) {
  char token[NUM_TEXT];
  const char *start = r->at;
  if (!read_token(r, token, "an integer")) return false;
  if (num_parse_int(token, value)) return true;
  r->at = start;
  return bad(r, "an integer");
}

static bool read_double(Reader *r, double *value) {
  char token[NUM_TEXT];
  const char *start = r->at;
  if (!read_token(r, token, "a number")) return false;
  if (num_parse_double(token, value)) return true;
  r->at = start;
  return bad(r, "a number");
}

/* The index of the next word in names. */
static bool read_name(Reader *r, const char *const *names, int n, const char *what, int *index) {
  char token[NUM_TEXT];
  const char *start = r->at;
  if (!read_token(r, token, what)) return false;
  for (*index = 0; *index < n; ++*index)
    if (!strcmp(names[*index], token)) return true;
  r->at = start;
  return bad(r, what);
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool read_quoted(Reader *r, const char **out) {
  if (!need(r, "\"")) return false;
  char *s = arena_alloc(r->g->arena, strcspn(r->at, "\"\n") + 1), *end = s;
  for (; *r->at && *r->at != '"' && *r->at != '\n'; r->at++) {
    if (*r->at != '\\') {
      *end++ = *r->at;
      continue;
    }
    int high = r->at[1] == 'x' ? hex_digit(r->at[2]) : -1, low = high >= 0 ? hex_digit(r->at[3]) : -1;
    if (low < 0 || high + low == 0) return bad(r, "\\x and two digits");
    *end++ = (char)(high * 16 + low);
    r->at += 3;
  }
  *out = s;
  return need(r, "\"");
}

static bool read_type(Reader *r, DType *dtype, Shape *s) {
  const char *names[DT_COUNT];
  int index;
  for (int i = 0; i < DT_COUNT; i++) names[i] = dtype_name((DType)i);
  if (!read_name(r, names, DT_COUNT, "a type", &index) || !need(r, "[")) return false;
  *dtype = (DType)index;
  s->rank = 0;
  while (!take(r, "]")) {
    if (s->rank == IR_RANK) return bad(r, "]");
    if (s->rank && !need(r, ",")) return false;
    if (!read_int(r, &s->dim[s->rank++])) return false;
  }
  return shape_sane(s) || bad(r, "a possible shape before");
}

static bool read_scope(Reader *r) {
  int64_t i;
  int kind;
  const char *name;
  if (!read_int(r, &i)) return false;
  if (i != r->g->scopes.n) return why_not(r->why, "line %d: scope %lld instead of %d", r->line, (long long)i, r->g->scopes.n);
  if (!read_name(r, scope_kind_names, SCOPE_KINDS, "a kind of scope", &kind) || !read_quoted(r, &name)) return false;
  vec_push(r->g->arena, &r->g->scopes, (Scope){.name = name, .kind = (ScopeKind)kind});
  return true;
}

static bool read_var(Reader *r) {
  Var v = {0};
  int class, init, home;
  if (!read_name(r, var_class_names, VAR_CLASSES, "a class of var", &class) || !read_quoted(r, &v.name)) return false;
  if (!read_type(r, &v.dtype, &v.shape)) return false;
  v.class = (VarClass) class;
  if (take(r, "@")) {
    if (!read_name(r, var_home_names, VAR_HOMES, "a home", &home)) return false;
    v.home = (VarHome)home;
  }
  if (v.class == VAR_PARAM) {
    if (take(r, "unit=") && !read_quoted(r, &v.unit)) return false;
    if (!need(r, "init=") || !read_name(r, init_names, INIT_KINDS, "an init", &init)) return false;
    if (!need(r, "std=") || !read_double(r, &v.std)) return false;
    v.init = (InitKind)init;
  }
  if (take(r, "within=")) {
    int64_t axis;
    if (!read_quoted(r, &v.within) || !need(r, "axis=") || !read_int(r, &axis)) return false;
    v.axis = (int)axis;
  }
  if (graph_find_var(r->g, v.name) >= 0) return why_not(r->why, "line %d: a second var '%s'", r->line, v.name);
  graph_var(r->g, v);
  return true;
}

static bool read_inputs(Reader *r, Node *node) {
  VEC(int) in = {0};
  while (take(r, "%")) {
    int64_t i;
    if (!read_int(r, &i)) return false;
    if (i < 0 || i >= r->g->nodes.n) return why_not(r->why, "line %d: no node %lld before this one", r->line, (long long)i);
    vec_push(r->g->arena, &in, (int)i);
  }
  node->in = in.at;
  node->nin = in.n;
  return true;
}

/* *listed: how many a list has; -1 where the op takes no list. */
static bool read_numbers(Reader *r, const char *names, Node *node, int *listed) {
  *listed = -1;
  if (!strcmp(names, "*")) {
    if (!need(r, "axes=")) return false;
    for (*listed = 0; *r->at != ' ' && *listed < IR_RANK; ++*listed)
      if ((*listed && !need(r, ",")) || !read_int(r, &node->n[*listed])) return false;
    return true;
  }
  for (int i = 0; *names; i++) {
    char key[NUM_TEXT];
    size_t n = strcspn(names, " ");
    CHECK(n + 2 <= sizeof key);
    memcpy(key, names, n);
    key[n] = '=';
    key[n + 1] = 0;
    if (!need(r, key) || !read_int(r, &node->n[i])) return false;
    names += n + strspn(names + n, " ");
  }
  return true;
}

static bool read_table(Reader *r, Node *node) {
  int64_t n = node->n[0];
  if (n < 1 || (size_t)n > strcspn(r->at, "\n")) return bad(r, "as many values as counted");
  double *table = arena_array(r->g->arena, double, n);
  if (!need(r, "values=")) return false;
  for (int64_t i = 0; i < n; i++)
    if ((i && !need(r, ",")) || !read_double(r, &table[i])) return false;
  node->table = table;
  return true;
}

static bool read_op(Reader *r, Node *node) {
  const char *names[OP_COUNT];
  int op;
  for (int i = 0; i < OP_COUNT; i++) names[i] = op_table[i].name;
  if (!need(r, "=") || !read_name(r, names, OP_COUNT, "an op", &op)) return false;
  node->op = (Op)op;
  return true;
}

static bool read_node(Reader *r) {
  Node node = {0};
  int64_t i, scope;
  int listed, phase, index;
  Why why;
  if (!read_int(r, &i)) return false;
  if (i != r->g->nodes.n) return why_not(r->why, "line %d: node %lld instead of %d", r->line, (long long)i, r->g->nodes.n);
  if (!read_op(r, &node) || !read_inputs(r, &node)) return false;
  const OpRow *row = &op_table[node.op];
  if (row->has_name && !read_quoted(r, &node.name)) return false;
  if (!read_numbers(r, row->numbers, &node, &listed)) return false;
  if (row->has_f && (!need(r, "f=") || !read_double(r, &node.f))) return false;
  if (node.op == OP_TABLE && !read_table(r, &node)) return false;
  if (!need(r, ":") || !read_type(r, &node.dtype, &node.shape)) return false;
  if (listed >= 0 && listed != node.shape.rank) return why_not(r->why, "line %d: axes for another rank", r->line);
  if (!need(r, "@") || !read_int(r, &scope) || !read_name(r, phase_names, PHASE_COUNT, "a phase", &phase)) return false;
  if (scope < 0 || scope >= r->g->scopes.n) return why_not(r->why, "line %d: no scope %lld", r->line, (long long)scope);
  node.scope = (int)scope;
  node.phase = (Phase)phase;
  if (!graph_try_push(r->g, node, &index, &why)) return why_not(r->why, "line %d: %s", r->line, why.text);
  const Node *made = graph_node(r->g, index);
  if (made->dtype != node.dtype || !shape_equal(&made->shape, &node.shape))
    return why_not(r->why, "line %d: the result is of another type or shape", r->line);
  return true;
}

static bool read_line(Reader *r) {
  if (take(r, "\n")) return true;
  bool ok = take(r, "scope ") ? read_scope(r) : take(r, "var ") ? read_var(r) : need(r, "%") && read_node(r);
  return ok && (!*r->at || need(r, "\n"));
}

bool graph_try_parse(Graph *g, const char *text, Why *why) {
  CHECK(g->nodes.n == 0 && g->vars.n == 0);
  Reader r = {g, text, 0, why};
  while (*r.at) {
    r.line++;
    if (!read_line(&r)) return false;
  }
  return true;
}
