/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/random_graph.h"

/* --- builder ---------------------------------------------------------------------------------------------------------- */

#define FIXTURE                                                                                                                    \
  "var input \"x\" f32[4,6]\nvar input \"y\" f32[6,4]\nvar input \"i\" i32[4]\nvar input \"q\" f32[1,4,4,2]\n"                     \
  "var input \"k\" f32[1,4,3,2]\nvar input \"k2\" f32[1,4,2,2]\nvar input \"start\" i32[1,4]\nvar output \"out\" f32[4,6]\n"       \
  "var input \"tall\" f32[1099511627776,1]\nvar input \"long\" f32[576460752303423487]\n"                                          \
  "%0 = load \"x\" : f32[4,6] @0 fwd\n%1 = load \"y\" : f32[6,4] @0 fwd\n%2 = load \"i\" : i32[4] @0 fwd\n"                        \
  "%3 = load \"q\" : f32[1,4,4,2] @0 fwd\n%4 = load \"k\" : f32[1,4,3,2] @0 fwd\n%5 = load \"k2\" : f32[1,4,2,2] @0 fwd\n"         \
  "%6 = load \"start\" : i32[1,4] @0 fwd\n%7 = finite %0 : pred[4,6] @0 fwd\n"                                                     \
  "%8 = attention %3 %5 %5 %6 window=0 f=1 : f32[1,4,4,2] @0 fwd\n%9 = load \"tall\" : f32[1099511627776,1] @0 fwd\n"              \
  "%10 = load \"long\" : f32[576460752303423487] @0 fwd\n"

static const struct {
  const char *node, *why;
} refused[] = {
    {"add %0 : f32[4,6]", "takes 2 inputs, not 1"},
    {"concat axis=0 : f32[4,6]", "inputs"},
    {"add %0 %11 : f32[4,6]", "no node 11 before"},
    {"add %0 %1 : f32[4,6]", "inputs 0 and 1 differ in shape"},
    {"add %0 %2 : f32[4,6]", "input 1 is i32, not f32"},
    {"add %7 %7 : pred[4,6]", "truth values"},
    {"lt %7 %7 : pred[4,6]", "truth values"},
    {"neg %2 : i32[4]", "input 0 is i32, not f32"},
    {"fma %2 %2 %2 : i32[4]", "input 0 is i32, not f32"},
    {"and %0 %0 : f32[4,6]", "input 0 is f32, not pred"},
    {"select %0 %0 %0 : f32[4,6]", "input 0 is f32, not pred"},
    {"select %7 %0 %1 : f32[4,6]", "inputs 0 and 2 differ in shape"},
    {"iota axis=0 : f32[4]", "iota is of i32 or i64"},
    {"iota axis=1 : i32[4]", "axis 1 of a shape of rank 1"},
    {"iota axis=0 : i32[2147483648]", "2147483648 indices in i32"},
    {"table count=0 values= : f32[0]", "as many values as counted"},
    {"load \"nobody\" : f32[4]", "no var 'nobody'"},
    {"load \"out\" : f32[4,6]", "'out' is an output"},
    {"store %0 \"x\" : f32[4,6]", "'x' is not written"},
    {"store %1 \"out\" : f32[6,4]", "differ in type or shape"},
    {"reshape %0 : f32[23]", "different numbers of elements"},
    {"permute %0 axes=1,1 : f32[6,6]", "axis 1 comes twice"},
    {"permute %0 axes=0,2 : f32[4,6]", "axis 2 of a shape of rank 2"},
    {"slice %0 axis=1 lo=2 hi=7 : f32[4,5]", "2 to 7 of 6"},
    {"slice %0 axis=1 lo=2 hi=2 : f32[4,1]", "2 to 2 of 6"},
    {"slice %0 axis=-1 lo=0 hi=1 : f32[4,1]", "axis -1 of"},
    {"broadcast %0 : f32[4,12]", "neither 1 nor 12"},
    {"broadcast %0 : f32[1,4,6]", "keeps the rank"},
    {"concat %0 %1 axis=0 : f32[10,6]", "differ in another axis than 0"},
    {"concat %0 %2 axis=0 : f32[8,6]", "input 1 is i32"},
    {"concat %10 %10 axis=0 : f32[8]", "too large"},
    {"sum %0 axis=2 : f32[4,6]", "axis 2 of"},
    {"maximum %2 axis=0 : i32[1]", "input 0 is i32"},
    {"matmul %0 %0 ta=0 tb=0 : f32[4,6]", "inner extents 6 and 4"},
    {"matmul %0 %3 ta=0 tb=0 : f32[4,6]", "input 1 has rank 4, not 2"},
    {"matmul %9 %9 ta=0 tb=1 : f32[4,6]", "too large"},
    {"attention %3 %4 %4 %6 window=0 f=1 : f32[1,4,4,2]", "q and k do not go together"},
    {"attention %3 %5 %4 %6 window=0 f=1 : f32[1,4,4,2]", "k and v differ"},
    {"attention %3 %5 %5 %2 window=0 f=1 : f32[1,4,4,2]", "start is not of (B,S)"},
    {"attention_grad %5 %3 %5 %5 %3 %0 %6 window=0 f=1 : f32[1,4,4,2]", "do, o and q"},
    {"attention_grad %3 %3 %5 %5 %3 %0 %6 window=0 f=1 : f32[1,4,4,2]", "lse is not of (B,H,S)"},
    {"embedding %0 %0 : f32[4,6]", "input 1 is f32, not i32"},
    {"embedding %0 %6 : f32[4,6]", "input 1 has rank 2, not 1"},
    {"embedding_grad %1 %2 %2 rows=9 : f32[9,4]", "differ in length"},
    {"embedding_grad %0 %2 %2 rows=0 : f32[9,6]", "differ in length"},
    {"result %0 index=0 : f32[4,6]", "load has no result 0"},
    {"result %8 index=2 : f32[1,4,4]", "attention has no result 2"},
    {"all_gather %0 axis=0 ranks=2 : f32[8]", "input 0 has rank 2, not 1"},
    {"all_gather %10 axis=0 ranks=0 : f32[8]", "over 0 ranks"},
    {"all_gather %10 axis=0 ranks=4 : f32[8]", "too large"},
    {"reduce_scatter %10 axis=0 ranks=2 : f32[8]", "elements for 2 ranks"},
};

TEST(builder_refuses_each_kind_of_bad_node_with_a_reason) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    Arena *arena = arena_open();
    Why why = {{0}};
    char *text = arena_printf(arena, "%s%%11 = %s @0 fwd\n", FIXTURE, refused[i].node);
    if (graph_try_parse(graph_open(arena), text, &why) || !strstr(why.text, refused[i].why) || !strstr(why.text, "line 22: "))
      check_failed(__FILE__, __LINE__, "%s: \"%s\" instead of \"%s\"", refused[i].node, why.text, refused[i].why);
    arena_close(arena);
  }
}

TEST(pushing_a_bad_node_is_our_mistake) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  int x = ir_const(g, DT_I32, 1);
  EXPECT_FAIL(FAIL_BUG, "exp: input 0 is i32, not f32", { ir_unary(g, OP_EXP, x); });
  EXPECT_FAIL(FAIL_BUG, "no var 'a'", { ir_load(g, "a"); });
  graph_var(g, (Var){.name = "a"});
  EXPECT_FAIL(FAIL_BUG, "graph_find_var", { graph_var(g, (Var){.name = "a"}); });
  arena_close(arena);
}

TEST(vars_are_found_by_their_text) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  EXPECT(graph_find_var(g, "v0") < 0);
  for (int i = 0; i < 3000; i++) EXPECT(graph_var(g, (Var){.name = arena_printf(arena, "v%d", i)}) == i);
  for (int i = 0; i < 3000; i++) EXPECT(graph_find_var(g, arena_printf(arena, "v%d", i)) == i);
  EXPECT(graph_find_var(g, "v3000") < 0);
  arena_close(arena);
}

TEST(binary_constructors_broadcast) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  int column = ir_iota(g, DT_I32, SHAPE(4, 1), 0), row = ir_iota(g, DT_I32, SHAPE(3), 0), one = ir_const(g, DT_I32, 1);
  Shape both = SHAPE(4, 3), vector = SHAPE(3);
  EXPECT(shape_equal(&graph_node(g, ir_add(g, column, row))->shape, &both));
  EXPECT(shape_equal(&graph_node(g, ir_add(g, one, row))->shape, &vector));
  EXPECT(shape_equal(&graph_node(g, ir_select(g, ir_binary(g, OP_LT, row, one), column, one))->shape, &both));
  arena_close(arena);
}

/* --- text ------------------------------------------------------------------------------------------------------------- */

static char *print(Arena *arena, const Graph *g) {
  Text text = {0};
  text_add(&text, "", 0);
  graph_print(g, &text);
  char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

static Graph *parse(Arena *arena, const char *text) {
  Graph *g = graph_open(arena);
  Why why;
  if (!graph_try_parse(g, text, &why)) check_failed(__FILE__, __LINE__, "%s in\n%s", why.text, text);
  return g;
}

static RandomSpec spec_of(uint64_t seed) {
  return (RandomSpec){.seed = seed, .nodes = 150, .elements = 256, .big = true, .rough = true, .phases = true, .collectives = true};
}

TEST(a_printed_graph_is_read_back_as_it_was) {
  int seen[OP_COUNT] = {0};
  for (uint64_t seed = 0; seed < 100; seed++) {
    Arena *arena = arena_open();
    Graph *g = random_graph(arena, spec_of(seed)), *again = parse(arena, print(arena, g));
    EXPECT_TEXT(print(arena, again), print(arena, g));
    EXPECT(graph_hash(again) == graph_hash(g));
    for (int i = 0; i < g->nodes.n; i++) seen[graph_node(g, i)->op]++;
    arena_close(arena);
  }
  for (int op = 0; op < OP_COUNT; op++)
    if (!seen[op]) check_failed(__FILE__, __LINE__, "random graphs lack %s", op_table[op].name);
}

TEST(numbers_and_names_survive_printing) {
  static const double odd[] = {0.1, -0.0, 5e-324, 1.7976931348623157e308, INFINITY, -INFINITY, NAN, 1.0 / 3, 123456789012345678.0};
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  graph_var(g, (Var){.name = "a \"b\"\\\t\n\x01 \xc3\xa9", .class = VAR_PARAM, .unit = "u\"", .init = INIT_NORMAL, .std = 0.02});
  graph_var(g, (Var){.name = "", .class = VAR_PARAM, .init = INIT_ONE});
  graph_enter(g, "\\x", SCOPE_CHUNK);
  ir_table(g, odd, 9);
  ir_load(g, g->vars.at[0].name);
  for (int i = 0; i < 9; i++) ir_const(g, DT_F32, odd[i]);
  Graph *again = parse(arena, print(arena, g));
  EXPECT_TEXT(print(arena, again), print(arena, g));
  EXPECT_TEXT(again->vars.at[0].name, g->vars.at[0].name);
  EXPECT_TEXT(again->vars.at[0].unit, "u\"");
  EXPECT(!again->vars.at[1].unit && again->vars.at[1].init == INIT_ONE);
  EXPECT_TEXT(again->scopes.at[1].name, "\\x");
  for (int i = 0; i < 9; i++) {
    double f = again->nodes.at[2 + i].f;
    EXPECT(isnan(odd[i]) ? isnan(f) : !memcmp(&f, &odd[i], sizeof f));
    EXPECT(isnan(odd[i]) ? isnan(again->nodes.at[0].table[i]) : !memcmp(&again->nodes.at[0].table[i], &odd[i], sizeof f));
  }
  arena_close(arena);
}

TEST(the_hash_tells_graphs_apart) {
  Arena *arena = arena_open();
  Graph *a = parse(arena, FIXTURE), *b = parse(arena, FIXTURE);
  EXPECT(graph_hash(a) == graph_hash(b));
  b->nodes.at[8].f = 1.0000000000000002;
  EXPECT(graph_hash(a) != graph_hash(b));
  EXPECT(graph_hash(graph_open(arena)) != graph_hash(a));
  arena_close(arena);
}

static const struct {
  const char *text, *why;
} misspelt[] = {
    {"hello\n", "line 1: expected %"},
    {"\n\nvar pet \"x\" f32[]\n", "line 3: expected a class of var at \"pet"},
    {"var input \"x\" f64[]\n", "expected a type"},
    {"var input \"x f32[]\n", "expected \""},
    {"var input \"\\x00\" f32[]\n", "two digits"},
    {"var input \"x\" f32[0]\n", "a possible shape"},
    {"var input \"x\" f32[9223372036854775807]\n", "a possible shape"},
    {"var input \"x\" f32[9223372036854775808]\n", "expected an integer"},
    {"var input \"x\" f32[1,1,1,1,1,1]\n", "expected ]"},
    {"var input \"x\" f32[]\nvar state \"x\" f32[]\n", "line 2: a second var 'x'"},
    {"var param \"x\" f32[] init=one std=much\n", "expected a number"},
    {"scope 2 block \"a\"\n", "scope 2 instead of 1"},
    {"scope 1 sphere \"a\"\n", "a kind of scope"},
    {"%1 = const f=1 : f32[] @0 fwd\n", "node 1 instead of 0"},
    {"%0 = konst f=1 : f32[] @0 fwd\n", "expected an op"},
    {"%0 = const : f32[] @0 fwd\n", "expected f="},
    {"%0 = const f=1 : f32[] @1 fwd\n", "no scope 1"},
    {"%0 = const f=1 : f32[] @0 sideways\n", "expected a phase"},
    {"%0 = const f=1 : f32[2] @0 fwd\n", "another type or shape"},
    {"%0 = const f=1 : f32[] @0 fwd %1\n", "line 1: expected \n"},
    {"%0 = table count=9223372036854775807 values=1 : f32[1] @0 fwd\n", "as many values as counted"},
    {"%0 = table count=2 values=1 : f32[2] @0 fwd\n", "expected ,"},
};

TEST(what_is_misspelt_is_refused_with_its_line) {
  for (size_t i = 0; i < sizeof misspelt / sizeof *misspelt; i++) {
    Arena *arena = arena_open();
    Why why = {{0}};
    if (graph_try_parse(graph_open(arena), misspelt[i].text, &why) || !strstr(why.text, misspelt[i].why))
      check_failed(__FILE__, __LINE__, "%s: \"%s\" instead of \"%s\"", misspelt[i].text, why.text, misspelt[i].why);
    arena_close(arena);
  }
}

typedef struct Dice {
  Rng rng;
  uint64_t drawn;
} Dice;

static size_t roll(Dice *dice, size_t n) {
  uint32_t words[4];
  rng_words(&dice->rng, dice->drawn++, words);
  return words[0] % n;
}

/* A byte changed, a stretch removed or repeated, a number made large, or two lines exchanged by a repeat and a removal. */
static void damage(Dice *dice, Text *text) {
  static const char alphabet[] = "0123456789-,=[]%\"@:\n \\.exabf\xff";
  static const char *const numbers[] = {"-1", "9223372036854775807", "4611686018427387904", "-9223372036854775808", "1e999", "nan"};
  size_t at = roll(dice, text->n), n = 1 + roll(dice, 40);
  if (n > text->n - at) n = text->n - at;
  switch (roll(dice, 4)) {
  case 0:
    text->at[at] = alphabet[roll(dice, sizeof alphabet - 1)];
    return;
  case 1:
    memmove(text->at + at, text->at + at + n, text->n - at - n + 1);
    text->n -= n;
    return;
  case 2: {
    Text whole = {0};
    text_add(&whole, text->at, at + n);
    text_add(&whole, text->at + at, text->n - at);
    text_close(text);
    *text = whole;
    return;
  }
  default: {
    const char *number = numbers[roll(dice, 6)];
    size_t digits;
    while (at < text->n && !strchr("0123456789", text->at[at])) at++;
    digits = strspn(text->at + at, "0123456789");
    Text whole = {0};
    text_add(&whole, text->at, at);
    text_add(&whole, number, strlen(number));
    text_add(&whole, text->at + at + digits, text->n - at - digits);
    text_close(text);
    *text = whole;
  }
  }
}

TEST(damaged_text_is_refused_or_is_a_graph) {
  int refusals = 0, tries = 0;
  for (uint64_t seed = 0; seed < 40; seed++) {
    Arena *arena = arena_open();
    Dice dice = {rng_make(seed, RNG_TEST, "damage", 0), 0};
    RandomSpec spec = spec_of(seed);
    spec.nodes = 30;
    char *whole = print(arena, random_graph(arena, spec));
    for (int i = 0; i < 200; i++, tries++) {
      Arena *inner = arena_open();
      Graph *g = graph_open(inner);
      Text text = {0};
      Why why = {{0}};
      text_add(&text, whole, strlen(whole));
      for (size_t k = 1 + roll(&dice, 3); k > 0; k--) damage(&dice, &text);
      if (graph_try_parse(g, text.at, &why)) {
        EXPECT_TEXT(print(inner, parse(inner, print(inner, g))), print(inner, g));
        graph_try_check(g, &why);
      } else {
        EXPECT(!strncmp(why.text, "line ", 5));
        refusals++;
      }
      text_close(&text);
      arena_close(inner);
    }
    arena_close(arena);
  }
  EXPECT(refusals > tries / 4 && refusals < tries);
}

/* --- checker ---------------------------------------------------------------------------------------------------------- */

static void swap_order(Graph *g) { g->nodes.at[7].in[0] = 8; }
static void own_input(Graph *g) { g->nodes.at[7].in[0] = 7; }
static void other_shape(Graph *g) { g->nodes.at[0].shape.dim[0] = 5; }
static void other_type(Graph *g) { g->nodes.at[7].dtype = DT_F32; }
static void no_op(Graph *g) { g->nodes.at[7].op = OP_COUNT; }
static void more_inputs(Graph *g) { g->nodes.at[7].nin = 2; }
static void no_var(Graph *g) { g->nodes.at[0].name = "gone"; }
static void no_name(Graph *g) { g->nodes.at[0].name = NULL; }
static void renamed_var(Graph *g) { g->vars.at[1].name = "x"; }
static void var_type(Graph *g) { g->vars.at[0].dtype = DT_I32; }
static void var_shape(Graph *g) { g->vars.at[0].shape.dim[0] = 0; }
static void no_scope(Graph *g) { g->nodes.at[3].scope = 1; }
static void no_phase(Graph *g) { g->nodes.at[3].phase = PHASE_COUNT; }
static void attention_read(Graph *g) { ir_unary(g, OP_NEG, 8); }
static void stored_twice(Graph *g) { ir_store(g, "out", 0), ir_store(g, "out", 0); }
static void result_of_other(Graph *g) { g->nodes.at[ir_result(g, 8, 1)].in[0] = 3; }

static void far_var(Graph *g, VarHome home) {
  graph_var(g, (Var){.name = "far", .class = VAR_STATE, .dtype = DT_F32, .shape = SHAPE(2), .home = home});
}
static void read_far(Graph *g) { far_var(g, HOME_HOST), ir_unary(g, OP_NEG, ir_load(g, "far")); }
static void read_sent(Graph *g) { ir_unary(g, OP_NEG, ir_unary(g, OP_SEND, 0)); }
static void fetched_near(Graph *g) { ir_unary(g, OP_FETCH, 0); }
static void store_far(Graph *g) {
  far_var(g, HOME_FILE);
  ir_store(g, "far", ir_unary(g, OP_FETCH, ir_load(g, "far")));
}
static void far_input(Graph *g) { g->vars.at[0].home = HOME_HOST; }
static void no_home(Graph *g) { far_var(g, VAR_HOMES); }

static const struct {
  void (*corrupt)(Graph *g);
  const char *why;
} corruptions[] = {
    {swap_order, "node 8 that is not there"},
    {own_input, "node 7 that is not there"},
    {other_shape, "shape does not follow"},
    {other_type, "type should be pred"},
    {no_op, "no such op"},
    {more_inputs, "takes 1 inputs, not 2"},
    {no_var, "no var 'gone'"},
    {no_name, "no var ''"},
    {renamed_var, "not found by its name"},
    {var_type, "type should be i32"},
    {var_shape, "impossible type, shape or class"},
    {no_scope, "no scope 1"},
    {no_phase, "no phase 3"},
    {attention_read, "attention is read through its results"},
    {stored_twice, "'out' is stored twice"},
    {result_of_other, "load has no result 1"},
    {read_far, "is not on the device: fetch it"},
    {read_sent, "is not on the device: fetch it"},
    {fetched_near, "node 0 is on the device"},
    {store_far, "'far' is not on the device: send"},
    {far_input, "cannot be kept off the device"},
    {no_home, "cannot be kept off the device"},
};

TEST(checker_finds_each_kind_of_corruption) {
  for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++) {
    Arena *arena = arena_open();
    Graph *g = parse(arena, FIXTURE);
    Why why = {{0}};
    EXPECT(graph_try_check(g, &why));
    corruptions[i].corrupt(g);
    if (graph_try_check(g, &why) || !strstr(why.text, corruptions[i].why))
      check_failed(__FILE__, __LINE__, "\"%s\" instead of \"%s\"", why.text, corruptions[i].why);
    arena_close(arena);
  }
}

TEST(a_failed_check_names_the_pass_and_the_node) {
  Arena *arena = arena_open();
  Graph *g = parse(arena, FIXTURE);
  graph_check(g, "shard");
  other_shape(g);
  EXPECT_FAIL(FAIL_BUG, "wrong after shard", { graph_check(g, "shard"); });
  EXPECT_FAIL(FAIL_BUG, "%0 = load \"x\" : f32[5,6] @0 fwd", { graph_check(g, "shard"); });
  arena_close(arena);
}

/* --- interpreter ------------------------------------------------------------------------------------------------------ */

typedef struct Lab {
  Arena *arena;
  Graph *g;
  double *value[16];
} Lab;

static Lab lab_open(void) {
  Lab lab = {.arena = arena_open()};
  lab.g = graph_open(lab.arena);
  return lab;
}

static int lab_var(Lab *lab, const char *name, DType dtype, Shape shape, const double *from) {
  int v = graph_var(lab->g, (Var){.name = name, .class = VAR_CARRY, .dtype = dtype, .shape = shape});
  lab->value[v] = arena_array(lab->arena, double, shape_size(&shape));
  for (int64_t i = 0; i < shape_size(&shape) && from; i++) lab->value[v][i] = from[i];
  return v;
}

/* Stores node x in a var of its own and runs. */
static const double *lab_run(Lab *lab, int x, InterpCollective *collective, void *self) {
  const Node *node = graph_node(lab->g, x);
  int v = lab_var(lab, "result", node->dtype, node->shape, NULL);
  ir_store(lab->g, "result", x);
  graph_check(lab->g, "building");
  graph_interpret(lab->g, lab->value, collective, self);
  return lab->value[v];
}

TEST(stores_take_effect_after_all_loads) {
  Lab lab = lab_open();
  int a = lab_var(&lab, "a", DT_F32, SHAPE(2), (double[]){1, 2}), b = lab_var(&lab, "b", DT_F32, SHAPE(2), (double[]){3, 4});
  ir_store(lab.g, "a", ir_load(lab.g, "b"));
  ir_store(lab.g, "b", ir_load(lab.g, "a"));
  graph_interpret(lab.g, lab.value, NULL, NULL);
  EXPECT(lab.value[a][0] == 3 && lab.value[a][1] == 4 && lab.value[b][0] == 1 && lab.value[b][1] == 2);
  arena_close(lab.arena);
}

TEST(a_maximum_with_nan_is_nan) {
  Lab lab = lab_open();
  lab_var(&lab, "a", DT_F32, SHAPE(4), (double[]){NAN, 1, 2, NAN});
  lab_var(&lab, "b", DT_F32, SHAPE(4), (double[]){1, NAN, 3, NAN});
  const double *r = lab_run(&lab, ir_binary(lab.g, OP_MAX, ir_load(lab.g, "a"), ir_load(lab.g, "b")), NULL, NULL);
  EXPECT(isnan(r[0]) && isnan(r[1]) && r[2] == 3 && isnan(r[3]));
  arena_close(lab.arena);
}

TEST(a_cast_to_an_integer_truncates) {
  Lab lab = lab_open();
  lab_var(&lab, "a", DT_F32, SHAPE(4), (double[]){1.9, -1.9, -0.5, 3});
  const double *r = lab_run(&lab, ir_cast(lab.g, DT_I32, ir_load(lab.g, "a")), NULL, NULL);
  EXPECT(r[0] == 1 && r[1] == -1 && r[2] == 0 && !signbit(r[2]) && r[3] == 3);
  arena_close(lab.arena);
}

TEST(a_select_does_not_look_at_the_other_branch) {
  Lab lab = lab_open();
  lab_var(&lab, "a", DT_F32, SHAPE(2), (double[]){0, 4});
  int a = ir_load(lab.g, "a"), zero = ir_const(lab.g, DT_F32, 0), inverse = ir_div(lab.g, ir_const(lab.g, DT_F32, 1), a);
  const double *r = lab_run(&lab, ir_select(lab.g, ir_binary(lab.g, OP_EQ, a, zero), zero, inverse), NULL, NULL);
  EXPECT(r[0] == 0 && r[1] == 0.25);
  arena_close(lab.arena);
}

/* Each view of an iota, whose elements say where they come from. */
TEST(views_move_elements_where_they_say) {
  Lab lab = lab_open();
  Graph *g = lab.g;
  int rows = ir_iota(g, DT_I32, SHAPE(2, 3, 4), 0), cols = ir_iota(g, DT_I32, SHAPE(2, 3, 4), 1),
      last = ir_iota(g, DT_I32, SHAPE(2, 3, 4), 2);
  int x = ir_add(g, ir_mul(g, rows, ir_const(g, DT_I32, 100)), ir_add(g, ir_mul(g, cols, ir_const(g, DT_I32, 10)), last));
  int p = ir_permute(g, x, (int[]){2, 0, 1}), s = ir_slice(g, p, 0, 1, 3);    /* (2,2,3): last axis from 1 on */
  int both[] = {s, ir_broadcast(g, ir_slice(g, s, 1, 1, 2), SHAPE(2, 2, 3))}; /* (2,2,3) twice */
  const double *r = lab_run(&lab, ir_concat(g, both, 2, 1), NULL, NULL);      /* (2,4,3) */
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int k = 0; k < 3; k++) EXPECT(r[(i * 4 + j) * 3 + k] == 100 * (j < 2 ? j : 1) + 10 * k + i + 1);
  arena_close(lab.arena);
}

TEST(products_of_all_orientations_agree) {
  Lab lab = lab_open();
  Graph *g = lab.g;
  double a[3 * 70], b[70 * 5];
  for (int i = 0; i < 3 * 70; i++) a[i] = i % 7 - 3;
  for (int i = 0; i < 70 * 5; i++) b[i] = i % 11 - 5;
  lab_var(&lab, "a", DT_F32, SHAPE(3, 70), a);
  lab_var(&lab, "b", DT_F32, SHAPE(70, 5), b);
  int x = ir_load(g, "a"), y = ir_load(g, "b"), xt = ir_transpose(g, x), yt = ir_transpose(g, y);
  int all[] = {ir_matmul(g, x, false, y, false), ir_matmul(g, xt, true, y, false), ir_matmul(g, x, false, yt, true),
               ir_matmul(g, xt, true, yt, true)};
  const double *r = lab_run(&lab, ir_concat(g, all, 4, 0), NULL, NULL);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 5; j++) {
      double sum = 0;
      for (int k = 0; k < 70; k++) sum += a[i * 70 + k] * b[k * 5 + j];
      for (int o = 0; o < 4; o++) EXPECT(r[(o * 3 + i) * 5 + j] == sum);
    }
  arena_close(lab.arena);
}

/* Attention of one head written out: scores, mask by position, softmax. */
static int attention_by_hand(Graph *g, int q, int k, int v, int64_t s, int64_t d, double scale, int64_t window, int start) {
  int i = ir_iota(g, DT_I32, SHAPE(s, s), 0), j = ir_iota(g, DT_I32, SHAPE(s, s), 1), one = ir_const(g, DT_I32, 1);
  int causal = ir_binary(g, OP_LE, j, i), begun = ir_binary(g, OP_LE, ir_reshape(g, start, SHAPE(s, 1)), j);
  int near = ir_binary(g, OP_LE, ir_add(g, ir_sub(g, i, ir_const(g, DT_I32, (double)window)), one), j);
  int seen = ir_binary(g, OP_AND, ir_binary(g, OP_AND, causal, begun), near);
  int score = ir_scale(g, ir_matmul(g, ir_reshape(g, q, SHAPE(s, d)), false, ir_reshape(g, k, SHAPE(s, d)), true), scale);
  int e = ir_select(g, seen, ir_unary(g, OP_EXP, score), ir_const(g, DT_F32, 0));
  return ir_matmul(g, ir_div(g, e, ir_reduce(g, OP_SUM, e, 1)), false, ir_reshape(g, v, SHAPE(s, d)), false);
}

TEST(attention_is_a_masked_softmax) {
  enum { S = 7, D = 2 };
  static const double starts[S] = {0, 0, 0, 0, 4, 4, 4};
  for (int64_t window = 1; window <= S + 1; window++) {
    Lab lab = lab_open();
    Graph *g = lab.g;
    double q[S * D], k[S * D], v[S * D], scale = 0.7;
    for (int i = 0; i < S * D; i++) q[i] = sin(i), k[i] = cos(3 * i), v[i] = sin(5 * i);
    lab_var(&lab, "q", DT_F32, SHAPE(1, S, 1, D), q);
    lab_var(&lab, "k", DT_F32, SHAPE(1, S, 1, D), k);
    lab_var(&lab, "v", DT_F32, SHAPE(1, S, 1, D), v);
    lab_var(&lab, "start", DT_I32, SHAPE(1, S), starts);
    int in[] = {ir_load(g, "q"), ir_load(g, "k"), ir_load(g, "v"), ir_load(g, "start")};
    int64_t n = window > S ? 0 : window; /* 0: no limit */
    int o = ir_result(g, graph_push(g, (Node){.op = OP_ATTENTION, .f = scale, .n = {n}, .nin = 4, .in = in}), 0);
    int hand = attention_by_hand(g, in[0], in[1], in[2], S, D, scale, window, in[3]);
    const double *r = lab_run(&lab, ir_sub(g, ir_reshape(g, o, SHAPE(S, D)), hand), NULL, NULL);
    for (int i = 0; i < S * D; i++) EXPECT(fabs(r[i]) < 1e-14);
    arena_close(lab.arena);
  }
}

TEST(grouped_heads_share_their_keys_and_lse_is_by_head) {
  Lab lab = lab_open();
  Graph *g = lab.g;
  lab_var(&lab, "q", DT_F32, SHAPE(1, 1, 4, 1), (double[]){1, 2, 3, 4});
  lab_var(&lab, "k", DT_F32, SHAPE(1, 1, 2, 1), (double[]){10, 20});
  lab_var(&lab, "v", DT_F32, SHAPE(1, 1, 2, 1), (double[]){5, 7});
  lab_var(&lab, "start", DT_I32, SHAPE(1, 1), (double[]){0});
  int in[] = {ir_load(g, "q"), ir_load(g, "k"), ir_load(g, "v"), ir_load(g, "start")};
  int x = graph_push(g, (Node){.op = OP_ATTENTION, .f = 1, .nin = 4, .in = in});
  int both[] = {ir_reshape(g, ir_result(g, x, 0), SHAPE(4)), ir_reshape(g, ir_result(g, x, 1), SHAPE(4))};
  const double *r = lab_run(&lab, ir_concat(g, both, 2, 0), NULL, NULL), expected[] = {5, 5, 7, 7, 10, 20, 60, 80};
  for (int i = 0; i < 8; i++) EXPECT(r[i] == expected[i]);
  arena_close(lab.arena);
}

TEST(embedding_takes_rows_and_its_gradient_adds_them_up) {
  Lab lab = lab_open();
  Graph *g = lab.g;
  lab_var(&lab, "table", DT_F32, SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
  lab_var(&lab, "ids", DT_I32, SHAPE(4), (double[]){2, 0, 2, 2});
  lab_var(&lab, "order", DT_I32, SHAPE(4), (double[]){1, 0, 2, 3});
  int rows[] = {ir_load(g, "table"), ir_load(g, "ids")}, x = graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = rows});
  int back[] = {x, rows[1], ir_load(g, "order")};
  const double *r = lab_run(&lab, graph_push(g, (Node){.op = OP_EMBEDDING_GRAD, .n = {3}, .nin = 3, .in = back}), NULL, NULL);
  const double expected[] = {1, 2, 0, 0, 15, 18};
  for (int i = 0; i < 6; i++) EXPECT(r[i] == expected[i]);
  EXPECT_FAIL(FAIL_BUG, "ids[t] >= 0", {
    lab.value[1][0] = 3;
    graph_interpret(g, lab.value, NULL, NULL);
  });
  arena_close(lab.arena);
}

static void gather_twice(void *self, const Node *node, const double *in, double *out) {
  ++*(int *)self;
  for (int64_t i = 0; i < shape_size(&node->shape); i++) out[i] = in[i / 2];
}

TEST(collectives_go_to_the_caller_and_copy_without_one) {
  for (int ranks = 1; ranks <= 2; ranks++) {
    Lab lab = lab_open();
    int calls = 0;
    lab_var(&lab, "a", DT_F32, SHAPE(2), (double[]){3, 4});
    int a = ir_load(lab.g, "a");
    int x = graph_push(lab.g, (Node){.op = OP_ALL_GATHER, .n = {0, ranks}, .nin = 1, .in = &a});
    const double *r = lab_run(&lab, x, ranks == 2 ? gather_twice : NULL, &calls);
    EXPECT(calls == ranks - 1);
    EXPECT(r[0] == 3 && r[1] == (ranks == 2 ? 3 : 4));
    arena_close(lab.arena);
  }
}
