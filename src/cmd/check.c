/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain check: what the nodes of this job can do, before a run finds out.  All ranks measure the same thing at the same time, as
 * they work in a run; who is slow beside the others is named, and the job that starts next can do without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/disk.h"
#include "src/base/clock.h"
#include "src/cmd/cmd.h"
#include "src/exec/rates.h"
#include "src/train/checkup.h"
#include "src/train/setup.h"

enum { SLOW = 90 }; /* percent of the median */
static const double DEVICE_SECONDS = 1.5, LINK_SECONDS = 0.3, DISK_SECONDS = 2;
static const size_t FILE_MOST = 64 << 20;    /* bytes that a rank writes */
static const double FILES_MOST = 16LL << 30; /* and all of them together */

/* Where no run file is: what it would say of the machine. */
static const char run_text[] =
    "hpctrain: 1\nrun: {name: check, folder: .}\nmodel: {vocab_size: 256, hidden_size: 2, num_hidden_layers: 1, "
    "num_attention_heads: 1, intermediate_size: 2}\ndata: {train: none.bin}\n"
    "train: {seq_len: 2, duration: 1 steps, global_batch_size: 1 sequences, lr: 1e-3, schedule: constant}\n";
static const char *const use_keys[] = {"run.folder", "device.", "cpu.", "health.timeout", NULL};

typedef struct Check {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  const Config *config;
  Dev *dev;
  Checkup mine;
} Check;

static bool has_run_file(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (!strchr(argv[i], '=')) return true;
  return !access("hpctrain.yaml", F_OK);
}

/* As a run reads it: rank 0 first, so that what is wrong is told once. */
static const Config *read_config(Check *c, int argc, char **argv) {
  bool file = has_run_file(argc, argv), first = comm_rank(c->comm) == 0;
  Config *config = NULL;
  for (int turn = 0; turn < 2; turn++) {
    if (first == !turn)
      config = file ? config_load(c->arena, argc, argv, comm_size(c->comm)) : config_parse(c->arena, "check", run_text, argc, argv);
    if (!turn) comm_barrier(c->comm);
  }
  setup_kind(c->arena, config, c->comm);
  return config;
}

/* --- measurements, in their order ----------------------------------------------------------------------------------------------
 */

static void measure_device(Check *c) {
  static const char *const rows[] = {
      [MATMUL_AUTO] = "auto", [MATMUL_ONEDNN] = "onednn", [MATMUL_CBLAS] = "cblas", [MATMUL_OWN] = "own"};
  Choices choices = {.units_alive = 1,
                     .matmul = rows[c->config->cpu.matmul],
                     .threads = dev_threads(c->dev),
                     .cuda = c->config->device.kind == DEVICE_KIND_CUDA};
  c->mine.sensors = dev_sensors(c->dev, true);
  if (!choices.cuda && !strcmp(c->config->cpu.compiler, "none")) return; /* an interpreter's rates would tell nothing */
  DeviceRates rates = device_rates(c->dev, c->comm, &choices, DEVICE_SECONDS);
  c->mine.rates[CHECK_PRODUCTS] = rates.products;
  c->mine.rates[CHECK_MEMORY] = rates.bytes;
  c->mine.sensors = rates.busy;
}

static void measure_host(Check *c) {
  comm_barrier(c->comm);
  c->mine.rates[CHECK_HOST] = dev_host_rate(c->dev, DEVICE_SECONDS);
  comm_barrier(c->comm);
  c->mine.rates[CHECK_TO_GPU] = dev_link_rate(c->dev, DEV_IN, DEVICE_SECONDS / 3);
  comm_barrier(c->comm);
  c->mine.rates[CHECK_FROM_GPU] = dev_link_rate(c->dev, DEV_OUT, DEVICE_SECONDS / 3);
}

static void measure_links(Check *c) {
  int rounds = comm_rounds(c->comm);
  if (rounds) comm_device_open(c->mesh, c->dev);
  for (int k = 0; k < rounds; k++) c->mine.links[k] = comm_pair_rate(c->mesh, c->dev, k, LINK_SECONDS);
  comm_device_close(c->mesh);
}

static void measure_files(Check *c) {
  char folder[4096];
  Why why = {""};
  DiskRates rates = {0};
  disk_folder(c->config->run.folder, folder, sizeof folder);
  double each = FILES_MOST / comm_size(c->comm);
  comm_barrier(c->comm);
  bool ok = try_disk_rates(folder, each < (double)FILE_MOST ? (size_t)each : FILE_MOST, DISK_SECONDS, &rates, &why);
  if (comm_any_reason(c->comm, !ok, why.text, sizeof why.text))
    fail(FAIL_MACHINE, "run.folder: %s\nhelp: give run.folder=PATH on a file system that every node can write to", why.text);
  c->mine.rates[CHECK_WRITE] = rates.write;
  c->mine.rates[CHECK_READ] = rates.read;
}

static const struct {
  const char *doing;
  void (*measure)(Check *c);
} stages[] = {{"measuring files", measure_files},
              {"measuring the device", measure_device},
              {"measuring the host", measure_host},
              {"measuring links", measure_links}};

/* --- the command ---------------------------------------------------------------------------------------------------------- */

static void print_head(const Check *c) {
  printf("mpi    %s\n", comm_describe(c->comm));
  printf("device %s; %d thread%s a rank\n", dev_describe(c->dev), dev_threads(c->dev), dev_threads(c->dev) == 1 ? "" : "s");
  fflush(stdout);
}

/* Ends the job where somebody is sick. */
static void conclude(const Check *c, const Checkup *all, double bound) {
  int rounds = comm_rounds(c->comm), n = comm_size(c->comm);
  Text table = {0}, sick = {0}, nodes = {0};
  checkup_print(all, n, rounds, &table);
  int count = checkup_judge(all, n, rounds, bound, &sick, &nodes);
  if (comm_rank(c->comm) == 0) printf("%s", table.at ? table.at : "");
  fflush(stdout); /* before what stderr says of it */
  for (char *line = sick.at ? strtok(sick.at, "\n") : NULL; line && comm_rank(c->comm) == 0; line = strtok(NULL, "\n"))
    fprintf(stderr, "warn   %s\n", line);
  if (comm_rank(c->comm) == 0 && !count) printf("done   all is well; %.0f s\n", clock_since_exec());
  fflush(stdout);
  if (count) {
    fail_set_context(""); /* it is the job's, wherever it is said */
    fail(FAIL_MACHINE, "not all is well: %d finding%s, told above\nhelp: do without the node%s: sbatch or srun --exclude=%s", count,
         count == 1 ? "" : "s", strchr(nodes.at, ',') ? "s" : "", nodes.at);
  }
  text_close(&table);
  text_close(&sick);
  text_close(&nodes);
}

int cmd_check(int argc, char **argv) {
  Check c = {.arena = arena_open()};
  int slow = words_take_number(&argc, argv, "--slow", SLOW);
  if (slow > 100) fail(FAIL_INPUT, "--slow %d: a share of the median, in percent\nhelp: hpctrain help check", slow);
  if (!has_run_file(argc, argv)) words_refuse_keys("check", argc, argv, use_keys);
  c.comm = comm_boot(&argc, &argv);
  c.config = read_config(&c, argc, argv);
  if (c.config->health.timeout.unit) comm_watch(c.comm, c.config->health.timeout.value);
  c.mesh = mesh_data_parallel(c.comm, comm_size(c.comm));
  c.dev = setup_device(c.config, c.comm, c.config->cpu.threads ? (int)c.config->cpu.threads : comm_core_share(c.comm), NULL);
  snprintf(c.mine.node, sizeof c.mine.node, "%s", comm_node(c.comm));
  if (comm_rank(c.comm) == 0) print_head(&c);
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    comm_doing(c.comm, false, "%s", stages[i].doing);
    stages[i].measure(&c);
  }
  Checkup *all = xmalloc(sizeof *all * (size_t)comm_size(c.comm));
  comm_gather(c.comm, &c.mine, sizeof c.mine, all);
  conclude(&c, all, slow / 100.0);
  free(all);
  dev_close(c.dev);
  mesh_close(c.mesh);
  comm_close(c.comm);
  arena_close(c.arena);
  return 0;
}
