/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/groups.h"

#include <string.h>

#include "io/names.h"
#include "src/report/human.h"
#include "src/train/patterns.h"

/* --- what is asked -------------------------------------------------------------------------------------------------------- */

static int group_of(const Groups *groups, const char *name) {
  for (int g = 0; g < groups->n; g++)
    if (patterns_find(&groups->at[g].match, name) >= 0) return g;
  return -1;
}

static ParamTraits traits_of(const Config *c, const Member *member) {
  ParamTraits traits = {.lr_factor = 1, .weight_decay = -1};
  traits.whole = patterns_find(&c->parallel.ignore, member->name) >= 0;
  traits.frozen = !member->reached;
  if (member->group < 0) return traits;
  const Group *group = &c->train.groups.at[member->group];
  traits.frozen |= !group->trainable;
  traits.lr_factor = group->lr_factor;
  if (group->given & 1u << GROUP_WEIGHT_DECAY) traits.weight_decay = group->weight_decay;
  return traits;
}

/* All that a pattern names is of groups before its own. */
static bool is_shadowed(const Members *m, const char *pattern, int group) {
  for (int p = 0; p < m->n; p++)
    if (m->at[p].group == group && pattern_fits(pattern, m->at[p].name)) return false;
  return true;
}

static void check_patterns(Arena *arena, const Config *c, Members *m) {
  const char **names = arena_array(arena, const char *, m->n);
  for (int p = 0; p < m->n; p++) names[p] = m->at[p].name;
  for (int i = 0; i < c->parallel.ignore.n; i++)
    pattern_need(c, "parallel.ignore", &c->parallel.ignore.at[i], "parameter of the model", names, m->n);
  for (int g = 0; g < c->train.groups.n; g++)
    for (int i = 0; i < c->train.groups.at[g].match.n; i++) {
      const Pattern *pattern = &c->train.groups.at[g].match.at[i];
      pattern_need(c, "train.groups", pattern, "parameter of the model", names, m->n);
      if (is_shadowed(m, pattern->text, g))
        vec_push(arena, &m->warnings,
                 arena_printf(arena, "train.groups: all that '%s' names (%s) is of groups before it", pattern->text,
                              config_place(c, pattern->place)));
    }
}

/* --- what the graph tells ------------------------------------------------------------------------------------------------- */

typedef VEC(int) Scopes;

static void add_scope(Arena *arena, Scopes *scopes, int scope) {
  for (int i = scopes->n - 1; i >= 0; i--)
    if (scopes->at[i] == scope) return;
  vec_push(arena, scopes, scope);
}

/* By var: the scopes in which nodes read it. */
static Scopes *find_places(Arena *arena, const Graph *g) {
  Scopes *places = arena_array(arena, Scopes, g->vars.n);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *node = graph_node(g, i);
    for (int k = 0; k < node->nin; k++) {
      const Node *in = graph_node(g, node->in[k]);
      if (in->op == OP_LOAD) add_scope(arena, &places[graph_find_var(g, in->name)], node->scope);
    }
  }
  return places;
}

/* Of those that should be trained and that the loss does not depend on: used by nothing, or used without effect. */
static void warn_of(Arena *arena, const Config *c, Members *m, bool unused) {
  Brief names = {0};
  for (int p = 0; p < m->n; p++) {
    bool asked = m->at[p].group < 0 || c->train.groups.at[m->at[p].group].trainable;
    if (asked && !m->at[p].reached && (m->at[p].places == 0) == unused) brief_add(&names, m->at[p].name);
  }
  int n = names.n;
  const char *told = brief_take(arena, &names), *what = unused ? "used by nothing" : "without a gradient";
  if (n) vec_push(arena, &m->warnings, arena_printf(arena, "not trained, %s: %s", what, told));
}

Members *members_of(Arena *arena, const Config *c, Graph *g, const int *params, int n, int order, int loss) {
  Members *m = arena_new(arena, Members);
  int *grads = arena_array(arena, int, n), trained = 0;
  const Scopes *places = find_places(arena, g);
  *m = (Members){.n = n, .at = arena_array(arena, Member, n), .traits = arena_array(arena, ParamTraits, n)};
  for (int p = 0; p < n; p++) {
    const Node *load = graph_node(g, params[p]);
    m->at[p] = (Member){load->name,
                        load->shape,
                        shape_size(&load->shape),
                        group_of(&c->train.groups, load->name),
                        places[graph_find_var(g, load->name)].n,
                        false};
  }
  check_patterns(arena, c, m);
  graph_differentiate(g, loss, ir_const(g, DT_F32, 1), params, n, order, grads);
  for (int p = 0; p < n; p++) {
    m->at[p].reached = grads[p] >= 0;
    m->traits[p] = traits_of(c, &m->at[p]);
    trained += !m->traits[p].frozen;
  }
  if (!trained)
    config_fail(c, "train.groups", "trainable: true for some of them", "all parameters are frozen: nothing is left to train");
  warn_of(arena, c, m, true);
  warn_of(arena, c, m, false);
  return m;
}

/* What a graph of one token computes in products, and its nodes of attention's gradient. */
static void count_work(const Graph *g, double *products, int64_t *attentions) {
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *node = graph_node(g, i);
    *attentions += node->op == OP_ATTENTION_GRAD;
    const int64_t *d = node->nin ? graph_node(g, node->in[0])->shape.dim : NULL;
    if (node->op == OP_MATMUL) *products += 2 * (double)shape_size(&node->shape) * (double)d[node->n[0] ? 0 : 1];
    if (node->op == OP_GROUPED) *products += 2 * (double)shape_size(&node->shape) * (double)d[1];
    if (node->op == OP_GROUPED_GRAD) *products += 2 * (double)(d[0] * d[1] * node->shape.dim[1]);
  }
}

static Graph *build_one(Arena *arena, const ModelConfig *model, ModelNodes *nodes, int *loss) {
  Graph *g = graph_open(arena);
  ModelBatch one = {.sequences = 1, .positions = 1};
  int count;
  *nodes = model_build(g, model, &one);
  model_loss(g, nodes, &one, loss, &count, NULL);
  return g;
}

/* The work that is spared is what the gradients of all need less what those of the trained do. */
static void count_spared(Arena *arena, Members *m, const Graph *all, const ModelConfig *model) {
  double products = 0;
  int64_t attentions = 0;
  ModelNodes nodes;
  int loss, n = 0, *trained = arena_array(arena, int, m->n), *grads = arena_array(arena, int, m->n);
  Graph *g = build_one(arena, model, &nodes, &loss);
  for (int p = 0; p < m->n; p++)
    if (!m->traits[p].frozen) trained[n++] = nodes.params[p];
  graph_differentiate(g, loss, ir_const(g, DT_F32, 1), trained, n, nodes.order, grads);
  count_work(all, &m->spared_products, &m->spared_attentions);
  count_work(g, &products, &attentions);
  m->spared_products -= products;
  m->spared_attentions -= attentions;
}

Members *members_of_model(Arena *arena, const Config *c, const ModelConfig *model) {
  ModelNodes nodes;
  int loss;
  Graph *g = build_one(arena, model, &nodes, &loss);
  Members *m = members_of(arena, c, g, nodes.params, nodes.n_params, nodes.order, loss);
  count_spared(arena, m, g, model);
  return m;
}

Members *members_named(Arena *arena, const ModelConfig *model) {
  ModelNodes nodes;
  int loss;
  Graph *g = build_one(arena, model, &nodes, &loss);
  Members *m = arena_new(arena, Members);
  *m = (Members){.n = nodes.n_params, .at = arena_array(arena, Member, nodes.n_params)};
  for (int p = 0; p < m->n; p++) {
    const Node *load = graph_node(g, nodes.params[p]);
    m->at[p] = (Member){.name = load->name, .shape = load->shape, .size = shape_size(&load->shape), .group = -1};
  }
  return m;
}

/* --- telling -------------------------------------------------------------------------------------------------------------- */

/* Parameters of a group, or all (group: -2). */
typedef struct Sum {
  int tensors;
  int64_t all, trained, whole;
} Sum;

static Sum sum_of(const Members *m, int group) {
  Sum sum = {0};
  for (int p = 0; p < m->n; p++) {
    if (group > -2 && m->at[p].group != group) continue;
    sum.tensors++;
    sum.all += m->at[p].size;
    sum.trained += m->traits[p].frozen ? 0 : m->at[p].size;
    sum.whole += m->traits[p].whole ? m->at[p].size : 0;
  }
  return sum;
}

Flops members_flops(const Members *members, const ModelConfig *m, int64_t positions) {
  int64_t looked_up, all = model_parameters(m, &looked_up);
  return flops_per_token(&(FlopsShape){.parameters = all,
                                       .embedding_parameters = looked_up,
                                       .layers = m->layers,
                                       .heads = m->heads,
                                       .head_dim = m->head_dim,
                                       .seq_len = positions,
                                       .window = m->window,
                                       .window_layers = m->window ? m->layers - m->window_from : 0,
                                       .spared_products = members->spared_products,
                                       .spared_attentions = members->spared_attentions});
}

double members_saved_bytes(const Members *m) {
  Sum sum = sum_of(m, -2);
  return sizeof(float) * (double)(sum.all + 2 * sum.trained);
}

double members_moment_bytes(const Members *m, size_t size, int owners) {
  double n = 0;
  for (int p = 0; p < m->n; p++)
    if (!m->traits[p].frozen) n += (double)m->at[p].size / (m->traits[p].whole ? 1 : owners);
  return 2 * (double)size * n;
}

static void print_shared(const Members *m, Text *out) {
  const char *between = "; shared: ";
  for (int p = 0; p < m->n; p++) {
    if (m->at[p].places < 2) continue;
    text_printf(out, "%s", between);
    if (name_is_embedding(m->at[p].name))
      text_printf(out, "%s is %s", name_head, m->at[p].name);
    else
      text_printf(out, "%s, in %d places", m->at[p].name, m->at[p].places);
    between = ", ";
  }
}

static void print_group(const Members *m, const Config *c, int g, Text *out) {
  char count[HUMAN_TEXT];
  Sum sum = sum_of(m, g);
  if (!sum.tensors) return;
  text_printf(out, "group %d tensor%s, %s: ", sum.tensors, sum.tensors == 1 ? "" : "s", human_count((double)sum.all, count));
  if (g < 0) {
    text_printf(out, "all others\n");
    return;
  }
  const Group *group = &c->train.groups.at[g];
  for (int i = 0; i < group->match.n; i++) text_printf(out, "%s%s", i ? " " : "", group->match.at[i].text);
  if (!group->trainable) text_printf(out, "; frozen");
  if (group->given & 1u << GROUP_LR_FACTOR) text_printf(out, "; lr x %g", group->lr_factor);
  if (group->given & 1u << GROUP_WEIGHT_DECAY) text_printf(out, "; weight decay %g", group->weight_decay);
  text_printf(out, "\n");
}

void members_print(const Members *m, const Config *c, Text *out) {
  char all[HUMAN_TEXT], trained[HUMAN_TEXT], rest[HUMAN_TEXT];
  Sum sum = sum_of(m, -2);
  int groups = 0;
  for (int g = -1; g < c->train.groups.n; g++) groups += sum_of(m, g).trained > 0;
  text_printf(out, "params %s: trained %s", human_count((double)sum.all, all),
              sum.trained == sum.all ? "all" : human_count((double)sum.trained, trained));
  if (groups > 1) text_printf(out, " in %d groups", groups);
  if (sum.trained < sum.all) text_printf(out, ", frozen %s", human_count((double)(sum.all - sum.trained), rest));
  if (sum.whole) text_printf(out, ", whole on every rank %s", human_count((double)sum.whole, rest));
  print_shared(m, out);
  text_printf(out, "\n");
  for (int g = 0; g < c->train.groups.n; g++) print_group(m, c, g, out);
  if (c->train.groups.n) print_group(m, c, -1, out);
}
