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
#include "src/train/setup.h"
#include "src/train/states.h"

static const char *const use_keys[] = {"data.tokenizer", "device.", "cpu.", "gpu.", NULL};

enum { BYTES = 256, SHORTEST = 64 }; /* SHORTEST: positions are this or more, so that few programs are ever compiled */

typedef struct Generate {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Dev *dev;
  const Config *config;
  Engine *engine;
  const char *folder, *prompt;
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
  if (c->data.tokenizer != TOKENIZER_BYTES)
    config_fail(c, "data.tokenizer", "data.tokenizer=bytes, if it was trained on bytes",
                "generate speaks bytes alone, and the run was not trained on them");
  return c;
}

static void load(Generate *g, int nkeys, char **keys) {
  const Ckpt *ckpt = open_checkpoint(g);
  g->config = read_config(g, ckpt, nkeys, keys);
  ModelConfig model = states_model(g->arena, ckpt);
  if (model.vocab < BYTES) fail(FAIL_INPUT, "%s: bytes need a vocabulary of 256 or more", ckpt_folder(ckpt));
  int threads = g->config->cpu.threads ? (int)g->config->cpu.threads : comm_core_share(g->comm);
  int64_t length = (int64_t)strlen(g->prompt) + g->tokens;
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

/* By probabilities ∝ exp(logit / temperature), u in [0,1) picks; temperature 0: the largest. */
static int sample(const Generate *g, const float *logits, double u) {
  double p[BYTES], sum = 0;
  int largest = 0;
  for (int i = 0; i < BYTES; i++) {
    if (!isfinite(logits[i])) fail(FAIL_INPUT, "%s: the model's logits are not finite\nhelp: try an earlier step", g->folder);
    if (logits[i] > logits[largest]) largest = i;
  }
  if (g->temperature == 0) return largest;
  for (int i = 0; i < BYTES; i++) sum += p[i] = exp(((double)logits[i] - logits[largest]) / g->temperature);
  double left = u * sum;
  for (int i = 0; i < BYTES; i++)
    if ((left -= p[i]) < 0) return i;
  return largest; /* rounding left nothing */
}

static void speak(const Generate *g) {
  int64_t n = (int64_t)strlen(g->prompt), all = n + g->tokens + 1, first = 0;
  int32_t *ids = arena_array(g->arena, int32_t, all);
  for (int64_t i = 0; i < n; i++) ids[i] = (unsigned char)g->prompt[i];
  if (n == 0) ids[n++] = '\n'; /* something must come before the first token; it is not printed */
  Rng rng = rng_make((uint64_t)g->seed, RNG_SAMPLE, "", 0);
  fputs(g->prompt, stdout);
  for (int64_t i = 0; i < g->tokens && !ferror(stdout); i++, n++) {
    fflush(stdout);
    if (n - first > g->positions) first = n - g->positions;
    ids[n] = sample(g, engine_next(g->engine, ids + first, n - first), rng_uniform(&rng, (uint64_t)i));
    putchar(ids[n]);
  }
  putchar('\n');
}

int cmd_generate(int argc, char **argv) {
  Generate g = {.arena = arena_open(), .prompt = "", .tokens = 256, .temperature = 0.8, .seed = -1};
  char **keys = arena_array(g.arena, char *, argc + 1);
  int nkeys = take_words(&g, argc, argv, keys);
  words_refuse_keys("generate", nkeys, keys, use_keys);
  g.comm = comm_self();
  load(&g, nkeys, keys);
  speak(&g);
  engine_close(g.engine);
  dev_close(g.dev);
  mesh_close(g.mesh);
  comm_close(g.comm);
  arena_close(g.arena);
  return 0;
}
