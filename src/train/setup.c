/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/model_folder.h"
#include "io/names.h"
#include "kernels/cuda/gpu.h"
#include "src/report/human.h"

const char setup_plain_run[] =
    "hpctrain: 1\nrun: {name: plain, folder: .}\ndata: {train: none.bin}\n"
    "train: {seq_len: 2, duration: 1 steps, global_batch_size: 1 sequences, lr: 1e-3, schedule: constant}\n";

static const ModelRope ropes[ROPE_KINDS] = {[ROPE_DEFAULT] = MODEL_ROPE_DEFAULT,
                                            [ROPE_LINEAR] = MODEL_ROPE_LINEAR,
                                            [ROPE_DYNAMIC] = MODEL_ROPE_DYNAMIC,
                                            [ROPE_WAVELENGTH] = MODEL_ROPE_WAVELENGTH,
                                            [ROPE_YARN] = MODEL_ROPE_YARN};

ModelConfig setup_model_from_hf(const HfConfig *hf) {
  const HfRope *r = &hf->rope;
  return (ModelConfig){
      .family = name_architecture(hf->family)->model_type,
      .vocab = hf->vocab_size,
      .hidden = hf->hidden_size,
      .intermediate = hf->intermediate_size,
      .layers = hf->num_hidden_layers,
      .heads = hf->num_attention_heads,
      .kv_heads = hf->num_key_value_heads,
      .experts = hf->num_local_experts,
      .experts_per_token = hf->num_experts_per_tok,
      .router = {hf->router_aux_loss_coef, hf->output_router_logits},
      .head_dim = hf->head_dim,
      .max_positions = hf->max_position_embeddings,
      .norm_eps = hf->rms_norm_eps,
      .init_std = hf->initializer_range,
      .tied = hf->tie_word_embeddings,
      .attention_bias = hf->attention_bias,
      .mlp_bias = hf->mlp_bias,
      .window = hf->sliding_window,
      .window_from = hf->max_window_layers,
      .dropout = {hf->embedding_dropout, hf->residual_dropout, hf->attention_dropout},
      .rope = {ropes[r->kind], r->theta, r->factor, r->low_freq_factor, r->high_freq_factor, r->original_max_position_embeddings,
               r->beta_fast, r->beta_slow, r->attention_factor, r->truncate},
  };
}

HfConfig setup_model_to_hf(const ModelConfig *m) {
  HfConfig hf = {
      .hidden_size = m->hidden,
      .intermediate_size = m->intermediate,
      .num_hidden_layers = m->layers,
      .num_attention_heads = m->heads,
      .num_key_value_heads = m->kv_heads,
      .num_local_experts = m->experts,
      .num_experts_per_tok = m->experts_per_token,
      .router_aux_loss_coef = m->router.aux_loss,
      .output_router_logits = m->router.told,
      .head_dim = m->head_dim,
      .vocab_size = m->vocab,
      .max_position_embeddings = m->max_positions,
      .sliding_window = m->window,
      .max_window_layers = m->window_from,
      .rms_norm_eps = m->norm_eps,
      .initializer_range = m->init_std,
      .embedding_dropout = m->dropout.embedding,
      .residual_dropout = m->dropout.residual,
      .attention_dropout = m->dropout.attention,
      .tie_word_embeddings = m->tied,
      .attention_bias = m->attention_bias,
      .mlp_bias = m->mlp_bias,
      .use_sliding_window = m->window > 0,
      .rope = {.theta = m->rope.theta,
               .factor = m->rope.factor,
               .original_max_position_embeddings = m->rope.original_positions,
               .low_freq_factor = m->rope.low_freq_factor,
               .high_freq_factor = m->rope.high_freq_factor,
               .beta_fast = m->rope.beta_fast,
               .beta_slow = m->rope.beta_slow,
               .attention_factor = m->rope.attention_factor,
               .truncate = m->rope.truncate},
  };
  while (strcmp(name_architecture(hf.family)->model_type, m->family)) hf.family++;
  while (ropes[hf.rope.kind] != m->rope.kind) hf.rope.kind++;
  return hf;
}

static ModelConfig from_shape(const Config *c) {
  return (ModelConfig){
      .family = name_architecture(0)->model_type,
      .vocab = c->model.vocab_size,
      .hidden = c->model.hidden_size,
      .intermediate = c->model.intermediate_size,
      .layers = c->model.num_hidden_layers,
      .heads = c->model.num_attention_heads,
      .kv_heads = c->model.num_key_value_heads,
      .head_dim = c->model.head_dim,
      .max_positions = c->model.max_position_embeddings,
      .norm_eps = c->model.rms_norm_eps,
      .init_std = c->model.initializer_range,
      .tied = c->model.tie_word_embeddings,
      .rope = {.kind = MODEL_ROPE_DEFAULT, .theta = c->model.rope_theta},
  };
}

/* Of a run's or an imported checkpoint. */
static HfConfig saved_config(Arena *arena, const char *path) {
  ModelFolder *folder = model_folder_open(path);
  Why why;
  HfConfig hf;
  const char *name = arena_printf(arena, "%s: config.json", model_folder_path(folder));
  if (!try_hf_config_parse(arena, name, model_folder_config(folder), strlen(model_folder_config(folder)), &hf, &why))
    fail(FAIL_INPUT, "%s\nhelp: use another model", why.text);
  model_folder_close(folder);
  return hf;
}

static HfConfig read_config(Arena *arena, const Config *c, const char *path) {
  HfConfig hf;
  Why why;
  char known[256], help[400];
  snprintf(help, sizeof help, "%sa Hugging Face folder%s of one of %s",
           path == c->model.from ? "the folder of a run that has saved, or " : "", path == c->model.from ? "" : " or config.json",
           name_known(known, sizeof known));
  if (!try_hf_config_read(arena, path, &hf, &why))
    config_fail(c, path == c->model.from ? "model.from" : "model.config", help, "%s", why.text);
  return hf;
}

static void check_routes(const Config *c, const ModelConfig *model) {
  if (c->device.kind == DEVICE_KIND_CUDA && model->experts_per_token > GPU_ROUTE_CHOICES)
    config_fail(c, "device.kind", "device.kind: cpu, or a model with fewer",
                "on a GPU a token goes to at most %d experts, but the model's num_experts_per_tok is %lld", GPU_ROUTE_CHOICES,
                (long long)model->experts_per_token);
}

ModelConfig setup_model(Arena *arena, const Config *c, Text *warnings) {
  ModelConfig model;
  const char *path = c->model.config ? c->model.config : c->model.from;
  if (c->model.preset) {
    CHECK(model_preset(c->model.preset, &model)); /* the name was checked with the run file */
  } else if (path) {
    HfConfig hf = path == c->model.from && model_folder_is_ckpt(path) ? saved_config(arena, path) : read_config(arena, c, path);
    for (int i = 0; i < hf.n_warnings; i++) text_printf(warnings, "%s\n", hf.warnings[i]);
    model = setup_model_from_hf(&hf);
  } else {
    model = from_shape(c);
  }
  if (c->train.seq_len > model_positions(&model))
    config_fail(c, "train.seq_len", "a shorter seq_len, or a model with a larger max_position_embeddings",
                "seq_len is %lld, the model is made for at most %lld positions", (long long)c->train.seq_len,
                (long long)model_positions(&model));
  check_routes(c, &model);
  return model;
}

static const char *const matmul_rows[] = {
    [MATMUL_AUTO] = "auto", [MATMUL_ONEDNN] = "onednn", [MATMUL_CBLAS] = "cblas", [MATMUL_OWN] = "own"};

static const char *const attentions[] = {
    [ATTENTION_AUTO] = "auto", [ATTENTION_CUDNN] = "cudnn", [ATTENTION_CUDNN_FAST] = "cudnn-fast", [ATTENTION_PLAIN] = "plain"};

static const Forget forgets[] = {[RECOMPUTE_NONE] = FORGET_NOTHING,
                                 [RECOMPUTE_CHEAP] = FORGET_CHEAP,
                                 [RECOMPUTE_BLOCK] = FORGET_BLOCKS,
                                 [RECOMPUTE_AUTO] = FORGET_NOTHING /* until fit.c has found how much */};
static const DType types[] = {[PRECISION_FP32] = DT_F32, [PRECISION_BF16] = DT_BF16, [PRECISION_FP16] = DT_F16};

static OffloadOptions offload_of(const Config *c) {
  static const struct {
    int asked, what;
  } bits[] = {{OFFLOADED_MOMENTS, OFFLOAD_MOMENTS},
              {OFFLOADED_MASTERS, OFFLOAD_MASTERS},
              {OFFLOADED_GRADIENTS, OFFLOAD_GRADIENTS},
              {OFFLOADED_INPUTS, OFFLOAD_INPUTS}};
  OffloadOptions o = {.moments = c->memory.offload_folder ? HOME_FILE : HOME_HOST};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
    if (c->memory.offload & bits[i].asked) o.what |= bits[i].what;
  return o;
}

static ModelDropout dropout_of(const Config *c, const ModelConfig *model) {
  if (c->train.attention_dropout > 0)
    config_fail(c, "train.attention_dropout", "train.attention_dropout: 0", "no attention here drops anything");
  if (model->dropout.attention > 0 && !config_given(c, "train.attention_dropout"))
    config_fail(c, c->model.config ? "model.config" : "model.from", "train.attention_dropout: 0 trains without",
                "the model's config drops %g within attention (attn_pdrop or attention_dropout), which is not built",
                model->dropout.attention);
  if (config_given(c, "train.dropout")) return (ModelDropout){c->train.dropout, c->train.dropout};
  return (ModelDropout){model->dropout.embedding, model->dropout.residual};
}

static bool has_segments(const Config *c, const ModelConfig *model) {
  if (c->data.packing && !model_takes_segments(model))
    config_fail(c, "data.packing", "data.packing: false", "the positions of %s count from the start of the sequence",
                model->family);
  return c->data.packing;
}

static ModelRouterLosses router_losses(const Config *c, const ModelConfig *model) {
  bool given = config_given(c, "train.router_aux_loss");
  double balance = given ? c->train.router_aux_loss : model->router.told ? model->router.aux_loss : 0;
  const char *key = given && balance > 0 ? "train.router_aux_loss" : c->train.router_z_loss > 0 ? "train.router_z_loss" : NULL;
  if (key && !model->experts) config_fail(c, key, "0, or a model with experts", "there is no router in this model");
  return (ModelRouterLosses){balance, c->train.router_z_loss};
}

EngineOptions setup_options(const Config *c, const ModelConfig *model, int threads) {
  check_routes(c, model);
  bool exchanges = c->device.kind == DEVICE_KIND_CUDA && c->gpu.reductions == GATHERS_COPY;
  return (EngineOptions){
      .model = *model,
      .positions = c->train.seq_len,
      .across = c->parallel.strategy == STRATEGY_SHARD_OPT || c->parallel.strategy == STRATEGY_SHARD_GRAD_OP ||
                c->parallel.hybrid_optimizer == HYBRID_SHARD,
      .adam = {c->train.beta1, c->train.beta2, c->train.eps, c->train.weight_decay},
      .clip = c->train.grad_clip,
      .z_loss = c->train.z_loss,
      .router = router_losses(c, model),
      .moments = types[c->precision.moments],
      .seed = (uint64_t)c->run.seed,
      .choices = {.forget = forgets[c->memory.recompute.choice],
                  .compute = types[c->precision.compute],
                  .reduce = types[c->precision.reduce],
                  .whole = c->parallel.accumulate == ACCUMULATE_WHOLE,
                  .offload = offload_of(c),
                  .offload_folder = c->memory.offload_folder,
                  .units_alive = (int)c->parallel.units_alive,
                  .unfused = !c->cpu.fuse,
                  .matmul = matmul_rows[c->cpu.matmul],
                  .threads = threads,
                  .cuda = c->device.kind == DEVICE_KIND_CUDA,
                  .attention = attentions[c->gpu.attention],
                  .graph = c->gpu.graph,
                  .copies = c->gpu.gathers == GATHERS_COPY,
                  .exchange = {[MESH_DP_SHARD] = exchanges, [MESH_DP_REPLICATE] = exchanges},
                  .sync = (c->run.debug & DEBUG_SYNC) != 0,
                  .tune = c->run.tune},
      .on_host = c->memory.optimizer == OPTIMIZER_HOST,
      .compare = c->health.replicas_every.unit != UNIT_NONE,
      .compiler = c->cpu.compiler,
      .interpreted = c->device.kind != DEVICE_KIND_CUDA && !strcmp(c->cpu.compiler, "none"),
  };
}

EngineOptions setup_training(const Config *c, const ModelConfig *model, const Batch *batch, int threads) {
  EngineOptions o = setup_options(c, model, threads);
  Lengths lengths = config_buckets(c);
  _Static_assert(LENGTHS_MOST == 1 + (int)ENGINE_SHORTER, "with train.seq_len");
  for (int i = 0; i + 1 < lengths.n; i++) o.shorter[i] = lengths.at[i];
  o.dropout = dropout_of(c, model);
  o.segments = has_segments(c, model);
  o.sequences = batch->micro;
  o.passes = batch->passes;
  o.nominal_tokens = (double)batch->tokens;
  o.train = true;
  return o;
}

void setup_check_profile(const Config *c, int64_t total_steps) {
  enum { MOST = 100 }; /* what is recorded stays in memory until it is written */
  Range steps = c->profile.steps;
  if (steps.last - steps.first >= MOST)
    config_fail(c, "profile.steps", "a few steps tell as much", "at most %d steps are recorded", MOST);
  if (steps.last > total_steps)
    config_fail(c, "profile.steps", "steps that the run has", "the run ends with step %lld", (long long)total_steps);
}

void setup_check_folder(const Config *c, const Comm *comm, int owners, const Members *members) {
  const char *folder = c->memory.offload_folder, *help = "a folder that is there, on every node, and that you may write to";
  struct statvfs disk;
  if (!folder) return;
  Text inside = {0};
  text_printf(&inside, "%s/.", folder); /* a file has none */
  if (access(inside.at, W_OK | X_OK) || statvfs(inside.at, &disk))
    config_fail(c, "memory.offload_folder", help, "no file can be made in %s: %s", folder, strerror(errno));
  text_close(&inside);
  double needed = members_moment_bytes(members, dtype_size(types[c->precision.moments]), owners) * comm_local_size(comm),
         left = (double)disk.f_bavail * (double)disk.f_frsize;
  char a[HUMAN_TEXT], b[HUMAN_TEXT];
  if (needed > left)
    config_fail(c, "memory.offload_folder", "a folder with more room, more ranks, or moments in memory (leave the key out)",
                "%s has no room for the moments of %d rank%s: they need %s, it has %s", folder, comm_local_size(comm),
                comm_local_size(comm) == 1 ? "" : "s", human_bytes(needed, a), human_bytes(left, b));
}

LrSchedule setup_schedule(const Config *c, int64_t epoch_sequences) {
  static const LrKind kinds[] = {
      [SCHEDULE_CONSTANT] = LR_CONSTANT, [SCHEDULE_LINEAR] = LR_LINEAR, [SCHEDULE_COSINE] = LR_COSINE, [SCHEDULE_WSD] = LR_WSD};
  int64_t total = config_total_steps(c, epoch_sequences);
  int64_t warmup = config_steps(c, c->train.warmup, epoch_sequences, total);
  int64_t decay = config_steps(c, c->train.decay, epoch_sequences, total);
  if (c->train.schedule == SCHEDULE_WSD && warmup + decay > total)
    config_fail(c, "train.decay", "a shorter decay or warmup, or a longer duration",
                "a warmup of %lld and a decay of %lld steps are more than the run's %lld", (long long)warmup, (long long)decay,
                (long long)total);
  return (LrSchedule){.kind = kinds[c->train.schedule],
                      .peak = c->train.lr,
                      .min = c->train.min_lr,
                      .warmup = warmup,
                      .decay = decay,
                      .total = total};
}

/* --- checkpoints ---------------------------------------------------------------------------------------------------------- */

static int64_t multiple_before(int64_t step, Amount every) {
  int64_t n = (int64_t)every.value;
  return every.unit ? (step - 1) / n * n : 0;
}

/* With each save there are as many as before, or one more: most at the last one. */
int64_t setup_checkpoints(const Config *c, int64_t last_step) {
  Amount every = c->checkpoint.every, good = c->checkpoint.keep_every;
  int64_t n = 0, step = every.unit ? last_step : multiple_before(last_step + 1, good);
  if (good.unit) n = last_step / (int64_t)good.value;
  for (int64_t newest = 0; newest <= c->checkpoint.keep && step > 0; newest++) { /* which are counted above if they are for good */
    n += !good.unit || step % (int64_t)good.value != 0;
    int64_t a = multiple_before(step, every), b = multiple_before(step, good);
    step = a > b ? a : b;
  }
  return n;
}

/* --- device --------------------------------------------------------------------------------------------------------------- */

/* What a rank tells the others of the GPUs it sees. */
typedef struct Sight {
  char node[64], why[192];
  int cards;
} Sight;

static Sight look(const Comm *comm) {
  DevCard cards[SEAT_CARDS];
  Sight mine = {0};
  Why why = {""};
  snprintf(mine.node, sizeof mine.node, "%s", comm ? comm_node(comm) : "");
  mine.cards = dev_try_cards(cards, SEAT_CARDS, true, &why);
  snprintf(mine.why, sizeof mine.why, "%.*s", (int)strcspn(why.text, "\n"), why.text);
  return mine;
}

/* GPUs for all ranks or for none. */
static Sight agree_on_sight(Comm *comm, Sight mine) {
  Sight *all = xmalloc(sizeof *all * (size_t)comm_size(comm));
  comm_gather(comm, &mine, sizeof mine, all);
  for (int r = 1; r < comm_size(comm); r++) {
    const Sight *with = all[0].cards > 0 ? &all[0] : &all[r], *without = all[0].cards > 0 ? &all[r] : &all[0];
    if ((all[0].cards > 0) == (all[r].cards > 0)) continue;
    fail(FAIL_MACHINE,
         "device.kind: auto, and some ranks see a GPU where others see none: rank %d (%s) sees %d, rank %d (%s): %s\n"
         "help: nodes that all have GPUs, or device.kind: cpu",
         with == all ? 0 : r, with->node, with->cards, with == all ? r : 0, without->node, without->why);
  }
  mine = all[0];
  free(all);
  return mine;
}

const char *setup_kind(Arena *arena, Config *c, Comm *comm) {
  if (c->device.kind != DEVICE_KIND_AUTO) return NULL;
  Sight sight = {.why = "cpu.compiler is none"};
  if (strcmp(c->cpu.compiler, "none")) sight = comm ? agree_on_sight(comm, look(comm)) : look(NULL);
  c->device.kind = sight.cards > 0 ? DEVICE_KIND_CUDA : DEVICE_KIND_CPU;
  config_mark_auto(c, "device.kind");
  if (sight.cards > 0) return arena_printf(arena, "cuda: %d GPU%s to be seen on a node", sight.cards, sight.cards == 1 ? "" : "s");
  return arena_printf(arena, "cpu: %s", *sight.why ? sight.why : "no GPU is to be seen");
}

/* Which of the GPUs that this rank sees it takes; *near: the NUMA node of that one. */
static int choose_card(Comm *comm, int *near) {
  int n = comm_local_size(comm), me = comm_local_rank(comm);
  DevSeat mine = {.numa = seat_numa()}, *all = xmalloc(sizeof *all * (size_t)n);
  Why why;
  mine.n = dev_try_cards(mine.cards, SEAT_CARDS, false, &why);
  if (mine.n < 0) fail(FAIL_MACHINE, "%s", why.text);
  comm_gather_local(comm, &mine, sizeof mine, all);
  int card = seats_deal(all, n, me), seen = seats_cards(all, n);
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (card < 0)
    fail(FAIL_MACHINE,
         "%d ranks on node %s, where they see %d GPU%s (CUDA_VISIBLE_DEVICES%s%s)\n"
         "help: a GPU for each rank: %d rank%s a node (mpirun --map-by ppr:%d:node, srun --ntasks-per-node=%d), or more GPUs, in "
         "Slurm --gpus-per-node=%d",
         n, comm_node(comm), seen, seen == 1 ? "" : "s", visible ? "=" : " is not set", visible ? visible : "", seen,
         seen == 1 ? "" : "s", seen, seen, n);
  *near = mine.cards[card].numa;
  free(all);
  return card;
}

/* Sequences from here on make attention's gradient keep gigabytes, if its bits are to be the same in every run: 2 bytes a pair of
 * positions and query head (kernels/gpu_rows.c). */
enum { LONG_SEQUENCE = 16384 };

/* What this run does not do yet to need less memory. */
static void advise(const Config *c, int ranks, Text *out) {
  bool full = c->parallel.strategy == STRATEGY_FULL_SHARD, apart = c->device.kind != DEVICE_KIND_CPU;
  bool squares = c->device.kind == DEVICE_KIND_CUDA && c->precision.compute != PRECISION_FP32 && c->train.seq_len >= LONG_SEQUENCE;
  const struct {
    bool open;
    const char *what;
  } rows[] = {
      {c->memory.recompute.choice < RECOMPUTE_BLOCK, "memory.recompute: block"},
      {squares && c->gpu.attention < ATTENTION_CUDNN_FAST, "gpu.attention: cudnn-fast (other bits in every run)"},
      {c->train.micro_batch_size != 1, "a smaller train.micro_batch_size"},
      {c->precision.moments == PRECISION_FP32, "precision.moments: bf16"},
      {apart && !(c->memory.offload & OFFLOADED_MOMENTS), "memory.offload: [moments]"},
      {!full && ranks > 1, "parallel.strategy: full_shard"},
      {true, full || ranks > 1 ? "more ranks" : "parallel.strategy: full_shard over more ranks"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].open) text_printf(out, "%s%s", out->n ? ", " : "", rows[i].what);
}

Dev *setup_device(const Config *c, Comm *comm, int threads, const char *fallback) {
  bool cuda = c->device.kind == DEVICE_KIND_CUDA;
  bool apart = c->device.kind == DEVICE_KIND_APART;
  if (apart && !strcmp(c->cpu.compiler, "none")) config_fail(c, "cpu.compiler", "cc", "the interpreter wants device.kind: cpu");
  if (apart && c->run.tune) config_fail(c, "run.tune", "run.tune: false, or device.kind: cpu", "products are not measured apart");
  const char *kind = cuda ? "cuda" : apart ? "apart" : "cpu";
  Text advice = {0};
  advise(c, comm_size(comm), &advice);
  DevOptions options = {.kind = kind, .compiler = c->cpu.compiler, .fallback = fallback, .threads = threads, .advice = advice.at};
  if (cuda) {
    int near;
    options.gpu = choose_card(comm, &near);
    threads = seat_stay_near(near, threads);
    if (!c->cpu.threads) options.threads = threads;
  }
  Dev *dev = dev_open(&options);
  text_close(&advice);
  return dev;
}

/* Groups of this many ranks, or of as many as a node has, where nodes have as many. */
static int shard_degree(const Config *c, const Comm *comm) {
  int ranks = comm_size(comm), least, most, degree = (int)c->parallel.shard_degree;
  char help[128];
  comm_local_sizes(comm, &least, &most);
  int common = least; /* groups of so many cross no node */
  while (most % common || least % common || ranks % common) common--;
  snprintf(help, sizeof help, "as many ranks on every node (mpirun --map-by ppr:%d:node), or parallel.shard_degree: %d", least,
           common);
  if (!degree && least != most)
    config_fail(c, "parallel.strategy", help,
                "hybrid_shard makes a group of each node's ranks, but there are nodes of %d and of %d", least, most);
  if (!degree) degree = least;
  if (ranks % degree == 0) return degree;
  int below = degree, above = degree;
  while (ranks % below) below--;
  while (above < ranks && ranks % above) above++;
  snprintf(help, sizeof help, above > ranks ? "parallel.shard_degree: %d" : "parallel.shard_degree: %d or %d", below, above);
  config_fail(c, "parallel.shard_degree", help, "%d ranks cannot be cut into groups of %d", ranks, degree);
}

Mesh *setup_mesh(const Config *c, Comm *comm) {
  static const bool whole[] = {
      [STRATEGY_NO_SHARD] = true, [STRATEGY_SHARD_OPT] = true, [STRATEGY_SHARD_GRAD_OP] = true, [STRATEGY_FULL_SHARD] = false};
  if (c->parallel.strategy == STRATEGY_HYBRID_SHARD) return mesh_data_parallel(comm, shard_degree(c, comm));
  return mesh_data_parallel(comm, whole[c->parallel.strategy] ? 1 : comm_size(comm));
}
