/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain generate: text from a checkpoint, one token after another, by one process without MPI.
 *
 * Every token runs the whole forward program over the last `positions` tokens: nothing is kept from one to the next, which
 * serves for a look at what a run has learned.  The random numbers follow from the seed and the token's place alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/cmd/cmd.h"
#include "src/train/data.h"
#include "src/train/setup.h"
#include "src/train/states.h"

static const char *const use_keys[] = {"data.tokenizer", "data.tokenizer_pattern", "device.", "cpu.", "gpu.", NULL};

/* SHORTEST: positions are this or more, so that few programs are ever compiled.  WINDOW: ids before one on which its text depends.
 */
enum { SHORTEST = 64, WINDOW = 16 };

typedef struct Generate {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Dev *dev;
  const Config *config;
  Engine *engine;
  Tokenizer *tokenizer;
  int64_t vocab; /* ids that may come */
  Ids ids;       /* the prompt's, and what came */
  const char *folder, *prompt;
  bool special; /* what the tokenizer puts before a text comes before the prompt */
  int64_t tokens, seed, positions;
  double temperature;
} Generate;

/* --- words ---------------------------------------------------------------------------------------------------------------- */

static bool take_option(Generate *g, const char *name, const char *value) {
  if (!strcmp(name, "--prompt")) return (g->prompt = value);
  if (!strcmp(name, "--tokens")) return num_parse_int(value, &g->tokens) && g->tokens >= 0 && g->tokens <= 1 << 30;
  if (!strcmp(name, "--temperature")) return num_parse_double(value, &g->temperature) && g->temperature >= 0;
  return num_parse_int(value, &g->seed) && g->seed >= 0; /* --seed */
}

/* Sorts argv into options, the folder, and key=value words, which are left in keys (argv[0] first); returns their number. */
static int take_words(Generate *g, int argc, char **argv, char **keys) {
  static const char *const options[] = {"--prompt", "--tokens", "--temperature", "--seed", NULL};
  int n = 1;
  keys[0] = argv[0];
  for (int i = 1; i < argc; i++) {
    int o = 0;
    while (options[o] && strcmp(options[o], argv[i])) o++;
    if (options[o] && (i + 1 == argc || !take_option(g, argv[i], argv[i + 1])))
      fail(FAIL_INPUT, "%s %s: a value is wanted: --prompt TEXT, --tokens N, --temperature T (0 or more), --seed S", argv[i],
           i + 1 < argc ? argv[i + 1] : "");
    if (options[o])
      i++;
    else if (!strcmp(argv[i], "--add-special-tokens"))
      g->special = true;
    else if (argv[i][0] != '-' && strchr(argv[i], '='))
      keys[n++] = argv[i];
    else if (argv[i][0] != '-' && !g->folder)
      g->folder = argv[i];
    else
      fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help generate", argv[i]);
  }
  if (!g->folder) fail(FAIL_INPUT, "generate needs a run folder or a step folder\nhelp: hpctrain help generate");
  return n;
}

/* --- loading -------------------------------------------------------------------------------------------------------------- */

static const Ckpt *open_checkpoint(Generate *g) {
  Text warnings = {0};
  const Ckpt *ckpt = ckpt_find_newest(g->comm, g->folder, &warnings);
  if (warnings.n) fprintf(stderr, "warn   %s", warnings.at);
  text_close(&warnings);
  if (!ckpt)
    fail(FAIL_INPUT, "%s: no checkpoint there\nhelp: give the folder of a run that has saved, or one of its step folders",
         g->folder);
  return ckpt;
}

/* Where it was trained does not bind it: device.kind is auto again, unless asked for.  keys has room for one more. */
static const Config *read_config(Generate *g, const Ckpt *ckpt, int nkeys, char **keys) {
  bool asked = false;
  for (int i = 1; i < nkeys; i++) asked |= !strncmp(keys[i], "device.kind=", strlen("device.kind="));
  if (!asked) keys[nkeys++] = "device.kind=auto";
  const char *name = arena_printf(g->arena, "%s: /run/config", ckpt_folder(ckpt)), *text = ckpt_text(ckpt, g->arena, "config");
  if (!text) fail(FAIL_INPUT, "%s is not there\nhelp: use a checkpoint that hpctrain train has saved", name);
  Config *c = config_parse(g->arena, name, text, nkeys, keys);
  c->parallel.strategy = STRATEGY_FULL_SHARD; /* on any number of ranks, whatever groups it was trained in */
  setup_kind(g->arena, c, g->comm);
  return c;
}

static void open_tokenizer(Generate *g, int64_t vocab) {
  Text warnings = {0};
  g->tokenizer = data_open_tokenizer(g->config, vocab, &warnings);
  if (warnings.n) fprintf(stderr, "warn   %s", warnings.at);
  text_close(&warnings);
  if (!g->tokenizer)
    config_fail(g->config, "data.tokenizer", "data.tokenizer=PATH, or data.tokenizer=bytes if it was trained on bytes",
                "generate speaks text, and the run knows no tokenizer");
  g->vocab = tokenizer_vocab(g->tokenizer);
}

/* Something must come before the first token: what ends documents, or a line. */
static void read_prompt(Generate *g) {
  const Ids *before, *after;
  Why why;
  TokenizerWork *work = tokenizer_work_open(g->tokenizer);
  int32_t end = tokenizer_special(g->tokenizer, TOKENIZER_EOS);
  tokenizer_template(g->tokenizer, &before, &after);
  if (g->special) ids_add(&g->ids, before->at, before->n);
  bool ok = try_tokenizer_encode(work, g->prompt, strlen(g->prompt), &g->ids, &why);
  if (ok && !g->ids.n && end >= 0) ids_add(&g->ids, &end, 1);
  if (ok && !g->ids.n) ok = try_tokenizer_encode(work, "\n", 1, &g->ids, &why);
  if (!ok) fail(FAIL_INPUT, "--prompt: %s", why.text);
  tokenizer_work_close(work);
}

static void load(Generate *g, int nkeys, char **keys) {
  const Ckpt *ckpt = open_checkpoint(g);
  g->config = read_config(g, ckpt, nkeys, keys);
  ModelConfig model = states_model(g->arena, ckpt);
  open_tokenizer(g, model.vocab);
  read_prompt(g);
  int threads = g->config->cpu.threads ? (int)g->config->cpu.threads : comm_core_share(g->comm);
  int64_t length = g->ids.n + g->tokens;
  for (g->positions = SHORTEST; g->positions < length;) g->positions *= 2;
  if (g->positions > g->config->train.seq_len) g->positions = g->config->train.seq_len;
  EngineOptions o = setup_options(g->config, &model, threads);
  o.sequences = 1;
  o.positions = g->positions;
  o.generate = true;
  g->mesh = setup_mesh(g->config, g->comm);
  g->dev = setup_device(g->config, g->comm, threads, NULL);
  g->engine = engine_open(g->arena, g->dev, g->comm, g->mesh, &o);
  engine_start(g->engine);
  Why why;
  if (!try_states_load(g->comm, g->engine, ckpt, &why))
    fail(FAIL_INPUT, "%s damaged: %s\nhelp: use another checkpoint; hpctrain ckpt ls lists them", ckpt_folder(ckpt), why.text);
  fprintf(stderr, "model  %s, %lld positions\n", ckpt_folder(ckpt), (long long)g->positions);
  if (g->seed < 0) g->seed = g->config->run.seed;
  ckpt_close((Ckpt *)ckpt);
}

/* --- sampling ------------------------------------------------------------------------------------------------------------- */

static double weight(const Generate *g, float logit, float largest) { return exp(((double)logit - largest) / g->temperature); }

/* By probabilities ∝ exp(logit / temperature), u in [0,1) picks; temperature 0: the largest. */
static int32_t sample(const Generate *g, const float *logits, double u) {
  double sum = 0;
  int32_t largest = 0;
  for (int32_t i = 0; i < g->vocab; i++) {
    if (!isfinite(logits[i])) fail(FAIL_INPUT, "%s: the model's logits are not finite\nhelp: try an earlier step", g->folder);
    if (logits[i] > logits[largest]) largest = i;
  }
  if (g->temperature == 0) return largest;
  for (int32_t i = 0; i < g->vocab; i++) sum += weight(g, logits[i], logits[largest]);
  double left = u * sum;
  for (int32_t i = 0; i < g->vocab; i++)
    if ((left -= weight(g, logits[i], logits[largest])) < 0) return i;
  return largest; /* rounding left nothing */
}

/* What the last id adds to the text: bytes, of which characters may still be open. */
static void say_last(const Generate *g, Text *text) {
  int64_t from = g->ids.n > WINDOW ? g->ids.n - WINDOW : 0;
  text->n = 0;
  tokenizer_decode(g->tokenizer, g->ids.at + from, g->ids.n - 1 - from, true, text);
  size_t before = text->n;
  text->n = 0;
  tokenizer_decode(g->tokenizer, g->ids.at + from, g->ids.n - from, true, text);
  if (text->n > before) fwrite(text->at + before, 1, text->n - before, stdout);
}

/* Until a document ends, or enough was said. */
static void speak(Generate *g) {
  Rng rng = rng_make((uint64_t)g->seed, RNG_SAMPLE, "", 0);
  Text text = {0};
  int32_t end = tokenizer_special(g->tokenizer, TOKENIZER_EOS);
  fputs(g->prompt, stdout);
  for (int64_t i = 0, first = 0; i < g->tokens && !ferror(stdout); i++) {
    fflush(stdout);
    if (g->ids.n - first > g->positions) first = g->ids.n - g->positions;
    int32_t id = sample(g, engine_next(g->engine, g->ids.at + first, g->ids.n - first), rng_uniform(&rng, (uint64_t)i));
    if (id == end) break;
    ids_add(&g->ids, &id, 1);
    say_last(g, &text);
  }
  putchar('\n');
  text_close(&text);
}

int cmd_generate(int argc, char **argv) {
  Generate g = {.arena = arena_open(), .prompt = "", .tokens = 256, .temperature = 0.8, .seed = -1};
  char **keys = arena_array(g.arena, char *, argc + 1);
  int nkeys = take_words(&g, argc, argv, keys);
  words_refuse_keys("generate", nkeys, keys, use_keys);
  g.comm = comm_self();
  load(&g, nkeys, keys);
  speak(&g);
  ids_close(&g.ids);
  tokenizer_close(g.tokenizer);
  engine_close(g.engine);
  dev_close(g.dev);
  mesh_close(g.mesh);
  comm_close(g.comm);
  arena_close(g.arena);
  return 0;
}
