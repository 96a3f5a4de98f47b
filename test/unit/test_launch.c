/* SPDX-License-Identifier: Apache-2.0 */
/* What a launcher and a library say is read rightly, and cores are dealt fairly whatever the binding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "src/base/file.h"
#include "src/comm/impl.h"
#include "test/check.h"

static void expect_fold(const char *list, int differ, const char *folded) {
  char names[8][NODE_NAME], copy[256], out[256], *save = NULL;
  int n = 0;
  strcpy(copy, list);
  for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) strcpy(names[n++], p);
  EXPECT(launch_fold(names, n, out, sizeof out) == differ);
  EXPECT_TEXT(out, folded);
}

TEST(names_of_nodes_fold) {
  expect_fold("vm vm vm", 1, "vm");
  expect_fold("n001", 1, "n001");
  expect_fold("n003 n001 n002 n001", 3, "n[001-003]");
  expect_fold("n001 n002 n007 n008 n010", 5, "n[001-002,007-008,010]");
  expect_fold("n9 n10 n11", 3, "n[10-11],n9");
  expect_fold("a b", 2, "a,b");
  expect_fold("gpu1 cpu1", 2, "cpu1,gpu1");
}

TEST(library_is_named) {
  char out[64];
  launch_library("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", out, sizeof out);
  EXPECT_TEXT(out, "Open MPI 4.1.4");
  launch_library("MPICH Version:\t4.0.2\nMPICH Release date", out, sizeof out);
  EXPECT_TEXT(out, "MPICH Version:\t4.0.2");
}

TEST(libraries_that_lose_data_are_refused) {
  EXPECT(launch_library_is_refused("Open MPI v3.1.6, package") && launch_library_is_refused("Open MPI v4.0.2, package"));
  EXPECT(!launch_library_is_refused("Open MPI v4.0.3, package") && !launch_library_is_refused("Open MPI v5.0.0rc1, package"));
  EXPECT(!launch_library_is_refused("MPICH Version: 3.0"));
}

TEST(split_launch_is_seen) {
  static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "SLURM_NTASKS"};
  for (int i = 0; i < 5; i++) unsetenv(names[i]);
  EXPECT(!launch_is_split() && launch_rank() == 0);
  setenv("SLURM_PROCID", "3", 1);
  EXPECT(!launch_is_split() && launch_rank() == 3);
  setenv("SLURM_NTASKS", "4", 1);
  EXPECT(launch_is_split());
  setenv("PMIX_RANK", "1", 1);
  EXPECT(!launch_is_split() && launch_rank() == 1);
  for (int i = 0; i < 5; i++) unsetenv(names[i]);
}

TEST(launchers_of_any_mpi_tell_how_many_they_start) {
  unsetenv("PMI_SIZE");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT(comm_launched_ranks() == 1);
  setenv("PMI_SIZE", "4", 1);
  EXPECT(comm_launched_ranks() == 4);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT(comm_launched_ranks() == 2);
  setenv("OMPI_COMM_WORLD_SIZE", "-3", 1);
  EXPECT(comm_launched_ranks() == 1);
  unsetenv("PMI_SIZE");
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

/* CPUs from…to-1. */
static cpu_set_t span(int from, int to) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = from; cpu < to; cpu++) CPU_SET(cpu, &set);
  return set;
}

static CoreMap map_of(int cpus, int threads_a_core) {
  CoreMap map = {.usable = span(0, cpus)};
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) map.leader[cpu] = cpu < cpus ? cpu % (cpus / threads_a_core) : cpu;
  return map;
}

/* All ranks get n cores, no two the same CPU if `apart`. */
static void expect_share(const CoreMap *map, const cpu_set_t *bound, int ranks, int n, bool apart) {
  cpu_set_t seen, mine, both;
  CPU_ZERO(&seen);
  for (int r = 0; r < ranks; r++) {
    EXPECT(cores_share(map, bound, ranks, r, &mine) == n);
    EXPECT(CPU_COUNT(&mine) >= n);
    CPU_AND(&both, &mine, &map->usable);
    EXPECT(CPU_EQUAL(&both, &mine));
    CPU_AND(&both, &mine, &seen);
    EXPECT(!apart || CPU_COUNT(&both) == 0);
    CPU_OR(&seen, &seen, &mine);
  }
}

TEST(unbound_ranks_are_set_apart) {
  CoreMap map = map_of(8, 1);
  cpu_set_t bound[3] = {span(0, 8), span(0, 8), span(0, 8)};
  expect_share(&map, bound, 1, 8, true);
  expect_share(&map, bound, 2, 4, true);
  expect_share(&map, bound, 3, 2, true);
}

TEST(tight_bindings_are_widened) {
  CoreMap map = map_of(8, 1);
  cpu_set_t apart[2] = {span(0, 1), span(1, 2)}, same[2] = {span(0, 1), span(0, 1)};
  expect_share(&map, apart, 1, 8, true);
  expect_share(&map, apart, 2, 4, true);
  expect_share(&map, same, 2, 4, true);
}

TEST(fair_bindings_are_kept) {
  CoreMap map = map_of(8, 1);
  cpu_set_t bound[2] = {span(4, 8), span(0, 4)}, mine;
  expect_share(&map, bound, 2, 4, true);
  EXPECT(cores_share(&map, bound, 2, 0, &mine) == 4 && CPU_EQUAL(&mine, &bound[0]));
}

TEST(ranks_of_one_socket_share_it) {
  CoreMap map = map_of(16, 1);
  cpu_set_t bound[4] = {span(0, 8), span(8, 16), span(0, 8), span(8, 16)};
  expect_share(&map, bound, 4, 4, true);
}

TEST(hardware_threads_are_not_cores) {
  CoreMap map = map_of(16, 2);
  cpu_set_t bound[2] = {span(0, 16), span(0, 16)}, mine;
  expect_share(&map, bound, 2, 4, true);
  EXPECT(cores_share(&map, bound, 2, 1, &mine) == 4 && CPU_COUNT(&mine) == 8 && CPU_ISSET(4, &mine) && CPU_ISSET(12, &mine));
}

TEST(more_ranks_than_cores_get_one_each) {
  CoreMap map = map_of(2, 1);
  cpu_set_t bound[64];
  for (int r = 0; r < 64; r++) bound[r] = map.usable;
  expect_share(&map, bound, 64, 1, false);
}

/* Hours are those of this machine's zone, as squeue prints them. */
TEST(slurms_end_of_a_job_is_read) {
  double end = 1;
  setenv("TZ", "UTC-2", 1);
  tzset();
  EXPECT(launch_parse_end("2026-11-30T02:00:01", &end) && end == 1795996801);
  EXPECT(launch_parse_end("N/A", &end) && isinf(end));
  EXPECT(launch_parse_end("NONE", &end) && isinf(end));
  EXPECT(!launch_parse_end("slurm_load_jobs error: Invalid job id specified", &end));
  EXPECT(!launch_parse_end("2026-11-30T02:00:01 or so", &end));
  unsetenv("TZ");
  tzset();
}

/* A stand-in for squeue in a folder of its own. */
static void set_squeue(const char *folder, const char *says, int status) {
  char path[64];
  snprintf(path, sizeof path, "%s/squeue", folder);
  FILE *f = fopen(path, "w");
  EXPECT(f && fprintf(f, "#!/bin/sh\necho \"%s\"\nexit %d\n", says, status) > 0 && !fclose(f) && !chmod(path, 0700));
}

TEST(the_end_of_a_job_is_slurms) {
  char folder[] = "/tmp/squeue.XXXXXX", with[4096];
  EXPECT(mkdtemp(folder));
  int n = snprintf(with, sizeof with, "%s:", folder);
  snprintf(with + n, sizeof with - n, "%s", getenv("PATH"));
  double end = 0;
  Why why;
  unsetenv("SLURM_JOB_END_TIME");
  unsetenv("SLURM_JOB_ID");
  EXPECT(try_comm_job_end(&end, &why) && isinf(end));
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("PATH", with, 1);
  set_squeue(folder, "NONE", 0);
  EXPECT(try_comm_job_end(&end, &why) && isinf(end));
  set_squeue(folder, "1970-01-03T00:00:00", 0);
  EXPECT(try_comm_job_end(&end, &why) && end > 86400 && end < 3 * 86400);
  set_squeue(folder, "slurm_load_jobs error: Unable to contact slurm controller", 1);
  EXPECT(!try_comm_job_end(&end, &why) && strstr(why.text, "Unable to contact"));
  setenv("SLURM_JOB_END_TIME", "1796030000", 1);
  EXPECT(try_comm_job_end(&end, &why) && end == 1796030000);
  unsetenv("SLURM_JOB_END_TIME");
  unsetenv("SLURM_JOB_ID");
  setenv("PATH", with + n, 1);
  EXPECT(try_tree_remove(folder, &why));
}

/* --- who tells --- */

/* A launcher's folder for a job; NULL: there is none. */
static void set_job_folder(const char *folder) {
  setenv("PMIX_NAMESPACE", "7", 1);
  folder ? setenv("PMIX_SERVER_TMPDIR", folder, 1) : unsetenv("PMIX_SERVER_TMPDIR");
  turns_prepare();
}

TEST(lowest_rank_that_failed_tells_and_then_no_other) {
  set_job_folder(check_folder());
  turn_enter(3);
  turn_enter(1);
  turn_enter(2);
  EXPECT(!turn_try(3) && !turn_try(2) && turn_try(1));
  turn_enter(0);
  EXPECT(!turn_try(0) && !turn_try(3));
}

TEST(what_an_earlier_program_of_the_job_told_silences_nobody) {
  struct {
    double at;
    int64_t rank;
  } told = {1e9, -1};
  char path[512];
  snprintf(path, sizeof path, "%s/hpctrain-7", check_folder());
  FILE *f = fopen(path, "wb");
  EXPECT(f && fwrite(&told, sizeof told, 1, f) == 1 && fclose(f) == 0);
  set_job_folder(check_folder());
  turn_enter(2);
  EXPECT(turn_try(2) && !turn_try(3));
}

TEST(without_a_folder_of_the_job_any_rank_tells) {
  set_job_folder(NULL);
  turn_enter(1);
  EXPECT(turn_try(2) && turn_try(1));
  set_job_folder("/nowhere");
  EXPECT(turn_try(2) && turn_try(1));
}

TEST(one_rank_alone_has_everything_at_once) {
  Comm *comm = comm_self();
  EXPECT(comm_rank(comm) == 0 && comm_size(comm) == 1 && comm_nodes(comm) == 1 && !comm_mpi(comm));
  EXPECT(comm_core_share(comm) >= 1);
  EXPECT(comm_any(comm, true) && !comm_any(comm, false));
  comm_agree(comm, 7, "nothing");
  int64_t most[4];
  comm_control_start(comm, (const int64_t[4]){1, -2, 3, 4});
  comm_control_finish(comm, most);
  EXPECT(most[0] == 1 && most[1] == -2 && most[3] == 4);
  Mesh *mesh = mesh_open(comm, (const int[MESH_AXES]){1, 1, 1, 1, 1});
  float in[3] = {1, 2, 3};
  for (int kind = 0; kind < COMM_KINDS; kind++) {
    float out[3] = {0};
    EXPECT(comm_workspace((CommKind)kind, 3, DT_F32, 1) == 0);
    CommOp *op = comm_prepare(mesh, MESH_DP_SHARD, (CommKind)kind, in, out, 3, DT_F32, NULL, "a test");
    comm_start(op);
    comm_wait(op);
    EXPECT(!memcmp(in, out, sizeof in));
    comm_release(op);
  }
  mesh_close(mesh);
  comm_close(comm);
}

TEST(planned_ranks_have_a_mesh_and_exchange_nothing) {
  Comm *comm = comm_plan(64);
  EXPECT(comm_rank(comm) == 0 && comm_size(comm) == 64 && !comm_mpi(comm));
  EXPECT(comm_core_share(comm) >= 1);
  Mesh *mesh = mesh_open(comm, (const int[MESH_AXES]){1, 1, 64, 1, 1});
  EXPECT(mesh_dp_size(mesh) == 64 && mesh_dp_index(mesh) == 0);
  float x[64] = {0};
  EXPECT_FAIL(FAIL_BUG, "a planned rank exchanges nothing", { comm_barrier(comm); });
  EXPECT_FAIL(FAIL_BUG, "a planned rank exchanges nothing",
              { comm_prepare(mesh, MESH_DP_SHARD, COMM_ALL_GATHER, x, x, 1, DT_F32, NULL, "a test"); });
  mesh_close(mesh);
  comm_close(comm);
}
