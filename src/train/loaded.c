/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/loaded.h"

#include <stdio.h>
#include <string.h>

#include "src/train/data.h"
#include "src/train/states.h"
#include "src/train/weights.h"

static void warn(const Loaded *l, Text *warnings) {
  for (char *line = warnings->n ? strtok(warnings->at, "\n") : NULL; line; line = strtok(NULL, "\n"))
    if (comm_rank(l->comm) == 0) fprintf(stderr, "warn   %s\n", line);
  text_close(warnings);
}

/* The folder that is meant by path: of a run, its newest step that is not damaged. */
static const char *find_folder(const Loaded *l, const char *path) {
  if (!model_folder_is_ckpt(path)) return path;
  Text warnings = {0};
  Ckpt *ckpt = ckpt_find_newest(l->comm, path, &warnings);
  warn(l, &warnings);
  if (!ckpt)
    fail(FAIL_INPUT, "%s: no checkpoint there\nhelp: give the folder of a run that has saved, or one of its step folders", path);
  const char *folder = arena_strdup(l->arena, ckpt_folder(ckpt));
  ckpt_close(ckpt);
  return folder;
}

/* Where it was trained does not bind it. */
static const Config *read_config(const Loaded *l, int n, char **words) {
  const Ckpt *ckpt = model_folder_ckpt(l->from);
  const char *folder = model_folder_path(l->from), *text = ckpt ? ckpt_text(ckpt, l->arena, "config") : NULL;
  bool asked = false;
  for (int i = 1; i < n; i++) asked |= !strncmp(words[i], "device.kind=", strlen("device.kind="));
  if (!asked) words[n++] = "device.kind=auto";
  if (!text) words[n++] = (char *)arena_printf(l->arena, "model.from=%s", folder);
  Config *c = config_parse(l->arena, text ? arena_printf(l->arena, "%s: /run/config", folder) : folder,
                           text ? text : setup_plain_run, n, words);
  c->parallel.strategy = STRATEGY_FULL_SHARD; /* on any number of ranks, whatever groups it was trained in */
  setup_kind(l->arena, c, l->comm);
  return c;
}

static ModelConfig read_model(const Loaded *l) {
  const Ckpt *ckpt = model_folder_ckpt(l->from);
  if (ckpt && ckpt_text(ckpt, l->arena, "model")) return states_model(l->arena, ckpt);
  const char *name = arena_printf(l->arena, "%s: " MODEL_CONFIG, model_folder_path(l->from)), *text = model_folder_config(l->from);
  HfConfig hf;
  Why why;
  if (!try_hf_config_parse(l->arena, name, text, strlen(text), &hf, &why))
    fail(FAIL_INPUT, "%s\nhelp: use another model", why.text);
  Text warnings = {0};
  for (int i = 0; i < hf.n_warnings; i++) text_printf(&warnings, "%s\n", hf.warnings[i]);
  warn(l, &warnings);
  return setup_model_from_hf(&hf);
}

/* Tokens that were added to a tokenizer alone (padding, often) are no reason to do without it. */
static void warn_of_more(const Loaded *l) {
  Text warnings = {0};
  if (!l->tokenizer || tokenizer_vocab(l->tokenizer) <= l->model.vocab) return;
  text_printf(&warnings, "%s has %lld ids, but the model's vocabulary %lld: a text with those beyond it is refused\n",
              tokenizer_path(l->tokenizer), (long long)tokenizer_vocab(l->tokenizer), (long long)l->model.vocab);
  warn(l, &warnings);
}

/* What a checkpoint took along from the folder that its run began from. */
static Tokenizer *paper_tokenizer(const Loaded *l) {
  static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
  int n;
  const CkptText *papers = model_folder_papers(l->from, &n);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    for (int i = 0; i < n; i++) {
      Tokenizer *t = NULL;
      Why why;
      if (strcmp(papers[i].name + strlen(MODEL_PAPERS), names[k])) continue;
      const char *path = arena_printf(l->arena, "%s/%s", model_folder_path(l->from), names[k]);
      if (!try_tokenizer_parse(path, papers[i].text, papers[i].n, NULL, &t, &why)) fail(FAIL_INPUT, "%s", why.text);
      return t;
    }
  return NULL;
}

void loaded_open(Loaded *l, Arena *arena, Comm *comm, const char *path, int n, char **words) {
  *l = (Loaded){.arena = arena, .comm = comm};
  l->from = model_folder_open(find_folder(l, path));
  l->config = read_config(l, n, words);
  l->model = read_model(l);
  Text warnings = {0};
  l->tokenizer = data_open_tokenizer(l->config, INT64_MAX, &warnings);
  warn(l, &warnings);
  if (!l->tokenizer && !strcmp(l->config->data.tokenizer, "auto")) l->tokenizer = paper_tokenizer(l);
  warn_of_more(l);
  l->threads = l->config->cpu.threads ? (int)l->config->cpu.threads : comm_core_share(comm);
}

const Tokenizer *loaded_tokenizer(const Loaded *l, const char *who) {
  if (!l->tokenizer)
    config_fail(l->config, "data.tokenizer", "data.tokenizer=PATH, or data.tokenizer=bytes if it was trained on bytes",
                "%s wants text, and no tokenizer is known of %s", who, model_folder_path(l->from));
  return l->tokenizer;
}

int32_t loaded_special(const Loaded *l, TokenizerRole role) {
  int32_t id = tokenizer_special(l->tokenizer, role);
  return id < l->model.vocab ? id : -1;
}

void loaded_check_ids(const Loaded *l, const char *place, const int32_t *ids, int64_t n) {
  size_t length;
  int64_t i = 0;
  while (i < n && ids[i] < l->model.vocab) i++;
  if (i == n) return;
  const char *piece = tokenizer_piece(l->tokenizer, ids[i], &length);
  fail(FAIL_INPUT, "%s: the token \"%.*s\" is number %d, but the model's vocabulary ends at %lld\nhelp: a text without it", place,
       (int)(length < 80 ? length : 80), piece, ids[i], (long long)l->model.vocab);
}

EngineOptions loaded_options(const Loaded *l) {
  EngineOptions o = setup_options(l->config, &l->model, l->threads);
  o.sequences = 1;
  o.choices.forget = FORGET_NOTHING; /* there is no backward pass, and nothing to offload but weights */
  o.choices.offload.what = 0;
  o.on_host = o.compare = false;
  return o;
}

void loaded_start(Loaded *l, const EngineOptions *options) {
  l->mesh = setup_mesh(l->config, l->comm);
  l->dev = setup_device(l->config, l->comm, l->threads, NULL);
  l->engine = engine_open(l->arena, l->dev, l->comm, l->mesh, options);
  engine_start(l->engine);
  weights_load(weights_open(l->arena, l->from, NULL, members_named(l->arena, &l->model)), l->engine, l->dev, l->comm);
}

void loaded_close(Loaded *l) {
  engine_close(l->engine);
  dev_close(l->dev);
  mesh_close(l->mesh);
  tokenizer_close(l->tokenizer);
  model_folder_close(l->from);
}
