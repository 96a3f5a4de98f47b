/* SPDX-License-Identifier: Apache-2.0 */
/* A job that fails in the way named on its command line; test_fails.sh looks at how it ends.
 *   fails HOW [ERROR_FILE]     one row of the table below
 *   fails ok                   boots, sums once over all ranks, closes */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/fail.h"
#include "src/comm/comm.h"

static Comm *comm;

static void hang(void) {
  for (;;) comm_barrier(comm); /* what a rank does that still believes in the others */
}

static _Noreturn void complain(FailKind kind) { fail(kind, "cannot read x.bin\nhelp: write it"); }

static void all_input(void) { complain(FAIL_INPUT); }
static void all_machine(void) { complain(FAIL_MACHINE); }

static void first(void) {
  if (comm_rank(comm) == 0) complain(FAIL_MACHINE);
  hang();
}

static void last(void) {
  if (comm_rank(comm) == comm_size(comm) - 1) complain(FAIL_INPUT);
  hang();
}

static void all_but_first(void) {
  if (comm_rank(comm)) complain(FAIL_MACHINE);
  hang();
}

static void middle_late(void) {
  if (comm_rank(comm) == 1) usleep(200000);
  all_but_first();
}

static void bug(void) { CHECK(comm_size(comm) == 0); }

static void differ(void) { comm_agree(comm, comm_rank(comm) == 1 ? 7 : 8, "run file"); }

static void killed(void) {
  if (comm_rank(comm) == comm_size(comm) - 1) raise(SIGKILL);
  hang();
}

static void closed(void) {
  comm_close(comm);
  comm = NULL;
  complain(FAIL_MACHINE);
}

static void forked(void) {
  if (comm_rank(comm) == 0 && fork() == 0) complain(FAIL_INPUT);
  sleep(1);
  comm_close(comm);
  exit(0);
}

/* The others expect less than rank 0 sends. */
static void truncated(void) {
  char bytes[1000] = {0};
  comm_broadcast(comm, bytes, comm_rank(comm) ? 10 : 1000, 0);
  hang();
}

/* The last rank does not come to the barrier for so many seconds; the others are watched for a second. */
static _Noreturn void watched(double seconds, bool patient) {
  comm_watch(comm, 1);
  comm_step(comm, 7);
  if (comm_rank(comm) == comm_size(comm) - 1) {
    comm_doing(comm, patient, "reading x.bin");
    nanosleep(&(struct timespec){(time_t)seconds, 0}, NULL);
  }
  comm_barrier(comm);
  comm_close(comm);
  exit(0);
}

static void late(void) { watched(60, false); }
static void patient(void) { watched(3, true); }
static void too_patient(void) { watched(60, true); }

static void stopped(void) {
  comm_watch(comm, 1);
  if (comm_rank(comm) == comm_size(comm) - 1) raise(SIGSTOP);
  hang();
}

static void ok(void) {
  int R = comm_size(comm), extent[MESH_AXES] = {1, 1, R, 1, 1};
  Mesh *mesh = mesh_open(comm, extent);
  int64_t n = 1, sum = 0, *workspace = malloc(comm_workspace(COMM_ALL_REDUCE, 1, DT_I64, R) + 1);
  CommOp *op = comm_prepare(mesh, MESH_DP_SHARD, COMM_ALL_REDUCE, &n, &sum, 1, DT_I64, workspace, "one number");
  comm_start(op);
  comm_wait(op);
  CHECK(sum == R);
  int cores = comm_core_share(comm);
  if (comm_rank(comm) == 0) printf("%s\ncores %d of %ld\n", comm_describe(comm), cores, sysconf(_SC_NPROCESSORS_ONLN));
  comm_release(op);
  free(workspace);
  mesh_close(mesh);
  comm_close(comm);
  exit(0);
}

static const struct {
  const char *name;
  void (*run)(void);
} ways[] = {{"all_input", all_input},
            {"all_machine", all_machine},
            {"first", first},
            {"last", last},
            {"all_but_first", all_but_first},
            {"middle_late", middle_late},
            {"bug", bug},
            {"differ", differ},
            {"killed", killed},
            {"closed", closed},
            {"forked", forked},
            {"truncated", truncated},
            {"late", late},
            {"patient", patient},
            {"too_patient", too_patient},
            {"stopped", stopped},
            {"ok", ok}};

int main(int argc, char **argv) {
  if (argc < 2) return 64;
  if (!strcmp(argv[1], "alone"))
    comm = comm_self();
  else
    comm = comm_boot(&argc, &argv);
  if (argc > 2) comm_set_error_file(comm, argv[2]);
  if (!strcmp(argv[1], "alone")) all_input();
  comm_barrier(comm); /* ranks fail together, whatever else a busy machine was doing when they began */
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (!strcmp(ways[i].name, argv[1])) ways[i].run();
  return 65;
}
