/* SPDX-License-Identifier: Apache-2.0 */
/* What one key alone cannot tell: missing keys, values that follow from others, combinations that cannot be meant.  A check
 * looks only at values that were read without fault. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/config/table.h"

static const char *const *presets;

void config_set_presets(const char *const *names) { presets = names; }

const char *const *config_presets(void) { return presets; }

static const Key *K(const char *path) {
  const Key *key = key_find_path(path);
  CHECK(key);
  return key;
}

static bool given(const Config *c, const char *path) { return key_given(c, K(path)); }
static bool unset(const Config *c, const char *path) { return key_source(c, K(path)) == SOURCE_UNSET; }
static bool known(const Config *c, const char *path) { return !unset(c, path) && key_source(c, K(path)) != SOURCE_FAULTY; }
static Place place(const Config *c, const char *path) { return c->origin->place[K(path) - keys]; }
static void set_auto(Config *c, const char *path) { c->origin->source[K(path) - keys] = SOURCE_AUTO; }

void config_mark_auto(Config *c, const char *key) { set_auto(c, key); }

/* ---- derived values ---- */

static const char *stem_of(Arena *arena, const char *path) {
  const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path, *dot = strrchr(start, '.');
  return arena_strndup(arena, start, dot && dot > start ? (size_t)(dot - start) : strlen(start));
}

static void derive_int(Config *c, const char *path, int64_t *at, const char *from, int64_t value) {
  if (!unset(c, path) || !known(c, from) || value <= 0) return;
  *at = value;
  set_auto(c, path);
}

static void derive_shape(Config *c) {
  if (!known(c, "model.vocab_size")) return;
  int64_t heads = c->model.num_attention_heads;
  derive_int(c, "model.num_key_value_heads", &c->model.num_key_value_heads, "model.num_attention_heads", heads);
  bool divides = heads > 0 && known(c, "model.hidden_size") && c->model.hidden_size % heads == 0;
  derive_int(c, "model.head_dim", &c->model.head_dim, "model.num_attention_heads", divides ? c->model.hidden_size / heads : 0);
  derive_int(c, "model.max_position_embeddings", &c->model.max_position_embeddings, "train.seq_len", c->train.seq_len);
}

void check_derive(Config *c) {
  Arena *arena = c->origin->arena;
  if (unset(c, "run.name")) {
    c->run.name = c->demo ? "demo" : stem_of(arena, c->file);
    set_auto(c, "run.name");
  }
  if (unset(c, "run.folder")) {
    c->run.folder = arena_printf(arena, "runs/%s", c->run.name ? c->run.name : "run");
    set_auto(c, "run.folder");
  }
  if (c->demo && key_source(c, K("data.train")) == SOURCE_DEMO) {
    DataSet *set = arena_new(arena, DataSet);
    *set = c->data.train.at[0];
    c->demo_data = set->path.text = arena_printf(arena, "%s/%s", c->run.folder, set->path.text);
    c->data.train.at = set;
  }
  derive_shape(c);
  if (unset(c, "parallel.accumulate") && known(c, "parallel.strategy")) {
    c->parallel.accumulate = c->parallel.strategy <= STRATEGY_SHARD_OPT ? ACCUMULATE_WHOLE : ACCUMULATE_SHARD;
    set_auto(c, "parallel.accumulate");
  }
  if (unset(c, "eval.every") && (c->data.val.n || c->data.val_fraction > 0)) {
    c->eval.every = (Amount){1000, UNIT_STEPS};
    set_auto(c, "eval.every");
  }
}

/* ---- missing keys ---- */

static bool model_told(const Config *c) {
  for (int i = 0; i < nkeys; i++)
    if (!strcmp(keys[i].section, "model") && c->origin->source[i] != SOURCE_UNSET) return true;
  return false;
}

static bool shape_told(const Config *c) {
  for (int i = 0; i < nkeys; i++)
    if (keys[i].shape && c->origin->source[i] != SOURCE_UNSET && c->origin->source[i] != SOURCE_DEFAULT) return true;
  return false;
}

void check_missing(Config *c, Problems *p) {
  bool shape = shape_told(c) && unset(c, "model.preset") && unset(c, "model.config") && unset(c, "model.from");
  Text body = {0};
  int n = 0;
  char path[80];
  if (!model_told(c)) text_printf(&body, "%s   | %-26s one of preset, config, from, or a shape", n++ ? "\n" : "", "model");
  for (int i = 0; i < nkeys; i++) {
    const Key *key = &keys[i];
    if (!key->required || c->origin->source[i] != SOURCE_UNSET || (key->shape && !shape)) continue;
    text_printf(&body, "%s   | %-26s %s, such as %s", n++ ? "\n" : "", key_path(key, path), key->help, key->example);
  }
  if (n) {
    problem_add_full(
        p, (Problem){.what = arena_printf(p->arena, n == 1 ? "a required key is missing" : "%d required keys are missing", n),
                     .body = arena_strdup(p->arena, body.at),
                     .help = "these have no default; hpctrain config --new shows a whole run file"});
  }
  text_close(&body);
}

/* ---- combinations ---- */

static void tell(Config *c, Problems *p, const char *path, const char *label, const char *help, const char *what) {
  problem_add_full(p, (Problem){.place = place(c, path), .what = what, .label = label, .help = help});
}

/* The forms a model can be given in; more than one is a contradiction. */
static void check_model(Config *c, Problems *p) {
  static const char *const forms[] = {"model.preset", "model.config", "model.from"};
  const char *first = NULL, *help = NULL;
  if (c->demo) help = "the demo has a model of its own; a run file for yours: hpctrain config --new > hpctrain.yaml";
  for (int i = 0; i < 3; i++) {
    if (unset(c, forms[i])) continue;
    if (first) tell(c, p, forms[i], arena_printf(p->arena, "'%s' says it too", first), NULL, "the model is given twice");
    if (!first) first = forms[i];
  }
  char path[80];
  for (int i = 0; first && i < nkeys; i++) {
    if (!keys[i].shape || !key_given(c, &keys[i])) continue;
    tell(c, p, key_path(&keys[i], path), arena_printf(p->arena, "'%s' says it too", first), help, "the model is given twice");
    return;
  }
  if (!presets || !known(c, "model.preset")) return;
  int n = 0;
  for (; presets[n]; n++)
    if (!strcmp(presets[n], c->model.preset)) return;
  const char *nearest = config_nearest(c->model.preset, presets, n);
  Text all = {0};
  choices_print(presets, " or ", &all);
  tell(c, p, "model.preset", nearest ? arena_printf(p->arena, "did you mean '%s'?", nearest) : NULL, arena_strdup(p->arena, all.at),
       arena_printf(p->arena, "no preset is called '%.60s'", c->model.preset));
  text_close(&all);
}

static void check_shape(Config *c, Problems *p) {
  if (!known(c, "model.vocab_size") || !known(c, "model.hidden_size") || !known(c, "model.num_attention_heads")) return;
  int64_t heads = c->model.num_attention_heads;
  if (unset(c, "model.head_dim")) {
    tell(c, p, "model.num_attention_heads", arena_printf(p->arena, "hidden_size is %lld", (long long)c->model.hidden_size),
         "set model.head_dim, or a number of heads that divides hidden_size", "heads do not divide hidden_size");
  }
  if (known(c, "model.num_key_value_heads") && heads % c->model.num_key_value_heads != 0) {
    tell(c, p, "model.num_key_value_heads", arena_printf(p->arena, "num_attention_heads is %lld", (long long)heads), NULL,
         "key and value heads do not divide query heads");
  }
  if (known(c, "model.head_dim") && c->model.head_dim % 2 != 0) {
    const char *path = given(c, "model.head_dim") ? "model.head_dim" : "model.hidden_size";
    tell(c, p, path, arena_printf(p->arena, "head_dim is %lld", (long long)c->model.head_dim), NULL,
         "rotary embedding turns pairs: head_dim must be even");
  }
  if (known(c, "train.seq_len") && known(c, "model.max_position_embeddings") &&
      c->train.seq_len > c->model.max_position_embeddings) {
    tell(c, p, "train.seq_len",
         arena_printf(p->arena, "model.max_position_embeddings is %lld", (long long)c->model.max_position_embeddings), NULL,
         "sequences are longer than the model is meant for");
  }
}

/* A key that has no use beside the others: an error if it was given, or not read in another turn; else not part of the resolved
 * run. */
static void check_unused(Config *c, Problems *p, const char *path, bool used, const char *why) {
  if (used) return;
  if (given(c, path) && p->idle)
    p->idle[K(path) - keys] = p->again = true;
  else if (given(c, path))
    tell(c, p, path, why, NULL, arena_printf(p->arena, "'%s' has no use here", path));
  if (known(c, path)) c->origin->source[K(path) - keys] = SOURCE_UNSET;
}

static void check_schedule(Config *c, Problems *p) {
  if (!known(c, "train.schedule")) return;
  bool wsd = c->train.schedule == SCHEDULE_WSD;
  check_unused(c, p, "train.decay", wsd, "only schedule: wsd has a decay of its own");
  check_unused(c, p, "train.min_lr", c->train.schedule != SCHEDULE_CONSTANT, "schedule: constant stays at lr");
  if (wsd && unset(c, "train.decay")) {
    tell(c, p, "train.schedule", "needs 'train.decay'", "such as decay: 10%", "wsd without its decay");
  }
  if (known(c, "train.lr") && known(c, "train.min_lr") && c->train.min_lr > c->train.lr) {
    char lr[NUM_TEXT];
    tell(c, p, "train.min_lr", arena_printf(p->arena, "lr is %s", num_double(c->train.lr, lr)), NULL, "min_lr is above lr");
  }
}

static int stars(const char *text) {
  int n = 0;
  for (; *text; text++) n += *text == '*';
  return n;
}

/* Weights are never guessed. */
static void check_mixture(Config *c, Problems *p) {
  const DataSets *sets = &c->data.train;
  int n = 0;
  for (int i = 0; i < sets->n; i++) n += sets->at[i].weight > 0;
  for (int i = 0; i < sets->n; i++)
    if (n && sets->at[i].weight == 0)
      problem_add(p, *sets->at[i].path.place, "a weight, as others have", "'data.train' has weights for some of its items only");
  if (n > 1 && known(c, "train.duration") && c->train.duration.unit == UNIT_EPOCHS)
    tell(c, p, "train.duration", "'data.train' is a mixture", "so many steps or tokens",
         "sources of a mixture have epochs of their own");
}

bool config_is_json(const char *path) { return text_ends(path, ".jsonl") || text_ends(path, ".ndjson"); }

static bool has_json(const DataSets *sets) {
  for (int i = 0; i < sets->n; i++)
    if (config_is_json(sets->at[i].path.text)) return true;
  return false;
}

/* How conversations are written and what of them counts is never guessed; token files of them have it settled. */
static void check_chat(Config *c, Problems *p) {
  static const char *const settle[] = {"data.chat_template", "data.train_on_inputs"};
  static const char *const open[] = {"how conversations are written for the model is not said",
                                     "what counts of conversations is not said"};
  bool chat = known(c, "data.format") && c->data.format == DATA_CHAT;
  bool json = has_json(&c->data.train) || (known(c, "data.val") && has_json(&c->data.val));
  if (known(c, "data.format") && !chat && json)
    tell(c, p, has_json(&c->data.train) ? "data.train" : "data.val", NULL,
         "data.format: chat, where they are conversations; of texts hpctrain tokenize makes token files",
         "JSON lines are no token files");
  for (int i = 0; i < 2; i++) {
    check_unused(c, p, settle[i], chat && json,
                 chat ? "token files have it settled; it is for *.jsonl and *.ndjson" : "it is for data.format: chat");
    if (chat && json && unset(c, settle[i]))
      tell(c, p, "data.format", arena_printf(p->arena, "needs '%s'", settle[i]),
           i ? "train_on_inputs: false, where only answers count" : "that of the model; hpctrain tokenize --chat list names all",
           open[i]);
  }
  check_unused(c, p, "data.too_long", chat, "it is for data.format: chat");
  check_unused(c, p, "data.document_end", !chat, "conversations say themselves where they end");
  check_unused(c, p, "data.buckets", chat, "it is for data.format: chat; other rows are all of train.seq_len");
}

static void check_buckets(Config *c, Problems *p) {
  const Lengths *b = &c->data.buckets;
  if (!known(c, "data.buckets") || !known(c, "train.seq_len") || !b->n) return;
  int64_t last = b->at[b->n - 1], S = c->train.seq_len;
  if (last > S || (last < S && b->n == LENGTHS_MOST))
    tell(c, p, "data.buckets", arena_printf(p->arena, "train.seq_len is %lld", (long long)S),
         arena_printf(p->arena, "at most %d lengths, of which train.seq_len is the last", LENGTHS_MOST),
         last > S ? "a bucket is longer than all rows" : "too many buckets");
}

/* What one item of a list contradicts itself in. */
static void check_items(Config *c, Problems *p) {
  const char *labels[] = {[GROUP_LR_FACTOR] = "lr_factor", [GROUP_WEIGHT_DECAY] = "weight_decay"};
  for (int g = 0; g < c->train.groups.n; g++) {
    const Group *group = &c->train.groups.at[g];
    for (int i = GROUP_LR_FACTOR; i <= GROUP_WEIGHT_DECAY && !group->trainable; i++)
      if (group->given & 1u << i)
        problem_add(p, *group->match.at[0].place, NULL, "'%s' has no use where 'trainable' is false", labels[i]);
  }
  for (int r = 0; r < c->model.rename.n; r++) {
    const Rename *rename = &c->model.rename.at[r];
    int from = stars(rename->from.text), to = stars(rename->to.text);
    if (from != to)
      problem_add(p, *rename->to.place, arena_printf(p->arena, "'%s' has %d, this %d", rename->from.text, from, to),
                  "'from' and 'to' of a renaming need as many *");
  }
}

static void check_batch_tokens(Config *c, Problems *p) {
  if (!known(c, "train.global_batch_size") || !known(c, "train.seq_len")) return;
  Amount batch = c->train.global_batch_size;
  int64_t tokens = (int64_t)batch.value, seq_len = c->train.seq_len, below = tokens / seq_len;
  if (batch.unit != UNIT_TOKENS || tokens % seq_len == 0) return;
  const char *less =
      below ? arena_printf(p->arena, "%lld tokens (%lld sequences) or ", (long long)(below * seq_len), (long long)below) : "";
  tell(c, p, "train.global_batch_size", arena_printf(p->arena, "seq_len is %lld", (long long)seq_len),
       arena_printf(p->arena, "%s%lld tokens (%lld sequences)", less, (long long)((below + 1) * seq_len), (long long)(below + 1)),
       "global_batch_size is not whole sequences");
}

static void check_parallel(Config *c, Problems *p) {
  if (!known(c, "parallel.strategy")) return;
  Strategy strategy = (Strategy)c->parallel.strategy;
  bool whole = c->parallel.accumulate == ACCUMULATE_WHOLE, hybrid = strategy == STRATEGY_HYBRID_SHARD;
  if (strategy == STRATEGY_NO_SHARD) check_unused(c, p, "parallel.accumulate", whole, "no_shard accumulates whole gradients");
  if (strategy == STRATEGY_SHARD_OPT)
    check_unused(c, p, "parallel.accumulate", whole, "shard_opt accumulates whole gradients; in shares it is shard_grad_op");
  if (strategy == STRATEGY_SHARD_GRAD_OP)
    check_unused(c, p, "parallel.accumulate", !whole, "shard_grad_op accumulates shares; whole gradients are shard_opt");
  check_unused(c, p, "parallel.units_alive", strategy >= STRATEGY_FULL_SHARD, "this strategy gathers nothing block by block");
  check_unused(c, p, "parallel.ignore", strategy != STRATEGY_NO_SHARD, "with no_shard every rank holds all parameters whole");
  check_unused(c, p, "parallel.shard_degree", hybrid, "only hybrid_shard has groups");
  check_unused(c, p, "parallel.hybrid_optimizer", hybrid, "only hybrid_shard has groups");
}

/* The host's cores update what lies in its memory. */
static void check_optimizer(Config *c, Problems *p) {
  const int needed = OFFLOADED_MOMENTS | OFFLOADED_MASTERS | OFFLOADED_GRADIENTS;
  static const char path[] = "memory.optimizer", device[] = "memory.optimizer: device";
  if (!known(c, path) || c->memory.optimizer != OPTIMIZER_HOST) return;
  if (known(c, "memory.offload") && (c->memory.offload & needed) != needed)
    tell(c, p, path, "memory.offload lacks some of moments, masters, gradients",
         "memory.offload: [moments, masters, gradients], with precision.compute: bf16", "the host updates what lies there alone");
  if (known(c, "memory.offload_folder"))
    tell(c, p, path, "memory.offload_folder puts the moments into files", device, "the host updates what lies in its memory");
  if (known(c, "cpu.compiler") && !strcmp(c->cpu.compiler, "none"))
    tell(c, p, path, "cpu.compiler is none", "cpu.compiler: cc", "the host's part of an update is compiled");
}

static void check_offload(Config *c, Problems *p) {
  check_unused(c, p, "memory.offload_folder", !known(c, "memory.offload") || c->memory.offload & OFFLOADED_MOMENTS,
               "memory.offload: [moments] is what goes there");
  if (known(c, "memory.offload_folder") && known(c, "cpu.compiler") && !strcmp(c->cpu.compiler, "none"))
    tell(c, p, "memory.offload_folder", "the interpreter keeps all in memory", "another cpu.compiler",
         "files are for compiled programs");
  if (!known(c, "memory.offload") || !known(c, "precision.compute")) return;
  if (c->memory.offload & OFFLOADED_MASTERS && c->precision.compute != PRECISION_BF16)
    tell(c, p, "memory.offload", "only precision.compute: bf16 keeps masters beside the parameters", "leave out masters",
         "there are no masters to offload");
}

static void check_health(Config *c, Problems *p) {
  bool spikes = !known(c, "health.spike") || c->health.spike > 0;
  check_unused(c, p, "health.on_spike", spikes, "health.spike says what a spike is");
  bool compares = !known(c, "health.replicas_every") || c->health.replicas_every.unit;
  check_unused(c, p, "health.replicas", compares, "replicas are not compared (health.replicas_every)");
  bool back = (compares && c->health.replicas == REMEDY_BACK - REMEDY_STOP) || c->health.nonfinite == REMEDY_BACK ||
              (spikes && c->health.on_spike == REMEDY_BACK);
  check_unused(c, p, "health.backs", back, "nothing makes this run go back");
}

void check_combinations(Config *c, Problems *p) {
  check_model(c, p);
  check_shape(c, p);
  check_schedule(c, p);
  check_batch_tokens(c, p);
  check_offload(c, p);
  check_optimizer(c, p);
  check_items(c, p);
  if (known(c, "data.train")) check_mixture(c, p);
  if (known(c, "data.train")) check_chat(c, p);
  check_buckets(c, p);
  check_health(c, p);
  static const char *const of_files[] = {"model.rename", "model.fresh", "model.skip"};
  for (int i = 0; i < 3; i++) check_unused(c, p, of_files[i], !unset(c, "model.from"), "it is about the files of model.from");
  bool validates = !unset(c, "data.val") || !known(c, "data.val_fraction") || c->data.val_fraction > 0;
  check_parallel(c, p);
  check_unused(c, p, "data.document_end", !known(c, "data.packing") || c->data.packing,
               "only data.packing asks where documents end");
  check_unused(c, p, "data.val_fraction", unset(c, "data.val"), "'data.val' says what to evaluate on");
  check_unused(c, p, "eval.every", validates, "no validation data: give data.val or data.val_fraction");
  check_unused(c, p, "eval.tokens", validates, "no validation data: give data.val or data.val_fraction");
}

/* ---- later failures, by key ---- */

static _Noreturn void fail_at(const Config *c, Place place, const char *help, const char *what, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, what, args);
  const ConfigOrigin *o = c->origin;
  char *own = strstr(text, "\nhelp: ");
  if (own) {
    *own = 0;
    own += strlen("\nhelp: ");
    help = help ? arena_printf(o->arena, "%s; or %s", own, help) : own;
  }
  Problems p = {.arena = o->arena, .name = o->name, .text = o->text, .argv = o->argv};
  problem_add_full(&p, (Problem){.place = place, .what = text, .help = help});
  problems_end(&p);
  fail(FAIL_BUG, "config_fail came back");
}

_Noreturn void config_fail(const Config *c, const char *path, const char *help, const char *what, ...) {
  va_list args;
  va_start(args, what);
  fail_at(c, place(c, path), help, what, args);
}

_Noreturn void config_fail_at(const Config *c, const Place *place, const char *help, const char *what, ...) {
  va_list args;
  va_start(args, what);
  fail_at(c, *place, help, what, args);
}

const char *config_place(const Config *c, const Place *place) {
  Arena *arena = c->origin->arena;
  if (place->argument) return arena_printf(arena, "argument %d", place->argument);
  return arena_printf(arena, "%s:%d:%d", c->origin->name ? c->origin->name : "built-in demo", place->line, place->column);
}
