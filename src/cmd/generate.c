/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain generate: texts that go on from prompts, by one process without MPI (src/train/decoder.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/hf_generation.h"
#include "io/json_lines.h"
#include "src/cmd/cmd.h"
#include "src/report/human.h"
#include "src/train/decoder.h"
#include "src/train/loaded.h"

static const char *const use_keys[] = {
    "data.tokenizer", "data.tokenizer_pattern", "precision.compute", "device.", "cpu.", "gpu.", NULL};

enum { BATCH = 8 }; /* prompts at a time, where nobody says */
static const double temperature_usual = 0.8;

/* place: where a prompt was given. */
typedef struct Given {
  const char *place, *text;
  size_t n;
} Given;

/* Whether what the tokenizer puts before a text comes before each prompt: unless somebody says, where the model is one of Hugging
 * Face's or was trained from one, which has seen it there. */
typedef enum Special { SPECIAL_AUTO, SPECIAL_NONE, SPECIAL_ADDED } Special;

typedef struct Generate {
  Arena *arena;
  Loaded loaded;
  DecodeOptions decode;
  VEC(Given) given;
  VEC(const char *) stops;
  Utterance *all;      /* by prompt */
  int64_t n, told;     /* prompts; of them, those that are told to their end */
  bool begun;          /* the next one has been told in part */
  int64_t batch, seed; /* seed negative: the run's */
  int32_t ends[HF_ENDS + 1];
  bool plain; /* generation_config.json's settings are left out */
  const char *folder;
  Special special;
  bool json;
} Generate;

/* --- words ---------------------------------------------------------------------------------------------------------------- */

static void add_prompt(Generate *g, const char *place, const char *text, size_t n) {
  char *copy = arena_alloc(g->arena, n + 1);
  memcpy(copy, text, n);
  copy[n] = 0;
  vec_push(g->arena, &g->given, (Given){arena_strdup(g->arena, place), copy, n});
}

static bool take_prompt(Generate *g, const char *value) {
  add_prompt(g, "--prompt", value, strlen(value));
  return true;
}

static void add_line(void *self, const char *place, const char *line, size_t n) { add_prompt(self, place, line, n); }

static void add_json(void *self, const char *place, const json_t *value) {
  const json_t *text = json_is_object(value) ? json_object_get(value, "prompt") : value;
  if (!json_is_string(text)) fail(FAIL_INPUT, "%s: no prompt\nhelp: a line is \"TEXT\" or {\"prompt\": \"TEXT\"}", place);
  add_prompt(self, place, json_string_value(text), json_string_length(text));
}

static bool take_prompts(Generate *g, const char *value) {
  int before = g->given.n;
  if (config_is_json(value))
    json_lines_read(value, add_json, g);
  else
    text_lines_read(value, add_line, g);
  if (g->given.n == before)
    fail(FAIL_INPUT, "%s: no prompt is there\nhelp: a line each, or JSON lines in a file *.jsonl or *.ndjson", value);
  return true;
}

static bool take_stop(Generate *g, const char *value) {
  vec_push(g->arena, &g->stops, value);
  return *value;
}

static bool take_int(const char *value, int64_t least, int64_t *to) {
  return num_parse_int(value, to) && *to >= least && *to <= 1 << 30;
}

static bool take_tokens(Generate *g, const char *value) { return take_int(value, 0, &g->decode.tokens); }
static bool take_top_k(Generate *g, const char *value) { return take_int(value, 0, &g->decode.sampling.top_k); }
static bool take_batch(Generate *g, const char *value) { return take_int(value, 1, &g->batch); }
static bool take_penalty(Generate *g, const char *value) {
  double *p = &g->decode.repetition_penalty;
  return num_parse_double(value, p) && *p >= 1e-3 && *p <= 1e3;
}

static bool take_seed(Generate *g, const char *value) { return num_parse_int(value, &g->seed) && g->seed >= 0; }

static bool take_temperature(Generate *g, const char *value) {
  double *t = &g->decode.sampling.temperature;
  return num_parse_double(value, t) && *t >= 0 && *t <= 1e6;
}

static bool take_top_p(Generate *g, const char *value) {
  double *p = &g->decode.sampling.top_p;
  return num_parse_double(value, p) && *p >= 0 && *p <= 1;
}

static const struct {
  const char *name, *value;
  bool (*take)(Generate *g, const char *value);
} options[] = {{"--prompt", "TEXT", take_prompt},
               {"--prompts", "FILE", take_prompts},
               {"--tokens", "N, of each text at most", take_tokens},
               {"--temperature", "T, 0 or more (0: the most likely token)", take_temperature},
               {"--top-k", "K, 0 or more (0: all)", take_top_k},
               {"--top-p", "P, 0 (the most likely token) to 1 (all)", take_top_p},
               {"--repetition-penalty", "R, 0.001 to 1000 (1: none)", take_penalty},
               {"--seed", "S, 0 or more", take_seed},
               {"--stop", "TEXT, which is not empty", take_stop},
               {"--batch", "N, prompts at a time, 1 or more", take_batch}};
enum { OPTIONS = sizeof options / sizeof *options };

/* Sorts argv into options, the folder, and key=value words, which are left in keys (argv[0] first); returns their number. */
static int take_words(Generate *g, int argc, char **argv, char **keys) {
  int n = 1;
  keys[0] = argv[0];
  for (int i = 1; i < argc; i++) {
    int o = 0;
    while (o < OPTIONS && strcmp(options[o].name, argv[i])) o++;
    if (o < OPTIONS && (i + 1 == argc || !options[o].take(g, argv[i + 1])))
      fail(FAIL_INPUT, "%s %s: wanted is %s\nhelp: hpctrain help generate", argv[i], i + 1 < argc ? argv[i + 1] : "",
           options[o].value);
    if (o < OPTIONS)
      i++;
    else if (!strcmp(argv[i], "--add-special-tokens"))
      g->special = SPECIAL_ADDED;
    else if (!strcmp(argv[i], "--no-special-tokens"))
      g->special = SPECIAL_NONE;
    else if (!strcmp(argv[i], "--no-generation-config"))
      g->plain = true;
    else if (!strcmp(argv[i], "--json"))
      g->json = true;
    else if (argv[i][0] != '-' && strchr(argv[i], '='))
      keys[n++] = argv[i];
    else if (argv[i][0] != '-' && !g->folder)
      g->folder = argv[i];
    else
      fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help generate", argv[i]);
  }
  if (!g->folder)
    fail(FAIL_INPUT, "generate needs a run folder, a step folder or a Hugging Face folder\nhelp: hpctrain help generate");
  if (!g->given.n) take_prompt(g, "");
  return n;
}

/* --- loading -------------------------------------------------------------------------------------------------------------- */

/* Something must come before the first token: what ends documents, or a line. */
static void encode(const Generate *g, const Tokenizer *t, TokenizerWork *work, const Given *given, Utterance *u) {
  const Ids *before, *after;
  Why why;
  int32_t end = loaded_special(&g->loaded, TOKENIZER_EOS);
  *u = (Utterance){.prompt = given->text, .n = given->n};
  tokenizer_template(t, &before, &after);
  if (g->special == SPECIAL_ADDED) ids_add(&u->ids, before->at, before->n);
  bool ok = try_tokenizer_encode(work, given->text, given->n, &u->ids, &why);
  if (ok && !u->ids.n && end >= 0) ids_add(&u->ids, &end, 1);
  if (ok && !u->ids.n) ok = try_tokenizer_encode(work, "\n", 1, &u->ids, &why);
  if (!ok) fail(FAIL_INPUT, "%s: %s", given->place, why.text);
  loaded_check_ids(&g->loaded, given->place, u->ids.at, u->ids.n);
  if (u->ids.n > g->decode.limit)
    fail(FAIL_INPUT, "%s: the prompt \"%.40s%s\" has %lld tokens, the model is made for %lld positions\nhelp: a shorter prompt",
         given->place, given->text, given->n > 40 ? "…" : "", (long long)u->ids.n, (long long)g->decode.limit);
}

static void encode_all(Generate *g) {
  const Tokenizer *t = loaded_tokenizer(&g->loaded, "generate");
  TokenizerWork *work = tokenizer_work_open(t);
  if (g->special == SPECIAL_AUTO && model_folder_paper(g->loaded.from, MODEL_CONFIG)) g->special = SPECIAL_ADDED;
  g->n = g->given.n;
  g->all = arena_array(g->arena, Utterance, g->n);
  for (int64_t i = 0; i < g->n; i++) encode(g, t, work, &g->given.at[i], &g->all[i]);
  tokenizer_work_close(work);
}

/* What the model's makers say; nothing where they say nothing. */
static HfGeneration read_settings(const Generate *g) {
  const char *paper = model_folder_paper(g->loaded.from, MODEL_GENERATION);
  HfGeneration said;
  Why why;
  if (!try_hf_generation_parse(g->arena, MODEL_GENERATION, paper ? paper : "{}", g->plain, &said, &why))
    fail(FAIL_INPUT, "%s: %s\nhelp: mend that file%s", model_folder_path(g->loaded.from), why.text,
         g->plain ? "" : "; --no-generation-config takes nothing of it but where texts end");
  for (int i = 0; i < said.n_warnings; i++) fprintf(stderr, "warn   %s\n", said.warnings[i]);
  return said;
}

/* Of the tokenizer, and of generation_config.json. */
static void set_ends(Generate *g, const HfGeneration *said) {
  int32_t end = tokenizer_special(g->loaded.tokenizer, TOKENIZER_EOS);
  int n = said->n_ends;
  memcpy(g->ends, said->ends, sizeof *g->ends * (size_t)n);
  if (end >= 0) g->ends[n++] = end;
  g->decode.ends = g->ends;
  g->decode.n_ends = n;
}

/* Of the settings, what the file says and what it leaves to transformers. */
typedef struct Told {
  Text said, left;
} Told;

/* The user's word, else the file's, else what that leaves to transformers (negative: nothing), else what is usual here. */
static double settle(Told *told, const char *name, double given, double said, double left, double usual) {
  if (given >= 0) return given;
  if (said < 0 && left < 0) return usual;
  Text *text = said < 0 ? &told->left : &told->said;
  double value = said < 0 ? left : said;
  text_printf(text, "%s%s %.6g", text->n ? ", " : "", name, value);
  return value;
}

static void tell_sampling(const Told *told) {
  if (told->said.n) fprintf(stderr, "sample %s, as " MODEL_GENERATION " has it\n", told->said.at);
  if (told->left.n) fprintf(stderr, "sample %s, as transformers where " MODEL_GENERATION " says nothing\n", told->left.at);
}

/* That the most likely token comes is no more so where the user asks for any sampling. */
static void set_sampling(Generate *g, const HfGeneration *said) {
  Sampling *s = &g->decode.sampling;
  Told told = {0};
  bool asked = s->temperature >= 0 || s->top_p >= 0 || s->top_k >= 0, left = said->says;
  if (said->says && !asked && !(said->draws && said->temperature)) {
    s->temperature = 0;
    text_printf(&told.said, "the most likely token%s", said->draws ? "" : " (do_sample is not true)");
  }
  s->temperature = settle(&told, "temperature", s->temperature, said->temperature, left ? HF_TEMPERATURE : -1, temperature_usual);
  if (s->temperature > 0) {
    s->top_k = (int64_t)settle(&told, "top_k", (double)s->top_k, (double)said->top_k, left ? HF_TOP_K : -1, 0);
    s->top_p = settle(&told, "top_p", s->top_p, said->top_p, left ? HF_TOP_P : -1, 1);
  }
  g->decode.repetition_penalty = settle(&told, "repetition_penalty", g->decode.repetition_penalty, said->repetition_penalty, -1, 1);
  tell_sampling(&told);
  text_close(&told.said);
  text_close(&told.left);
}

static void load(Generate *g, int nkeys, char **keys) {
  DecodeOptions *d = &g->decode;
  loaded_open(&g->loaded, g->arena, comm_self(), g->folder, nkeys, keys);
  d->name = model_folder_path(g->loaded.from);
  d->limit = model_positions(&g->loaded.model);
  d->plain = g->loaded.model.max_positions;
  d->seed = (uint64_t)(g->seed < 0 ? g->loaded.config->run.seed : g->seed);
  d->stops = g->stops.at;
  d->n_stops = g->stops.n;
  encode_all(g);
  HfGeneration said = read_settings(g);
  set_ends(g, &said);
  set_sampling(g, &said);
  decode_sizes(d, g->all, g->n, g->batch);
  EngineOptions o = loaded_options(&g->loaded);
  o.generate = true;
  o.positions = d->positions;
  o.slots = d->slots;
  o.kept = d->kept;
  loaded_start(&g->loaded, &o);
  d->dev = g->loaded.dev;
  fprintf(stderr, "model  %s, %lld positions\n", d->name, (long long)d->kept);
}

/* --- telling -------------------------------------------------------------------------------------------------------------- */

static void tell_json(const Utterance *u) {
  Text line = {0};
  text_printf(&line, "{\"prompt\": ");
  json_text_add(&line, u->prompt, u->n);
  text_printf(&line, ", \"text\": ");
  json_text_add(&line, u->text.at, u->text.n);
  text_printf(&line, ", \"end\": \"%s\", \"tokens\": %lld, \"ids\": [", decode_end_names[u->end],
              (long long)(u->ids.n - u->n_prompt));
  for (int64_t i = u->n_prompt; i < u->ids.n; i++) text_printf(&line, "%s%d", i > u->n_prompt ? ", " : "", u->ids.at[i]);
  text_printf(&line, "]}");
  puts(line.at);
  text_close(&line);
}

/* What is new and sure of the text whose turn it is. */
static void tell_text(Generate *g, Utterance *u) {
  size_t sure = decode_sure(&g->decode, u);
  if (!g->begun && g->told) putchar('\n');
  if (!g->begun) fwrite(u->prompt, 1, u->n, stdout);
  g->begun = true;
  if (sure > u->said) fwrite(u->text.at + u->said, 1, sure - u->said, stdout);
  u->said = sure;
  if (u->end != DECODE_OPEN) putchar('\n');
}

/* In the order of the prompts; the first that is not over is told as it comes. */
static void say(void *self, Utterance *u) {
  Generate *g = self;
  if (u != &g->all[g->told]) return;
  for (bool over = true; over && g->told < g->n; g->told += over) {
    u = &g->all[g->told];
    over = u->end != DECODE_OPEN;
    if (g->json && over) tell_json(u);
    if (!g->json && (over || u->text.n)) tell_text(g, u);
    if (over) g->begun = false;
  }
  if (fflush(stdout)) fail(FAIL_MACHINE, "cannot write to standard output");
}

static void tell_end(const Generate *g, const DecodeCount *count) {
  char prompts[HUMAN_TEXT], tokens[HUMAN_TEXT];
  int64_t longer = 0;
  for (int64_t i = 0; i < g->n; i++) longer += g->all[i].first > 0;
  if (longer)
    fprintf(stderr, "note   %lld text%s longer than the model's %lld positions: it saw the last %lld or more\n", (long long)longer,
            longer == 1 ? " is" : "s are", (long long)g->decode.limit, (long long)g->decode.limit / 2);
  fprintf(stderr, "speed  prompts %s tok/s, texts %s tok/s, %lld at a time\n",
          human_count(count->prompts ? (double)count->prompts / count->prompt_seconds : 0, prompts),
          human_count(count->tokens ? (double)count->tokens / count->seconds : 0, tokens), (long long)g->decode.slots);
}

int cmd_generate(int argc, char **argv) {
  Generate g = {.arena = arena_open(), .batch = BATCH, .seed = -1};
  g.decode = (DecodeOptions){
      .tokens = 256, .sampling = {.temperature = -1, .top_p = -1, .top_k = -1}, .repetition_penalty = -1}; /* nothing said */
  char **keys = arena_array(g.arena, char *, argc + 2);
  int nkeys = take_words(&g, argc, argv, keys);
  words_refuse_keys("generate", nkeys, keys, use_keys);
  load(&g, nkeys, keys);
  DecodeCount count = decode(g.loaded.engine, g.loaded.tokenizer, &g.decode, g.all, g.n, say, &g);
  tell_end(&g, &count);
  for (int64_t i = 0; i < g.n; i++) utterance_close(&g.all[i]);
  loaded_close(&g.loaded);
  comm_close(g.loaded.comm);
  arena_close(g.arena);
  return 0;
}
