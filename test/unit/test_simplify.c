/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/random_graph.h"

/* Text of nodes as a graph.  What lines leave out is added: a var a name, " @0 fwd" a line. */
static Graph *graph_of(Arena *arena, const char *lines) {
  Text vars = {0}, nodes = {0};
  Graph *g = graph_open(arena);
  Why why;
  for (const char *at = lines; *at;) {
    size_t n = strcspn(at, "\n");
    char *line = arena_strndup(arena, at, n), *name = strchr(line, '"'), *type = strstr(line, " : ");
    text_printf(&nodes, "%s%s\n", line, strchr(line, '@') ? "" : " @0 fwd");
    at += n + (at[n] == '\n');
    if (!name) continue;
    char *var = arena_printf(arena, "var carry %.*s %.*s\n", (int)(strchr(name + 1, '"') + 1 - name), name,
                             (int)(strchr(type, ']') + 1 - (type + 3)), type + 3);
    if (!vars.at || !strstr(vars.at, var)) text_printf(&vars, "%s", var);
  }
  text_printf(&vars, "%s", nodes.at);
  if (!graph_try_parse(g, vars.at, &why)) check_failed(__FILE__, __LINE__, "%s in\n%s", why.text, vars.at);
  text_close(&vars);
  text_close(&nodes);
  graph_check(g, "parsing");
  return g;
}

static char *text_of(Arena *arena, const Graph *g) {
  Text text = {0};
  text_add(&text, "", 0);
  for (int i = 0; i < g->nodes.n; i++) {
    graph_print_node(g, i, &text);
    text_printf(&text, "\n");
  }
  char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

static void becomes(const char *before, const char *after) {
  Arena *arena = arena_open();
  Graph *g = graph_simplify(graph_of(arena, before), arena);
  graph_check(g, "simplify");
  EXPECT_TEXT(text_of(arena, g), text_of(arena, graph_of(arena, after)));
  arena_close(arena);
}

#define LOAD_X "%0 = load \"x\" : f32[4,6]\n"
#define ONE "%1 = const f=1 : f32[]\n%2 = reshape %1 : f32[1,1]\n%3 = broadcast %2 : f32[4,6]\n"
#define STORE_X LOAD_X "%1 = store %0 \"y\" : f32[4,6]\n"

TEST(multiplying_and_dividing_by_one_do_nothing) {
  becomes(LOAD_X ONE "%4 = mul %0 %3 : f32[4,6]\n%5 = mul %3 %4 : f32[4,6]\n%6 = div %5 %3 : f32[4,6]\n"
                     "%7 = store %6 \"y\" : f32[4,6]\n",
          STORE_X);
}

#define ZERO(f) "%1 = const f=" f " : f32[]\n%2 = reshape %1 : f32[1,1]\n%3 = broadcast %2 : f32[4,6]\n"
#define ADD_ZERO(f) LOAD_X ZERO(f) "%4 = add %0 %3 : f32[4,6]\n%5 = store %4 \"y\" : f32[4,6]\n"
#define SUB_ZERO(f) LOAD_X ZERO(f) "%4 = sub %0 %3 : f32[4,6]\n%5 = store %4 \"y\" : f32[4,6]\n"

TEST(zeros_go_only_where_they_keep_the_sign_of_zero) {
  becomes(SUB_ZERO("0"), STORE_X);
  becomes(ADD_ZERO("-0"), STORE_X);
  becomes(SUB_ZERO("-0"), SUB_ZERO("-0"));
  becomes(ADD_ZERO("0"), ADD_ZERO("0"));
}

TEST(an_integer_zero_goes) {
  becomes("%0 = load \"i\" : i32[]\n%1 = const f=0 : i32[]\n%2 = add %0 %1 : i32[]\n%3 = store %2 \"j\" : i32[]\n",
          "%0 = load \"i\" : i32[]\n%1 = store %0 \"j\" : i32[]\n");
}

TEST(copies_stops_double_negatives_and_idle_casts_go) {
  becomes(LOAD_X "%1 = copy %0 : f32[4,6]\n%2 = stop %1 : f32[4,6]\n%3 = neg %2 : f32[4,6]\n%4 = neg %3 : f32[4,6]\n"
                 "%5 = cast %4 : f32[4,6]\n%6 = store %5 \"y\" : f32[4,6]\n",
          STORE_X);
}

TEST(constants_fold_where_float_is_exact_and_only_there) {
  becomes("%0 = const f=3 : f32[]\n%1 = const f=0.5 : f32[]\n%2 = mul %0 %1 : f32[]\n%3 = sub %2 %0 : f32[]\n"
          "%4 = store %3 \"y\" : f32[]\n",
          "%0 = const f=-1.5 : f32[]\n%1 = store %0 \"y\" : f32[]\n");
  const char *rounded = "%0 = const f=1 : f32[]\n%1 = const f=3 : f32[]\n%2 = div %0 %1 : f32[]\n%3 = store %2 \"y\" : f32[]\n";
  becomes(rounded, rounded);
  const char *wraps = "%0 = const f=2147483647 : i32[]\n%1 = add %0 %0 : i32[]\n%2 = store %1 \"y\" : i32[]\n";
  becomes(wraps, wraps);
}

TEST(a_select_by_a_constant_is_one_of_its_branches) {
  becomes("%0 = load \"x\" : f32[]\n%1 = load \"z\" : f32[]\n%2 = const f=0 : pred[]\n%3 = select %2 %1 %0 : f32[]\n"
          "%4 = store %3 \"y\" : f32[]\n",
          "%0 = load \"x\" : f32[]\n%1 = store %0 \"y\" : f32[]\n");
}

TEST(views_of_views_become_one_view) {
  becomes(LOAD_X "%1 = reshape %0 : f32[24]\n%2 = reshape %1 : f32[2,12]\n%3 = store %2 \"y\" : f32[2,12]\n",
          LOAD_X "%1 = reshape %0 : f32[2,12]\n%2 = store %1 \"y\" : f32[2,12]\n");
  becomes(LOAD_X "%1 = reshape %0 : f32[24]\n%2 = reshape %1 : f32[4,6]\n%3 = store %2 \"y\" : f32[4,6]\n", STORE_X);
  becomes(LOAD_X "%1 = permute %0 axes=1,0 : f32[6,4]\n%2 = permute %1 axes=1,0 : f32[4,6]\n%3 = store %2 \"y\" : f32[4,6]\n",
          STORE_X);
  becomes(LOAD_X "%1 = slice %0 axis=1 lo=1 hi=5 : f32[4,4]\n%2 = slice %1 axis=1 lo=1 hi=3 : f32[4,2]\n"
                 "%3 = store %2 \"y\" : f32[4,2]\n",
          LOAD_X "%1 = slice %0 axis=1 lo=2 hi=4 : f32[4,2]\n%2 = store %1 \"y\" : f32[4,2]\n");
  becomes(LOAD_X "%1 = slice %0 axis=1 lo=1 hi=5 : f32[4,4]\n%2 = slice %1 axis=0 lo=1 hi=3 : f32[2,4]\n"
                 "%3 = store %2 \"y\" : f32[2,4]\n",
          LOAD_X "%1 = slice %0 axis=0 lo=1 hi=3 : f32[2,6]\n%2 = slice %1 axis=1 lo=1 hi=5 : f32[2,4]\n"
                 "%3 = store %2 \"y\" : f32[2,4]\n");
  becomes(
      "%0 = load \"x\" : f32[1,1]\n%1 = broadcast %0 : f32[4,1]\n%2 = broadcast %1 : f32[4,6]\n%3 = store %2 \"y\" : f32[4,6]\n",
      "%0 = load \"x\" : f32[1,1]\n%1 = broadcast %0 : f32[4,6]\n%2 = store %1 \"y\" : f32[4,6]\n");
}

TEST(a_permutation_that_moves_only_extents_of_one_is_a_reshape) {
  becomes(LOAD_X "%1 = reshape %0 : f32[4,1,6]\n%2 = permute %1 axes=1,0,2 : f32[1,4,6]\n%3 = store %2 \"y\" : f32[1,4,6]\n",
          LOAD_X "%1 = reshape %0 : f32[1,4,6]\n%2 = store %1 \"y\" : f32[1,4,6]\n");
}

TEST(extents_of_one_are_put_in_before_repeating) {
  becomes("%0 = load \"g\" : f32[6]\n%1 = reshape %0 : f32[1,6]\n%2 = broadcast %1 : f32[4,6]\n%3 = reshape %2 : f32[1,4,6]\n"
          "%4 = broadcast %3 : f32[2,4,6]\n%5 = store %4 \"y\" : f32[2,4,6]\n",
          "%0 = load \"g\" : f32[6]\n%1 = reshape %0 : f32[1,1,6]\n%2 = broadcast %1 : f32[2,4,6]\n"
          "%3 = store %2 \"y\" : f32[2,4,6]\n");
}

TEST(a_slice_of_what_is_repeated_repeats_less) {
  becomes("%0 = load \"g\" : f32[1,6]\n%1 = broadcast %0 : f32[4,6]\n%2 = slice %1 axis=0 lo=1 hi=3 : f32[2,6]\n"
          "%3 = store %2 \"y\" : f32[2,6]\n",
          "%0 = load \"g\" : f32[1,6]\n%1 = broadcast %0 : f32[2,6]\n%2 = store %1 \"y\" : f32[2,6]\n");
}

#define LOADS "%0 = load \"a\" : f32[2,6]\n%1 = load \"b\" : f32[3,6]\n%2 = load \"c\" : f32[4,6]\n"
#define STACK LOADS "%3 = concat %0 %1 %2 axis=0 : f32[9,6]\n"

TEST(a_slice_of_a_concat_is_of_the_inputs_it_covers) {
  becomes(STACK "%4 = slice %3 axis=0 lo=3 hi=5 : f32[2,6]\n%5 = store %4 \"y\" : f32[2,6]\n",
          "%0 = load \"b\" : f32[3,6]\n%1 = slice %0 axis=0 lo=1 hi=3 : f32[2,6]\n%2 = store %1 \"y\" : f32[2,6]\n");
  becomes(STACK "%4 = slice %3 axis=0 lo=2 hi=9 : f32[7,6]\n%5 = store %4 \"y\" : f32[7,6]\n",
          "%0 = load \"b\" : f32[3,6]\n%1 = load \"c\" : f32[4,6]\n%2 = concat %0 %1 axis=0 : f32[7,6]\n"
          "%3 = store %2 \"y\" : f32[7,6]\n");
  becomes(STACK "%4 = slice %3 axis=0 lo=1 hi=9 : f32[8,6]\n%5 = store %4 \"y\" : f32[8,6]\n",
          STACK "%4 = slice %3 axis=0 lo=1 hi=9 : f32[8,6]\n%5 = store %4 \"y\" : f32[8,6]\n");
}

TEST(concats_of_concats_and_of_neighbours_join) {
  becomes(LOADS "%3 = concat %0 %1 axis=0 : f32[5,6]\n%4 = concat %3 %2 axis=0 : f32[9,6]\n%5 = store %4 \"y\" : f32[9,6]\n",
          STACK "%4 = store %3 \"y\" : f32[9,6]\n");
  becomes(LOAD_X "%1 = slice %0 axis=1 lo=1 hi=3 : f32[4,2]\n%2 = slice %0 axis=1 lo=3 hi=6 : f32[4,3]\n"
                 "%3 = concat %1 %2 axis=1 : f32[4,5]\n%4 = store %3 \"y\" : f32[4,5]\n",
          LOAD_X "%1 = slice %0 axis=1 lo=1 hi=6 : f32[4,5]\n%2 = store %1 \"y\" : f32[4,5]\n");
  becomes(LOAD_X "%1 = slice %0 axis=1 lo=0 hi=3 : f32[4,3]\n%2 = slice %0 axis=1 lo=3 hi=6 : f32[4,3]\n"
                 "%3 = concat %1 %2 axis=1 : f32[4,6]\n%4 = store %3 \"y\" : f32[4,6]\n",
          STORE_X);
}

TEST(a_stack_cut_in_rows_flattened_and_joined_is_the_flattened_stack) {
  becomes("%0 = load \"w\" : f32[12,4]\n%1 = slice %0 axis=0 lo=0 hi=8 : f32[8,4]\n%2 = slice %0 axis=0 lo=8 hi=10 : f32[2,4]\n"
          "%3 = slice %0 axis=0 lo=10 hi=12 : f32[2,4]\n%4 = reshape %1 : f32[32]\n%5 = reshape %2 : f32[8]\n"
          "%6 = reshape %3 : f32[8]\n%7 = concat %4 %5 %6 axis=0 : f32[48]\n%8 = store %7 \"y\" : f32[48]\n",
          "%0 = load \"w\" : f32[12,4]\n%1 = reshape %0 : f32[48]\n%2 = store %1 \"y\" : f32[48]\n");
}

TEST(matrices_that_lie_side_by_side_in_a_vector_are_stacked_in_place) {
  becomes("%0 = load \"u\" : f32[60]\n%1 = slice %0 axis=0 lo=8 hi=40 : f32[32]\n%2 = slice %0 axis=0 lo=40 hi=48 : f32[8]\n"
          "%3 = reshape %1 : f32[8,4]\n%4 = reshape %2 : f32[2,4]\n%5 = concat %3 %4 axis=0 : f32[10,4]\n"
          "%6 = store %5 \"y\" : f32[10,4]\n",
          "%0 = load \"u\" : f32[60]\n%1 = slice %0 axis=0 lo=8 hi=48 : f32[40]\n%2 = reshape %1 : f32[10,4]\n"
          "%3 = store %2 \"y\" : f32[10,4]\n");
}

TEST(matrices_from_a_vector_side_by_side_are_not_the_vector) {
  const char *beside = "%0 = load \"u\" : f32[16]\n%1 = slice %0 axis=0 lo=0 hi=8 : f32[8]\n%2 = reshape %1 : f32[2,4]\n"
                       "%3 = slice %0 axis=0 lo=8 hi=16 : f32[8]\n%4 = reshape %3 : f32[2,4]\n"
                       "%5 = concat %2 %4 axis=1 : f32[2,8]\n%6 = store %5 \"y\" : f32[2,8]\n";
  becomes(beside, beside);
}

TEST(a_product_reads_a_transposed_operand_in_place) {
  becomes(LOAD_X "%1 = load \"z\" : f32[4,5]\n%2 = permute %0 axes=1,0 : f32[6,4]\n%3 = permute %1 axes=1,0 : f32[5,4]\n"
                 "%4 = matmul %2 %3 ta=0 tb=1 : f32[6,5]\n%5 = store %4 \"y\" : f32[6,5]\n",
          LOAD_X "%1 = load \"z\" : f32[4,5]\n%2 = matmul %0 %1 ta=1 tb=0 : f32[6,5]\n%3 = store %2 \"y\" : f32[6,5]\n");
}

TEST(equal_nodes_become_one_within_a_phase_and_not_across) {
  becomes(LOAD_X "%1 = exp %0 : f32[4,6] @0 fwd\n%2 = exp %0 : f32[4,6] @0 fwd\n%3 = exp %0 : f32[4,6] @0 rec\n"
                 "%4 = exp %0 : f32[4,6] @0 bwd\n%5 = exp %0 : f32[4,6] @0 bwd\n%6 = mul %1 %2 : f32[4,6]\n"
                 "%7 = mul %6 %3 : f32[4,6] @0 bwd\n%8 = mul %4 %5 : f32[4,6] @0 bwd\n%9 = add %7 %8 : f32[4,6] @0 bwd\n"
                 "%10 = store %9 \"y\" : f32[4,6] @0 bwd\n",
          LOAD_X "%1 = exp %0 : f32[4,6]\n%2 = exp %0 : f32[4,6] @0 rec\n%3 = exp %0 : f32[4,6] @0 bwd\n"
                 "%4 = mul %1 %1 : f32[4,6]\n%5 = mul %4 %2 : f32[4,6] @0 bwd\n%6 = mul %3 %3 : f32[4,6] @0 bwd\n"
                 "%7 = add %5 %6 : f32[4,6] @0 bwd\n%8 = store %7 \"y\" : f32[4,6] @0 bwd\n");
}

TEST(equal_collectives_stay_apart) {
  const char *two = "%0 = load \"u\" : f32[4]\n%1 = all_gather %0 axis=0 ranks=2 : f32[8]\n"
                    "%2 = all_gather %0 axis=0 ranks=2 : f32[8]\n%3 = store %1 \"y\" : f32[8]\n%4 = store %2 \"z\" : f32[8]\n";
  becomes(two, two);
}

TEST(what_no_store_needs_goes_and_vars_stay) {
  Arena *arena = arena_open();
  Graph *g = graph_of(arena, LOAD_X "%1 = load \"unused\" : f32[2]\n%2 = exp %0 : f32[4,6]\n%3 = store %0 \"y\" : f32[4,6]\n");
  Graph *s = graph_simplify(g, arena);
  EXPECT(s->nodes.n == 2);
  EXPECT(graph_find_var(s, "unused") == graph_find_var(g, "unused"));
  EXPECT(s->vars.n == g->vars.n);
  arena_close(arena);
}

static void spoil(const char *name) {
  if (name) memset((char *)name, '?', strlen(name));
}

/* Both have all names in their own arena: what becomes of those of the graph that they were made from changes nothing. */
TEST(simplified_graphs_and_clones_outlive_their_origin) {
  static const char text[] = "scope 1 block \"layers.0\"\n"
                             "var param \"w\" f32[4,6] unit=\"layers.0\" init=one std=0\n"
                             "var carry \"gathered/layers.0\" f32[24]\n"
                             "var state \"param/layers.0\" f32[12] within=\"gathered/layers.0\" axis=1\n"
                             "var output \"y\" f32[12]\n"
                             "%0 = load \"param/layers.0\" : f32[12] @1 fwd\n"
                             "%1 = exp %0 : f32[12] @1 fwd\n"
                             "%2 = store %1 \"y\" : f32[12] @1 fwd\n";
  Arena *from = arena_open(), *to = arena_open();
  Graph *g = graph_open(from);
  Why why = {""};
  if (!graph_try_parse(g, text, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  Graph *copies[] = {graph_simplify(g, to), graph_clone(g, to)};
  for (int i = 0; i < g->vars.n; i++) spoil(g->vars.at[i].name), spoil(g->vars.at[i].unit), spoil(g->vars.at[i].within);
  for (int i = 0; i < g->scopes.n; i++) spoil(g->scopes.at[i].name);
  for (int i = 0; i < g->nodes.n; i++) spoil(g->nodes.at[i].name);
  arena_close(from);
  for (int i = 0; i < 2; i++) {
    Text printed = {0};
    graph_print(copies[i], &printed);
    EXPECT_TEXT(printed.at, text);
    text_close(&printed);
  }
  arena_close(to);
}

static bool same_values(const Graph *g, double *const *a, double *const *b) {
  for (int i = 0; i < g->vars.n; i++)
    if (memcmp(a[i], b[i], sizeof(double) * (size_t)shape_size(&g->vars.at[i].shape))) return false;
  return true;
}

static RandomSpec spec_of(uint64_t seed) {
  return (RandomSpec){.seed = seed,
                      .nodes = 20 + (int)(seed % 180),
                      .elements = 1024,
                      .big = seed % 2,
                      .rough = true,
                      .phases = seed % 3,
                      .collectives = seed % 5 == 0};
}

static void same_bits(RandomSpec spec) {
  Arena *arena = arena_open();
  Graph *g = random_graph(arena, spec);
  graph_check(g, "random_graph");
  Graph *s = graph_simplify(g, arena);
  graph_check(s, "simplify");
  double **before = random_values(arena, g, spec.seed), **after = random_values(arena, g, spec.seed);
  graph_interpret(g, before, NULL, NULL);
  graph_interpret(s, after, NULL, NULL);
  if (!same_values(g, before, after)) check_failed(__FILE__, __LINE__, "seed %d differs", (int)spec.seed);
  arena_close(arena);
}

TEST(simplified_graphs_store_the_same_bits) {
  for (uint64_t seed = 0; seed < 300; seed++) same_bits(spec_of(seed));
}

TEST(simplified_views_store_the_same_bits) {
  for (uint64_t seed = 0; seed < 300; seed++) same_bits((RandomSpec){.seed = seed, .nodes = 60, .elements = 1024, .views = true});
}

TEST(simplifying_twice_is_simplifying_once) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Arena *arena = arena_open();
    RandomSpec spec = spec_of(seed);
    spec.views = seed % 4 == 0;
    Graph *once = graph_simplify(random_graph(arena, spec), arena), *twice = graph_simplify(once, arena);
    EXPECT_TEXT(text_of(arena, twice), text_of(arena, once));
    arena_close(arena);
  }
}

/* 10,000 nodes take a few milliseconds; the bound only finds out quadratic time. */
TEST(simplifying_ten_thousand_nodes_takes_no_time) {
  Arena *arena = arena_open();
  Graph *g = random_graph(arena, (RandomSpec){.seed = 1, .nodes = 10000, .phases = true});
  for (int i = 0; i < 1000; i++)
    graph_var(g, (Var){.name = arena_printf(arena, "layers.%d.weight", i), .class = VAR_STATE, .dtype = DT_F32});
  double start = check_cpu_seconds();
  graph_simplify(g, arena);
  EXPECT(check_cpu_seconds() - start < 0.5);
  arena_close(arena);
}
