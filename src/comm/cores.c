/* SPDX-License-Identifier: Apache-2.0 */
/* How many cores a rank may use.  Launchers bind too little (mpirun binds each of two ranks to one core of sixty-four) or
 * not at all (then ranks fight over all), so a fair share is worked out here: the cores this node's ranks may use together,
 * dealt out by local rank, unless the launcher's own binding is as good. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/comm/impl.h"

/* --- dealing (arithmetic only) ------------------------------------------------------------------------------------------ */

/* The first CPUs of the cores in set. */
static int cores_list(const CoreMap *map, const cpu_set_t *set, int *cores) {
  cpu_set_t seen;
  int n = 0;
  CPU_ZERO(&seen);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, set) || CPU_ISSET(map->leader[cpu], &seen)) continue;
    CPU_SET(map->leader[cpu], &seen);
    cores[n++] = map->leader[cpu];
  }
  return n;
}

/* Part `part` of `parts` of the cores in set, all their CPUs; the whole set when there are fewer cores than parts. */
static int cores_deal(const CoreMap *map, const cpu_set_t *set, int parts, int part, cpu_set_t *mine) {
  int cores[CPU_SETSIZE], n = cores_list(map, set, cores), each = n / parts;
  *mine = *set;
  if (!each) return 1;
  cpu_set_t leaders;
  CPU_ZERO(&leaders);
  for (int i = 0; i < each; i++) CPU_SET(cores[part * each + i], &leaders);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, set) && !CPU_ISSET(map->leader[cpu], &leaders)) CPU_CLR(cpu, mine);
  return each;
}

int cores_share(const CoreMap *map, const cpu_set_t *bound, int ranks, int me, cpu_set_t *mine) {
  int cores[CPU_SETSIZE], fair = cores_list(map, &map->usable, cores) / ranks, alike = 0, before = 0;
  for (int r = 0; r < ranks; r++)
    if (cores_list(map, &bound[r], cores) < fair) return cores_deal(map, &map->usable, ranks, me, mine);
  for (int r = 0; r < ranks; r++) {
    if (!CPU_EQUAL(&bound[r], &bound[me])) continue;
    alike++;
    before += r < me;
  }
  return cores_deal(map, &bound[me], alike, before, mine);
}

/* --- what the system says ----------------------------------------------------------------------------------------------- */

static bool is_launcher(const char *name) {
  static const char *const launchers[] = {"mpirun", "mpiexec", "orterun",    "orted",          "prterun",
                                          "prte",   "prted",   "slurmstepd", "hydra_pmi_proxy"}; /* all as ProcessStat has them */
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (!strcmp(name, launchers[i])) return true;
  return false;
}

/* The affinity of the launcher's daemon among our ancestors, which it did not bind as it bound us. */
static bool launcher_affinity(cpu_set_t *set) {
  enum { DEPTH_MOST = 16 }; /* shells and wrappers between */
  ProcessStat stat;
  int pid = getppid();
  for (int depth = 0; pid > 1 && depth < DEPTH_MOST && process_stat(pid, &stat); depth++, pid = stat.parent)
    if (is_launcher(stat.name)) return sched_getaffinity(pid, sizeof *set, set) == 0;
  return false;
}

/* What the kernel would let us have: asking for all yields what the cpuset allows. */
static void allowed_affinity(const cpu_set_t *bound, cpu_set_t *allowed) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, &all);
  if (sched_setaffinity(0, sizeof all, &all) || sched_getaffinity(0, sizeof *allowed, allowed)) *allowed = *bound;
  CHECK(sched_setaffinity(0, sizeof *bound, bound) == 0);
}

static void map_read(CoreMap *map) {
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    map->leader[cpu] = cpu;
    if (!CPU_ISSET(cpu, &map->usable)) continue;
    char path[128];
    size_t n;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    char *list = file_read(path, &n);
    long first = list && isdigit((unsigned char)*list) ? strtol(list, NULL, 10) : cpu; /* "0,64" or "0-1" */
    if (first >= 0 && first < CPU_SETSIZE) map->leader[cpu] = (int)first;
    free(list);
  }
}

/* Whole CPUs by the quota in a file of "quota period" or, if period_file, of two files; 0 when there is none. */
static int quota_read(const char *quota_file, const char *period_file) {
  size_t n;
  char *quota = file_read(quota_file, &n), *period = period_file ? file_read(period_file, &n) : NULL;
  char *end = quota;
  double q = quota ? strtod(quota, &end) : 0, p = period ? strtod(period, NULL) : quota ? strtod(end, NULL) : 0;
  free(quota);
  free(period);
  return q > 0 && p > 0 ? (q < p ? 1 : (int)(q / p)) : 0; /* "max" and -1 are no quota */
}

static void least_quota(void *self, const char *folder, bool second) {
  char file[4160], period[4160];
  int *least = self;
  snprintf(file, sizeof file, "%s/%s", folder, second ? "cpu.max" : "cpu.cfs_quota_us");
  snprintf(period, sizeof period, "%s/cpu.cfs_period_us", folder);
  int quota = quota_read(file, second ? NULL : period);
  if (quota && (!*least || quota < *least)) *least = quota;
}

/* The least quota of our control group and those above it: version 2's cpu.max, or version 1's pair of files. */
static int cgroup_quota(void) {
  int least = 0;
  process_cgroups("cpu", least_quota, &least);
  return least;
}

/* All threads of this process, those that MPI made at start included. */
static void affinity_set(const cpu_set_t *mine) {
  DIR *dir = opendir("/proc/self/task");
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));)
    if (isdigit((unsigned char)*e->d_name)) (void)!sched_setaffinity(atoi(e->d_name), sizeof *mine, mine); /* it may have ended */
  closedir(dir);
}

/* The cores of this node's ranks together: as their launcher may bind them, but under Slurm without control groups, where
 * that is the whole node whatever was allocated, no more than they were bound to. */
static void usable_find(CoreMap *map, const cpu_set_t *mine, const cpu_set_t *bound, int ranks, int slurm_cpus) {
  cpu_set_t together = *mine, launcher, allowed;
  for (int r = 0; r < ranks; r++) CPU_OR(&together, &together, &bound[r]);
  map->usable = together;
  if (launcher_affinity(&launcher)) {
    allowed_affinity(mine, &allowed);
    CPU_AND(&launcher, &launcher, &allowed);
    CPU_OR(&map->usable, &map->usable, &launcher);
  }
  if (slurm_cpus && CPU_COUNT(&map->usable) > slurm_cpus) map->usable = together;
  map_read(map);
}

static int node_share(Comm *comm) {
  cpu_set_t mine, share;
  int ranks = comm->local_size, quota = cgroup_quota();
  int slurm_cpus = getenv("SLURM_CPUS_ON_NODE") ? atoi(getenv("SLURM_CPUS_ON_NODE")) : 0;
  if (sched_getaffinity(0, sizeof mine, &mine))
    return (int)(sysconf(_SC_NPROCESSORS_ONLN) / ranks); /* more CPUs than a set holds */
  cpu_set_t *bound = xmalloc(sizeof *bound * (size_t)ranks);
  CoreMap *map = xmalloc(sizeof *map);
  comm->transport->gather_local(comm, &mine, sizeof mine, bound);
  usable_find(map, &mine, bound, ranks, slurm_cpus);
  int n = cores_share(map, bound, ranks, comm->local_rank, &share);
  if (!CPU_EQUAL(&share, &mine)) affinity_set(&share);
  free(map);
  free(bound);
  if (quota && n > quota / ranks) n = quota / ranks;
  if (slurm_cpus && n > slurm_cpus / ranks) n = slurm_cpus / ranks;
  return n;
}

int comm_core_share(Comm *comm) {
  int64_t fewest = -node_share(comm); /* the same on all ranks: they run the same program */
  comm->transport->most(comm, &fewest, 1);
  return fewest < -1 ? (int)-fewest : 1;
}
