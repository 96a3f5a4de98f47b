/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters patterns name, what is asked of them, and what a graph tells of them. */
#include <string.h>

#include "src/comm/impl.h"
#include "src/train/groups.h"
#include "src/train/patterns.h"
#include "src/train/setup.h"
#include "test/check.h"

static const ModelConfig tiny = {.vocab = 16,
                                 .hidden = 8,
                                 .intermediate = 12,
                                 .layers = 2,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = 4,
                                 .max_positions = 8,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.02,
                                 .rope = {.theta = 1e4}};

static const char run_text[] =
    "hpctrain: 1\nmodel: {preset: llama2-7b}\ndata: {train: a.bin}\n"
    "train: {seq_len: 4, duration: 2 steps, global_batch_size: 1 sequences, lr: 1, schedule: constant}\n";

static Config *load(Arena *arena, const char *groups, const char *ignore) {
  char *argv[] = {"test", arena_printf(arena, "train.groups=%s", groups), arena_printf(arena, "parallel.ignore=%s", ignore), NULL};
  return config_parse(arena, "r.yaml", run_text, 3, argv);
}

/* The parameter that is called NAME.weight, in a model of two layers. */
static int find(const Members *m, const char *name) {
  int p = 0;
  while (p < m->n && strncmp(m->at[p].name, name, strlen(name))) p++;
  EXPECT(p < m->n);
  return p;
}

TEST(a_parameter_is_of_the_first_group_that_names_it) {
  Arena *arena = arena_open();
  const Config *c = load(arena,
                         "[{match: model.norm.weight, lr_factor: 0.5}, {match: [\"*norm*\", lm_head.*], weight_decay: 0},"
                         "{match: \"*.layers.1.*\", trainable: false}]",
                         "[\"*layers.?.*norm*\"]");
  const Members *m = members_of_model(arena, c, &tiny);
  const ParamTraits *t = m->traits;
  int out = find(m, "model.norm"), norm = find(m, "model.layers.1.input"), q1 = find(m, "model.layers.1.self_attn.q_proj");
  int table = find(m, "lm_head"), q0 = find(m, "model.layers.0.self_attn.q_proj");
  EXPECT(m->n == 21);
  EXPECT(m->at[out].group == 0 && t[out].lr_factor == 0.5 && t[out].weight_decay < 0 && !t[out].frozen && !t[out].whole);
  EXPECT(m->at[norm].group == 1 && t[norm].lr_factor == 1 && t[norm].weight_decay == 0 && !t[norm].frozen && t[norm].whole);
  EXPECT(m->at[table].group == 1 && t[table].weight_decay == 0 && !t[table].whole);
  EXPECT(m->at[q1].group == 2 && t[q1].frozen);
  EXPECT(m->at[q0].group == -1 && t[q0].lr_factor == 1 && t[q0].weight_decay < 0 && !t[q0].frozen && !t[q0].whole);
  EXPECT(m->warnings.n == 0);
  arena_close(arena);
}

TEST(order_is_that_of_the_state_table) {
  Arena *arena = arena_open();
  const Members *m = members_of_model(arena, load(arena, "[]", "[]"), &tiny);
  Graph *g = graph_open(arena);
  model_build(g, &tiny, &(ModelBatch){.sequences = 1, .positions = 1});
  int p = 0;
  for (int i = 0; i < g->vars.n; i++)
    if (g->vars.at[i].class == VAR_PARAM) EXPECT_TEXT(g->vars.at[i].name, m->at[p++].name);
  EXPECT(p == m->n);
  arena_close(arena);
}

TEST(patterns_that_name_nothing_are_refused_with_what_may_be_meant) {
  static const struct {
    const char *groups, *ignore, *what;
  } rows[] = {
      {"[{match: [\"*norm*\", \"*nrom*\"]}]", "[]", "train.groups: '*nrom*' fits no parameter of the model\n  --> argument 1: "},
      {"[{match: \"*nrom*\"}]", "[]", "help: did you mean 'norm'?"},
      {"[]", "[lm_haed.weight]", "parallel.ignore: 'lm_haed.weight' fits no parameter of the model\n  --> argument 2: "},
      {"[]", "[lm_haed.weight]", "help: did you mean 'lm_head.weight'?"},
      {"[]", "[zzzzzz]", "help: such are model.embed_tokens.weight and "},
      {"[{match: \"*\", trainable: false}]", "[]", "nothing is left to train"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    EXPECT_FAIL(FAIL_INPUT, rows[i].what, members_of_model(arena, load(arena, rows[i].groups, rows[i].ignore), &tiny));
  arena_close(arena);
}

TEST(a_pattern_in_the_shadow_of_others_is_warned_of) {
  Arena *arena = arena_open();
  const Members *m =
      members_of_model(arena, load(arena, "[{match: \"*norm*\"}, {match: [\"*input_l*\", lm_head.*]}]", "[]"), &tiny);
  EXPECT(m->warnings.n == 1);
  EXPECT_TEXT(m->warnings.at[0], "train.groups: all that '*input_l*' names (argument 1) is of groups before it");
  arena_close(arena);
}

static void expect_printed(Arena *arena, const ModelConfig *model, const char *groups, const char *ignore, const char *lines) {
  const Config *c = load(arena, groups, ignore);
  Text text = {0};
  members_print(members_of_model(arena, c, model), c, &text);
  EXPECT_TEXT(text.at, lines);
  text_close(&text);
}

TEST(parameters_are_told_by_group) {
  Arena *arena = arena_open();
  ModelConfig tied = tiny;
  tied.tied = true;
  expect_printed(arena, &tiny, "[]", "[]", "params 1.26k: trained all\n");
  expect_printed(arena, &tied, "[]", "[model.norm.weight]",
                 "params 1.13k: trained all, whole on every rank 8; shared: lm_head.weight is model.embed_tokens.weight\n");
  expect_printed(arena, &tiny, "[{match: \"*norm*\", weight_decay: 0, lr_factor: 2}, {match: [lm_*, \"*mlp*\"], trainable: false}]",
                 "[]",
                 "params 1.26k: trained 552 in 2 groups, frozen 704\ngroup 5 tensors, 40: *norm*; lr x 2; weight decay 0\n"
                 "group 7 tensors, 704: lm_* *mlp*; frozen\ngroup 9 tensors, 512: all others\n");
  arena_close(arena);
}

/* x·a + stop(b)·x, and c that nothing reads. */
TEST(a_parameter_without_a_gradient_is_frozen_and_told) {
  static const char *const names[] = {"a", "b", "c"};
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  int params[3];
  for (int p = 0; p < 3; p++) {
    graph_var(g, (Var){.name = names[p], .class = VAR_PARAM, .dtype = DT_F32, .shape = SHAPE(4), .unit = "u"});
    params[p] = ir_load(g, names[p]);
  }
  int loss = ir_sum_all(g, ir_add(g, ir_mul(g, params[0], params[0]), ir_unary(g, OP_STOP, params[1])));
  const Members *m = members_of(arena, load(arena, "[]", "[]"), g, params, 3, -1, loss);
  EXPECT(!m->traits[0].frozen && m->traits[1].frozen && m->traits[2].frozen);
  EXPECT(m->at[0].places == 1 && m->at[1].places == 1 && m->at[2].places == 0);
  EXPECT(m->warnings.n == 2);
  EXPECT_TEXT(m->warnings.at[0], "not trained, used by nothing: c");
  EXPECT_TEXT(m->warnings.at[1], "not trained, without a gradient: b");
  m = members_of(arena, load(arena, "[{match: [b, c], trainable: false}]", "[]"), g, params, 3, -1, loss);
  EXPECT(m->warnings.n == 0); /* as asked */
  arena_close(arena);
}

/* A gradient goes no further back than to what is trained. */
TEST(work_for_what_is_frozen_is_not_counted) {
  static const struct {
    const char *groups;
    double products; /* q, k, v have 128 parameters, all matrices of a layer 480, the head 128 */
    int attentions;
  } rows[] = {
      {"[]", 0, 0},
      {"[{match: \"*norm*\", trainable: false}]", 0, 0},
      {"[{match: model.embed_tokens.weight, trainable: false}]", 0, 0}, /* the norm before q, k, v needs their input's */
      {"[{match: [model.embed_tokens.*, \"*.0.input*\"], trainable: false}]", 2 * 128, 0},
      {"[{match: \"*layers.1.*proj*\", trainable: false}]", 2 * 480, 0},
      {"[{match: [lm_head.*, model.norm.*]}, {match: \"*\", trainable: false}]", 4 * 2 * 480, 2},
      {"[{match: lm_head.*}, {match: \"*\", trainable: false}]", 4 * 2 * 480 + 2 * 128, 2},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const Members *m = members_of_model(arena, load(arena, rows[i].groups, "[]"), &tiny);
    EXPECT(m->spared_products == rows[i].products);
    EXPECT(m->spared_attentions == rows[i].attentions);
  }
  arena_close(arena);
}

/* ---- renaming ---- */

TEST(moments_are_shared_out_but_those_that_every_rank_holds) {
  Arena *arena = arena_open();
  Config *c = load(arena, "[{match: '*mlp*', trainable: false}]", "*norm*");
  const Members *m = members_of_model(arena, c, &tiny);
  double norms = 0, others = 0;
  for (int p = 0; p < m->n; p++)
    if (strstr(m->at[p].name, "norm"))
      norms += (double)m->at[p].size;
    else if (!strstr(m->at[p].name, "mlp"))
      others += (double)m->at[p].size;
  EXPECT(members_moment_bytes(m, 4, 1) == 8 * (norms + others));
  EXPECT(members_moment_bytes(m, 2, 4) == 4 * (norms + others / 4));
  arena_close(arena);
}

TEST(groups_of_a_node_want_nodes_of_one_size) {
  Arena *arena = arena_open();
  char *argv[] = {"test", "parallel.strategy=hybrid_shard", "parallel.shard_degree=2", NULL};
  Config *by_node = config_parse(arena, "r.yaml", run_text, 2, argv), *by_two = config_parse(arena, "r.yaml", run_text, 3, argv);
  Comm *comm = comm_plan_nodes(6, 3);
  Mesh *mesh = setup_mesh(by_node, comm);
  EXPECT(mesh_extent(mesh, MESH_DP_SHARD) == 3 && mesh_extent(mesh, MESH_DP_REPLICATE) == 2);
  mesh_close(mesh);
  comm->least_local = 2;
  comm->most_local = 4;
  EXPECT_FAIL(FAIL_INPUT, "hybrid_shard makes a group of each node's ranks, but there are nodes of 2 and of 4",
              setup_mesh(by_node, comm));
  EXPECT_FAIL(FAIL_INPUT, "ppr:2:node), or parallel.shard_degree: 2", setup_mesh(by_node, comm));
  mesh = setup_mesh(by_two, comm);
  EXPECT(mesh_extent(mesh, MESH_DP_SHARD) == 2 && mesh_extent(mesh, MESH_DP_REPLICATE) == 3);
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
}

TEST(a_renamed_name_has_what_stars_stand_for) {
  static const struct {
    const char *from, *to, *name, *renamed;
  } rows[] = {
      {"a", "b", "a", "b"},
      {"a", "b", "aa", NULL},
      {"*", "model.*", "x.y", "model.x.y"},
      {"h.*.attn.*", "layers.*.self_attn.*", "h.10.attn.q.weight", "layers.10.self_attn.q.weight"},
      {"*.w", "*.weight", "a.w.w", "a.w.weight"}, /* the first * grows until all fits */
      {"*a*", "*b*", "xaya", "xbya"},             /* and no further */
      {"a.?.[0-9].*", "b.*", "a.x.7.c", "b.c"},
      {"a.?.[!0-9].*", "b.*", "a.x.7.c", NULL},
      {"a[", "b", "a[", "b"},
      {"a\\*", "b", "a*", "b"},
      {"a\\*", "b", "ab", NULL},
      {"*", "*", "", ""},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *renamed = pattern_rename(arena, rows[i].from, rows[i].to, rows[i].name);
    EXPECT(!renamed == !rows[i].renamed);
    if (renamed) EXPECT_TEXT(renamed, rows[i].renamed);
    EXPECT(pattern_fits(rows[i].from, rows[i].name) == (renamed != NULL));
  }
  arena_close(arena);
}

TEST(names_are_told_in_brief) {
  static const char *const names[] = {"a", "b", "c", "d", "e"}, *const told[] = {"",
                                                                                 "a",
                                                                                 "a, b",
                                                                                 "a, b, c",
                                                                                 "a, b, c and 1 more",
                                                                                 "a, b, c and 2 more"};
  Arena *arena = arena_open();
  for (int n = 0; n <= 5; n++) {
    Brief brief = {0};
    for (int i = 0; i < n; i++) brief_add(&brief, names[i]);
    EXPECT_TEXT(brief_take(arena, &brief), told[n]);
  }
  arena_close(arena);
}

/* 46.7 and 12.9 thousand million, as is published; of the latter a row of the embedding is looked up. */
TEST(a_token_meets_its_own_experts_alone) {
  ModelConfig mixtral;
  int64_t unmet, all;
  EXPECT(model_preset("mixtral-8x7b", &mixtral));
  all = model_parameters(&mixtral, &unmet);
  EXPECT(all == 46702792704 && all - unmet + mixtral.vocab * mixtral.hidden == 12879925248);
}
