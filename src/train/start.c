/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line to a run that is ready: every rank reads the same run file, rank 0 makes the run folder and takes its
 * lock, all agree on file, data and plan before anything is computed, and the banner tells what is true here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/clock.h"
#include "src/base/process.h"
#include "src/base/version.h"
#include "src/dev/machine.h"
#include "src/report/environment.h"
#include "src/report/human.h"
#include "src/train/buckets.h"
#include "src/train/chat.h"
#include "src/train/run.h"

enum { AHEAD_MOST = 16 }; /* passes whose rows are made ahead, where a step has more */

/* What the start took, in seconds. */
typedef struct Times {
  double mpi, plan, load;
  JobStart job;
  Phases phases; /* all of it: of each the most of all ranks, in the end */
} Times;

bool run_speaks(const Run *run) { return comm_rank(run->comm) == 0; }

void run_spend(Run *run, Spent kind, double seconds) {
  run->spent[kind] += seconds;
  run->longest[kind] = fmax(run->longest[kind], seconds);
}

/* Before libraries add to it: MPI and HDF5 set variables of their own. */
static const char *environment_by_hand(Arena *arena) {
  Text text = {0};
  environment_brief(&text);
  const char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

/* --- what is asked for -------------------------------------------------------------------------------------------------- */

/* Seconds for which a hang is waited for until the run file has told. */
#define BEFORE_CONFIG 120.

/* Rank 0 first, so that what is wrong with the file is told once. */
static void load_config(Run *run, int argc, char **argv) {
  Config *c = NULL;
  if (run_speaks(run)) c = config_load(run->arena, argc, argv, comm_size(run->comm));
  comm_barrier(run->comm);
  if (!run_speaks(run)) c = config_load(run->arena, argc, argv, comm_size(run->comm));
  run->config = c;
  run->kind = setup_kind(run->arena, c, run->comm);
  comm_agree(run->comm, config_hash(run->config), "the resolved run file");
  Text text = {0};
  config_print(run->config, &text);
  run->config_text = arena_strdup(run->arena, text.at);
  text_close(&text);
}

static void warn_lines(Run *run, Text *text) {
  for (char *line = text->at ? strtok(text->at, "\n") : NULL; line; line = strtok(NULL, "\n"))
    if (run_speaks(run)) lines_warn(run->lines, 0, "%s", line);
  text_close(text);
}

static void load_model(Run *run) {
  const Config *c = run->config;
  Text warnings = {0};
  run->model = setup_model(run->arena, c, &warnings);
  warn_lines(run, &warnings);
  run->model_text = states_model_text(run->arena, &run->model);
  run->members = members_of_model(run->arena, c, &run->model);
  run->batch = config_check_batch(c, mesh_dp_size(run->mesh));
}

/* --- run folder and data ------------------------------------------------------------------------------------------------ */

static void open_folder(Run *run) {
  RunFolder *folder = run->folder = runfolder_paths(run->arena, run->config->run.folder);
  if (run_speaks(run)) {
    runfolder_make(folder);
    run->lock = lock_acquire(folder->path);
    ckpt_clear(folder->checkpoints); /* its room is counted on */
  }
  comm_barrier(run->comm);
  run_check_shared(run);
  comm_set_error_file(run->comm, folder->error);
  lines_log(run->lines, run_speaks(run) ? folder->log : runfolder_rank_log(folder, run->arena, comm_rank(run->comm)));
}

static void write_demo(const char *path) {
  TokensWriter *writer = tokens_writer_open(path, 2);
  for (const char *at = demo_text; *at; at++) tokens_writer_add(writer, &(int32_t){(unsigned char)*at}, 1);
  tokens_writer_close(writer);
}

static void open_data(Run *run) {
  const Config *c = run->config;
  if (c->demo_data && run_speaks(run)) write_demo(c->demo_data);
  comm_barrier(run->comm);
  const ChatFiles *made = chat_files(run->arena, c, run->comm, run->model.vocab);
  run->data = data_open(run->arena, c, made, run->model.vocab);
  comm_agree(run->comm, data_hash(run->data), "the data files, by their sizes or what they were made of");
  if (run_speaks(run)) {
    Text files = {0};
    data_list(run->data, &files);
    run->data_files = arena_strdup(run->arena, files.at);
    text_close(&files);
  }
  Text warnings = {0};
  if (run_speaks(run)) run->tokenizer = data_tokenizer(run->data, c, run->model.vocab, &warnings);
  warn_lines(run, &warnings);
  int64_t end = run->tokenizer ? tokenizer_special(run->tokenizer, TOKENIZER_EOS) : -1;
  comm_broadcast(run->comm, &end, sizeof end, 0);
  data_set_end(run->data, c, run->model.vocab, end);
  int64_t epoch = data_epoch_sequences(run->data);
  run->schedule = setup_schedule(c, epoch);
  if (run_speaks(run) && run->schedule.warmup > run->schedule.total)
    lines_warn(run->lines, 0, "train.warmup is %lld steps and the run %lld: its rate never comes to train.lr",
               (long long)run->schedule.warmup, (long long)run->schedule.total);
  int64_t total = run->schedule.total, stop = c->train.stop_after.unit ? config_steps(c, c->train.stop_after, epoch, total) : total;
  run->shape = (RunShape){.total_steps = total,
                          .last_step = stop < 1       ? 1
                                       : stop < total ? stop
                                                      : total,
                          .save_every = (int64_t)c->checkpoint.every.value,
                          .every = (int64_t)c->log.every.value};
}

/* --- engine --------------------------------------------------------------------------------------------------------------- */

/* What a run's engine is asked for; refuses what cannot be had. */
static EngineOptions settle(Run *run) {
  const Config *c = run->config;
  int threads = c->cpu.threads ? (int)c->cpu.threads : comm_core_share(run->comm);
  run->dev = setup_device(c, run->comm, threads, run->folder->path);
  DevCard card;
  const Machine *machine = dev_card(run->dev, &card) ? machine_of_card(card.name) : NULL;
  if (machine && c->precision.compute == PRECISION_BF16) run->shape.speed.peak = machine->narrow;
  EngineOptions o = setup_training(c, &run->model, &run->batch, threads);
  o.eval = data_vals(run->data) > 0;
  o.traits = run->members->traits;
  const char *tuned = run->ckpt ? ckpt_text(run->ckpt, run->arena, "choices") : NULL;
  if (tuned && *tuned) o.choices.tuned = tuned;
  int owners = mesh_extent(run->mesh, MESH_DP_SHARD) * (o.across ? mesh_extent(run->mesh, MESH_DP_REPLICATE) : 1);
  setup_check_folder(c, run->comm, owners, run->members);
  run->fit = fit_settle(run->arena, c, run->comm, run->mesh, &o, &(FitPlace){.dev = run->dev});
  return o;
}

static void open_engine(Run *run, EngineOptions *o) {
  o->watch = stages_watch(run);
  run->engine = engine_open(run->arena, run->dev, run->comm, run->mesh, o);
  comm_agree(run->comm, engine_hash(run->engine), "the compiled programs");
  stages_memory(run);
  if (run->config->run.debug & DEBUG_DETERMINISM) run->twice = twice_open(run->arena, run->engine, run->comm);
  run->ids = arena_array(run->arena, int32_t, run->batch.micro_tokens);
  run->labels = arena_array(run->arena, int32_t, run->batch.micro_tokens);
  if (o->segments) run->starts = arena_array(run->arena, int32_t, run->batch.micro_tokens);
  int64_t passes = run->batch.passes, stride = mesh_dp_size(run->mesh) * run->batch.micro;
  run->prefetch =
      prefetch_open(run->arena, run->data, run->config, run->batch.micro, stride, passes < AHEAD_MOST ? (int)passes : AHEAD_MOST);
}

static void warn_device(Run *run) {
  if (!run_speaks(run)) return;
  if (dev_cache_note(run->dev)) lines_warn(run->lines, 0, "compiled kernels are not kept: %s", dev_cache_note(run->dev));
  for (int i = 0; kernels_note(i); i++) lines_warn(run->lines, 0, "%s", kernels_note(i));
  Text notes = {0};
  text_printf(&notes, "%s", job_notes(engine_job(run->engine)));
  warn_lines(run, &notes);
}

/* --- banner --------------------------------------------------------------------------------------------------------------- */

/* "42.9 G" of 4.29e10: a number and the prefix of the unit that follows. */
static const char *with_prefix(double value, char out[HUMAN_TEXT]) {
  human_rate(value, out);
  size_t n = strcspn(out, "kMGTPE");
  if (!out[n]) return strcat(out, " ");
  memmove(out + n + 1, out + n, strlen(out + n) + 1);
  out[n] = ' ';
  return out;
}

static const char *model_name(const Config *c, const ModelConfig *model) {
  const char *names[] = {c->model.preset, c->model.config, c->model.from, model->family};
  int i = 0;
  while (!names[i]) i++;
  return names[i];
}

static void banner_start(Run *run) {
  char utc[32];
  const char *job = getenv("SLURM_JOB_ID"), *notes = demo_notes;
  Lines *l = run->lines;
  for (size_t n; run->config->demo && *notes; notes += n + 1) {
    n = strcspn(notes, "\n");
    lines_note(l, "%.*s", (int)n - 6, notes + 6); /* without "note  " */
  }
  lines_banner(l, "hpctrain", "%s  %s%s%sattempt %d  %s  %s", version_text, job ? "job " : "", job ? job : "", job ? ", " : "",
               run->folder->attempt, clock_utc(utc), run->folder->path);
  lines_banner(l, "mpi", "%s", comm_describe(run->comm));
  if (run->kind) lines_note(l, "device.kind: auto is %s", run->kind);
  if (run->config->precision.reduce != PRECISION_FP32 && comm_size(run->comm) == 1)
    lines_note(l, "precision.reduce: one rank has nobody to reduce with");
}

static void banner_members(Run *run) {
  Text lines = {0};
  members_print(run->members, run->config, &lines);
  for (char *line = strtok(lines.at, "\n"); line; line = strtok(NULL, "\n")) {
    size_t n = strcspn(line, " ");
    line[n] = 0;
    lines_banner(run->lines, line, "%s", line + n + 1);
  }
  text_close(&lines);
  for (int i = 0; i < run->members->warnings.n; i++) lines_warn(run->lines, 0, "%s", run->members->warnings.at[i]);
}

static void banner_plan(Run *run) {
  const Config *c = run->config;
  const Batch *b = &run->batch;
  char a[HUMAN_TEXT], f[HUMAN_TEXT];
  Lines *l = run->lines;
  Text text = {0};
  int64_t table, threads = dev_threads(run->dev);
  double peak = run->shape.speed.peak;
  lines_banner(l, "device", "%s; %lld thread%s a rank%s%s%s", dev_describe(run->dev), (long long)threads, threads == 1 ? "" : "s",
               peak > 0 ? "; peak " : "", peak > 0 ? with_prefix(peak, f) : "", peak > 0 ? "FLOP/s in bf16" : "");
  if (*run->environment) lines_banner(l, "env", "%s", run->environment);
  lines_banner(l, "model", "%s %s parameters, %sFLOP/token", model_name(c, &run->model),
               human_count((double)model_parameters(&run->model, &table), a), with_prefix(run->shape.speed.per_token.causal, f));
  banner_members(run);
  lines_banner(l, "batch", "%lld x %lld = %s tokens = %d rank%s x %lld x %lld pass%s; %lld steps", (long long)b->sequences,
               (long long)c->train.seq_len, human_count((double)b->tokens, a), mesh_dp_size(run->mesh),
               mesh_dp_size(run->mesh) == 1 ? "" : "s", (long long)b->micro, (long long)b->passes, b->passes == 1 ? "" : "es",
               (long long)run->shape.total_steps);
  data_first(run->data, run->tokenizer, &text);
  lines_banner(l, "data", "%s tokens, %.2f epochs; first: %s", human_count((double)data_tokens(run->data), a),
               (double)run->shape.total_steps * (double)b->sequences / (double)data_epoch_sequences(run->data), text.at);
  text_close(&text);
  data_sources(run->data, run->shape.total_steps, b->sequences, &text);
  data_marks(run->data, &text);
  buckets_tell(run->data, c, run->shape.last_step, b->micro * mesh_dp_size(run->mesh), &text);
  for (char *line = text.n ? strtok(text.at, "\n") : NULL; line; line = strtok(NULL, "\n")) lines_banner(l, "data", "%s", line);
  text_close(&text);
  JobMemory m = job_memory(engine_job(run->engine));
  double gib = 1 << 30;
  char host[64] = "";
  if (m.host) snprintf(host, sizeof host, ", in the host's memory %.3g", (double)m.host / gib);
  lines_banner(l, "memory", "%.3g GiB a rank planned: parameters and states %.3g, gradients %.3g, activations %.3g%s",
               run_planned(run), (double)m.states / gib, (double)m.carried / gib, (double)m.transient / gib, host);
  if (config_has_buckets(c) && b->passes == 1)
    lines_note(l, "data.buckets: all rows of a step are one pass, as long as its longest; a %s makes several of it",
               b->micro > 1 ? "smaller train.micro_batch_size" : "larger train.global_batch_size");
  if (run->fit) lines_note(l, "memory.recompute: auto is %s", run->fit);
}

static void banner_ready(Run *run, const Times *t) {
  run->spent[SPENT_START] = clock_since_exec();
  char kernels[64];
  snprintf(kernels, sizeof kernels, "%d, %s", t->job.kernels, t->job.cached ? "cached" : "compiled");
  lines_banner(run->lines, "ready", "%.2f s: mpi %.2f, plan %.2f, kernels %.2f (%s), load %.2f%s", run->spent[SPENT_START], t->mpi,
               t->plan, t->job.seconds, t->job.kernels ? kernels : "interpreter", t->load,
               t->job.copies ? "; gathers by copy engines" : "");
  if (getenv("OMPI_COMM_WORLD_RANK"))
    lines_banner(run->lines, "stop", "touch %s/STOP, or kill -USR1 mpirun: after Ctrl-C it gives its ranks a second",
                 run->folder->path);
  else if (getenv("SLURM_STEP_ID"))
    lines_banner(run->lines, "stop", "touch %s/STOP, or scancel -s USR1; Ctrl-C if srun has -X: else the second one kills",
                 run->folder->path);
  limit_tell(run);
  runfolder_banner(run->folder, lines_banner_text(run->lines));
}

static void tell_start(Run *run, const Times *t) {
  if (run->step >= run->shape.last_step) return; /* nothing is left to do */
  DevMemory memory = dev_memory(run->dev);
  metrics_start(run->metrics, &(StartEvent){.step = run->step,
                                            .attempt = run->folder->attempt,
                                            .ranks = comm_size(run->comm),
                                            .kernels = t->job.kernels,
                                            .cached = t->job.cached,
                                            .seconds = run->spent[SPENT_START],
                                            .mpi = t->mpi,
                                            .plan = t->plan,
                                            .kernel = t->job.seconds,
                                            .load = t->load,
                                            .phases = &t->phases,
                                            .memory_gib = run_planned(run),
                                            .allocated_gib = (double)dev_allocated(run->dev) / (1 << 30),
                                            .beside_gib = run->memory_beside,
                                            .free_gib = (double)memory.available / (1 << 30)});
}

/* --- all of it -------------------------------------------------------------------------------------------------------------- */

/* Of ranks that wait for one another the slowest in a phase is the one that the others miss later. */
static void slowest_phases(Run *run, Phases *phases) {
  int64_t ns[PHASES_MOST];
  for (int i = 0; i < phases->n; i++) ns[i] = (int64_t)(1e9 * phases->at[i].seconds);
  comm_most(run->comm, ns, phases->n);
  for (int i = 0; i < phases->n; i++) phases->at[i].seconds = 1e-9 * (double)ns[i];
}

/* An attempt is one once nothing more can be refused: what a refused one asked for leaves the run's files as they are. */
static void begin_attempt(Run *run) {
  if (!run_speaks(run)) return;
  runfolder_begin(run->folder, run->arena, run->config_text);
  limit_open(run);
  banner_start(run);
}

Run *run_open(int argc, char **argv) {
  Arena *arena = arena_open();
  Run *run = arena_new(arena, Run);
  Times times = {.phases = phases_begin()};
  Phases *phases = &times.phases;
  phases->since -= clock_since_exec();
  phase_end(phases, "exec");
  *run = (Run){.arena = arena, .saved_step = -1, .compared_step = -1, .loss = NAN, .eval_loss = NAN, .back_to = -1};
  wishes_open();
  run->history = history_open(arena);
  run->environment = environment_by_hand(arena);
  run->comm = comm_boot(&argc, &argv);
  run->memory_before = process_peak();
  comm_watch(run->comm, BEFORE_CONFIG);
  comm_doing(run->comm, false, "reading the run file");
  times.mpi = phase_end(phases, "mpi");
  run->lines = lines_open(comm_rank(run->comm));
  load_config(run, argc, argv);
  comm_watch(run->comm, run->config->health.timeout.unit ? run->config->health.timeout.value : 0);
  comm_doing(run->comm, true, "starting");
  run->mesh = setup_mesh(run->config, run->comm);
  load_model(run);
  open_folder(run);
  run_find(run); /* before anything is made of data that this run's keys do not suit */
  open_data(run);
  run->lengths = config_buckets(run->config);
  for (int i = 0; i < run->lengths.n; i++) run->flops[i] = members_flops(run->members, &run->model, run->lengths.at[i]);
  run->shape.speed = (Speed){.per_token = run->flops[run->lengths.n - 1], .devices = comm_size(run->comm)};
  run_take(run);
  run_check_export(run);
  times.load = phase_end(phases, "folder and data");
  EngineOptions options = settle(run);
  run_check_room(run);
  comm_barrier(run->comm); /* nobody has refused anything */
  begin_attempt(run);
  comm_barrier(run->comm);
  times.plan = phase_end(phases, "device");
  comm_device_open(run->mesh, run->dev); /* communicators connect while programs are made */
  times.plan += phase_end(phases, "seats");
  open_engine(run, &options);
  times.plan += phase_end(phases, "programs");
  if (run_speaks(run)) banner_plan(run);
  times.job = engine_start(run->engine);
  phases_add(phases, &times.job.phases);
  stages_choices(run);
  warn_device(run);
  phase_end(phases, "notes");
  run_load(run);
  run_profile_open(run);
  run_pace_open(run);
  run_save_open(run);
  times.load += phase_end(phases, "states");
  slowest_phases(run, phases);
  if (!run_speaks(run)) return run;
  run_memory_tell(run);
  run->metrics = metrics_open(run->folder->path, run->step, run->folder->cut);
  banner_ready(run, &times);
  tell_start(run, &times);
  return run;
}

void run_close(Run *run) {
  run_save_close(run);
  metrics_close(run->metrics);
  engine_close(run->engine);
  prof_close(run->prof);
  dev_close(run->dev);
  tokenizer_close(run->tokenizer);
  prefetch_close(run->prefetch);
  data_close(run->data);
  lines_close(run->lines);
  comm_barrier(run->comm); /* whoever takes the lock next finds nobody writing */
  lock_release(run->lock);
  mesh_close(run->mesh);
  comm_close(run->comm);
  arena_close(run->arena);
}
