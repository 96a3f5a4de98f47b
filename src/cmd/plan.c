/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain plan: what a run on N ranks will be and need, by compiling its programs and running none of them.  All that can be
 * known before a job starts is checked: run file, batch, weights, data files, disk.  The data come last, so that the rest is
 * told even before they are there. */
#include "src/cmd/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "io/disk.h"
#include "src/cmd/cmd.h"
#include "src/report/human.h"
#include "src/train/buckets.h"
#include "src/train/chat.h"
#include "src/train/data.h"
#include "src/train/weights.h"

/* --- data and disk ---------------------------------------------------------------------------------------------------------- */

/* Of the file system on which path will be made; negative: unknown. */
static double disk_free(const char *path) {
  char folder[PATH_MAX];
  struct statvfs fs;
  disk_folder(path, folder, sizeof folder);
  return statvfs(folder, &fs) ? -1 : (double)fs.f_bavail * (double)fs.f_frsize;
}

static void check_disk(const Prospect *p, int64_t steps) {
  const Config *c = p->config;
  char one[HUMAN_TEXT], all[HUMAN_TEXT], room[HUMAN_TEXT];
  int64_t n = setup_checkpoints(c, steps);
  double nbytes = members_saved_bytes(p->members), most = nbytes * (double)n, left = disk_free(c->run.folder);
  if (!n) {
    printf("disk   checkpoint %s; none is written but when asked for\n", human_bytes(nbytes, one));
    return;
  }
  printf("disk   checkpoint %s; up to %" PRId64 " at a time %s; %s free for %s\n", human_bytes(nbytes, one), n,
         human_bytes(most, all), human_bytes(left, room), c->run.folder);
  if (left < 0 || left >= most) return;
  bool fewer = left >= 2 * nbytes; /* the newest stays until the next is written */
  printf("       %s short: another run.folder%s%s\n", human_bytes(most - left, room), fewer ? ", a lower checkpoint.keep" : "",
         fewer && c->checkpoint.keep_every.unit ? " or a higher checkpoint.keep_every" : "");
}

/* The folder may be there on the nodes alone, so that it is no error here. */
static void check_offload_folder(const Prospect *p) {
  const char *folder = p->config->memory.offload_folder;
  char needed[HUMAN_TEXT], room[HUMAN_TEXT];
  struct statvfs fs;
  if (!folder) return;
  double nbytes = p->files * p->site.per_node;
  printf("disk   offloaded moments of a node %s; ", human_bytes(nbytes, needed));
  if (statvfs(arena_printf(p->arena, "%s/.", folder), &fs)) { /* a file has none */
    printf("here %s is no folder (%s): every node must have it\n", folder, strerror(errno));
    return;
  }
  double left = (double)fs.f_bavail * (double)fs.f_frsize;
  printf("%s free for %s\n", human_bytes(left, room), folder);
  if (left < nbytes)
    printf("       %s short, if nodes have no more: another memory.offload_folder, or more ranks\n",
           human_bytes(nbytes - left, room));
}

/* Opens the files as a run would: what is wrong with them ends this, when all else has been told. */
static void check_data(const Prospect *p) {
  const Config *c = p->config;
  char text[HUMAN_TEXT];
  if (c->demo) {
    printf("data   the demo's own, %s bytes; %" PRId64 " steps\n", human_count((double)strlen(demo_text), text),
           config_total_steps(c, 1));
    return;
  }
  Comm *alone = comm_self();
  const ChatFiles *made = chat_files_aside(p->arena, c, alone, p->model.vocab);
  Data *data = data_open(p->arena, c, made, p->model.vocab);
  chat_files_drop(alone);
  comm_close(alone);
  Text warnings = {0};
  Tokenizer *t = data_tokenizer(data, c, p->model.vocab, &warnings);
  if (warnings.n) fprintf(stderr, "warn   %s", warnings.at);
  data_set_end(data, c, p->model.vocab, t ? tokenizer_special(t, TOKENIZER_EOS) : -1);
  text_close(&warnings);
  int64_t epoch = data_epoch_sequences(data), steps = setup_schedule(c, epoch).total;
  setup_check_profile(c, steps);
  double epochs = (double)steps * (double)p->batch.sequences / (double)epoch;
  printf("data   %s tokens; %" PRId64 " steps, ", human_count((double)data_tokens(data), text), steps);
  if (epochs < 1000)
    printf("%.3g epochs\n", epochs);
  else
    printf("%s epochs\n", human_count(epochs, text));
  Text sources = {0};
  data_sources(data, steps, p->batch.sequences, &sources);
  data_marks(data, &sources);
  buckets_tell(data, c, steps, p->batch.micro * p->site.ranks, &sources);
  for (char *line = sources.n ? strtok(sources.at, "\n") : NULL; line; line = strtok(NULL, "\n")) printf("       %s\n", line);
  text_close(&sources);
  for (int i = 0; i < data_vals(data); i++)
    printf("       %s %s tokens to evaluate on\n", data_val_name(data, i),
           human_count((double)(data_val_sequences(data, i) * c->train.seq_len), text));
  if (c->train.duration.unit == UNIT_EPOCHS) {
    plan_print_run(p, steps);
    check_disk(p, steps);
  }
  if (t) printf("       %s, %" PRId64 " ids of the model's %" PRId64 "\n", tokenizer_path(t), tokenizer_vocab(t), p->model.vocab);
  tokenizer_close(t);
  data_close(data);
}

static void check_weights(const Prospect *p) {
  if (!p->config->model.from) return;
  ModelFolder *from = model_folder_open(p->config->model.from);
  Weights *weights = weights_open(p->arena, from, p->config, p->members);
  printf("loads  %s\n", weights_told(weights));
  model_folder_close(from);
}

/* --- words ------------------------------------------------------------------------------------------------------------------- */

enum { NODE_GPUS = 8 }; /* where nobody says how many */

/* Ranks of a node: as was said, or on GPUs as many as suit; on CPUs all. */
static int per_node(const PlanWords *w, bool gpus) {
  if (w->per_node) return w->per_node < w->ranks ? w->per_node : w->ranks;
  int n = w->ranks < NODE_GPUS || !gpus ? w->ranks : NODE_GPUS;
  while (w->ranks % n) n--;
  return n;
}

/* Adds device.kind to the words where --gpu says it. */
static void take_gpu(Arena *arena, PlanWords *w, const char *name) {
  if (!name) return;
  bool cpu = !strcmp(name, "cpu");
  if (!cpu && !(w->machine = machine_find(name))) {
    Text all = {0};
    for (int i = 0; i < nmachines; i++) text_printf(&all, "%s, ", machines[i].name);
    fail(FAIL_INPUT, "--gpu: no GPU is known by the name '%.40s'\nhelp: %scpu", name, all.at);
  }
  char **argv = arena_array(arena, char *, w->argc + 2);
  int n = 0;
  for (int i = 0; i < w->argc; i++)
    if (!strncmp(w->argv[i], "device.kind=", 12))
      fail(FAIL_INPUT, "--gpu %s and %s\nhelp: one of them: --gpu sets device.kind", name, w->argv[i]);
    else
      argv[n++] = w->argv[i];
  argv[n++] = cpu ? "device.kind=cpu" : "device.kind=cuda";
  w->argc = n;
  w->argv = argv;
}

static PlanWords take_words(Arena *arena, int argc, char **argv, bool *sweep, const char **snapshot) {
  PlanWords w = {0};
  *snapshot = words_take(&argc, argv, "--memory-snapshot");
  if (*snapshot && !**snapshot) fail(FAIL_INPUT, "--memory-snapshot wants the name of a file to write");
  const char *gpu = words_take(&argc, argv, "--gpu");
  w.ranks = words_take_ranks(&argc, argv);
  w.per_node = words_take_number(&argc, argv, "--gpus-per-node", 0);
  *sweep = words_take_flag(&argc, argv, "--sweep");
  w.argc = argc;
  w.argv = argv;
  take_gpu(arena, &w, gpu);
  if (w.per_node && w.ranks > w.per_node && w.ranks % w.per_node)
    fail(FAIL_INPUT, "%d ranks are no whole number of nodes with %d GPUs\nhelp: --ranks %d or %d, or another --gpus-per-node",
         w.ranks, w.per_node, w.ranks / w.per_node * w.per_node, (w.ranks / w.per_node + 1) * w.per_node);
  return w;
}

/* --- the command -------------------------------------------------------------------------------------------------------------- */

Config *plan_config(Arena *arena, const PlanWords *w, const char **kind) {
  Config *c = config_load(arena, w->argc, w->argv, w->ranks);
  const char *chosen = setup_kind(arena, c, NULL);
  if (kind) *kind = chosen;
  return c;
}

Config *plan_config_usable(Arena *arena, const PlanWords *w, const char **left_out) {
  Config *c = config_load_usable(arena, w->argc, w->argv, w->ranks, left_out);
  setup_kind(arena, c, NULL);
  return c;
}

Prospect *plan_prospect(Arena *arena, const Config *c, const PlanWords *w, Text *warnings) {
  ProspectSite site = {
      .ranks = w->ranks, .per_node = per_node(w, c->device.kind == DEVICE_KIND_CUDA), .machine = w->machine, .allowed = w->allowed};
  return prospect_open(arena, c, &site, warnings);
}

/* The GPUs of this node, where nobody named others. */
static const Machine *machine_here(const Config *c) {
  DevCard cards[SEAT_CARDS];
  if (c->device.kind != DEVICE_KIND_CUDA || dev_try_cards(cards, SEAT_CARDS, true, NULL) < 1) return NULL;
  return machine_of_card(cards[0].name);
}

/* Where memory.recompute: auto does not fit, the plan goes on with the least that a run could need, so that it can tell what helps.
 */
static const Config *settle_recompute(Arena *arena, const Config *c, PlanWords *w) {
  Trial as_it_is = {0}, block = {.words = {"memory.recompute=block"}};
  TrialChain chains[] = {{&as_it_is, 1}, {&block, 1}};
  if (c->memory.recompute.choice != RECOMPUTE_AUTO) return c;
  trials_run(arena, w, chains, 2);
  if (as_it_is.known || !block.known) return c; /* else it is not for that */
  fprintf(stderr, "warn   memory.recompute: auto: %s; planned as block\n", as_it_is.why);
  *w = trial_words(arena, w, &block);
  w->allowed = (double)c->memory.recompute.nbytes;
  return plan_config(arena, w, NULL);
}

int cmd_plan(int argc, char **argv) {
  Arena *arena = arena_open();
  Text warnings = {0};
  bool sweep;
  const char *kind, *snapshot;
  PlanWords words = take_words(arena, argc, argv, &sweep, &snapshot);
  const Config *c = plan_config(arena, &words, &kind);
  if (!words.machine) words.machine = machine_here(c);
  const PlanWords asked = words;
  c = settle_recompute(arena, c, &words);
  Prospect *p = plan_prospect(arena, c, &words, &warnings);
  if (warnings.n) fprintf(stderr, "warn   %s", warnings.at);
  text_close(&warnings);
  plan_print(p, kind);
  if (prospect_short(p) > 0) plan_suggest(p, &words, &asked);
  if (sweep) plan_sweep(p, &words);
  if (snapshot) plan_snapshot(p->engine, snapshot);
  if (c->train.duration.unit != UNIT_EPOCHS) check_disk(p, config_total_steps(c, 1));
  check_offload_folder(p);
  fflush(stdout);
  check_weights(p);
  check_data(p);
  prospect_close(p);
  arena_close(arena);
  return 0;
}
