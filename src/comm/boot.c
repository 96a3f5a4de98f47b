/* SPDX-License-Identifier: Apache-2.0 */
/* The start and end of a job's ranks, and who they are. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/version.h"
#include "src/comm/impl.h"

/* The node's name up to its domain; a number is an address and stays whole. */
static void node_name(char node[NODE_NAME]) {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1)) snprintf(name, sizeof name, "node");
  snprintf(node, NODE_NAME, "%.*s", NODE_NAME - 1, name);
  if (!isdigit((unsigned char)*node)) node[strcspn(node, ".")] = 0;
}

static void split_refuse(void) {
  if (!launch_is_split()) return;
  abort_prepare(launch_rank(), launch_rank() + 1, "", false, false);
  fail(FAIL_MACHINE,
       "srun started %s programs of one rank each: SLURM_NTASKS is %s and there is no PMIx\n"
       "help: srun --mpi=pmix, or mpirun inside the allocation; for one rank on purpose: env -u SLURM_PROCID",
       getenv("SLURM_NTASKS"), getenv("SLURM_NTASKS"));
}

static void mpi_start(int *argc, char ***argv, char library[MPI_MAX_LIBRARY_VERSION_STRING]) {
  int provided = 0, n = 0, started = comm_launched_ranks();
  MPI("start-up", MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  MPI("start-up", MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI("start-up", MPI_Get_library_version(library, &n));
  int rank, size;
  MPI("start-up", MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI("start-up", MPI_Comm_size(MPI_COMM_WORLD, &size));
  abort_prepare(rank, size, "", true, false);
  char name[128];
  launch_library(library, name, sizeof name);
  if (launch_library_is_refused(library))
    fail(FAIL_MACHINE,
         "%s loses data in files over 2 GB\nhelp: Open MPI 4.0.3 or newer (module load, or apt-get install openmpi-bin)", name);
  if (size == 1 && started > 1) {
    abort_prepare(launch_rank(), started, "", true, false);
    fail(FAIL_MACHINE,
         "the launcher started %d programs of one rank each: it is not that of this program's MPI, %s\n"
         "help: the mpirun of that MPI (which mpirun; module list), or srun --mpi=pmix; for one rank on purpose: env -u PMI_SIZE "
         "-u OMPI_COMM_WORLD_SIZE",
         started, name);
  }
  if (provided < MPI_THREAD_MULTIPLE)
    fail(FAIL_MACHINE, "%s has no MPI_THREAD_MULTIPLE (it provides level %d)\nhelp: use an MPI built with thread support", name,
         provided);
}

typedef struct Place {
  char node[NODE_NAME], version[64];
  int32_t local_rank, local_size;
} Place;

/* A node where another module is loaded runs another program, which may wait where the others do not.  Programs from before a Place
 * had a version send a smaller one: MPI says so, not this. */
static void check_version(const Place *all, int n) {
  for (int r = 1; r < n; r++)
    if (strcmp(all[r].version, all[0].version))
      fail(FAIL_MACHINE, "rank %d (%s) runs hpctrain %s, rank 0 (%s) %s\nhelp: load the same module on all nodes", r, all[r].node,
           all[r].version, all[0].node, all[0].version);
}

static void describe(Comm *comm, const char *library, const char *pmix) {
  Place mine = {.local_rank = comm->local_rank, .local_size = comm->local_size}, *all = xmalloc(sizeof *all * (size_t)comm->size);
  char(*names)[NODE_NAME] = xmalloc(sizeof *names * (size_t)comm->size);
  memcpy(mine.node, comm->node, sizeof mine.node);
  snprintf(mine.version, sizeof mine.version, "%s", version_text);
  comm_gather(comm, &mine, sizeof mine, all);
  check_version(all, comm->size);
  comm->nodes = 0;
  comm->least_local = comm->most_local = comm->local_size;
  for (int r = 0; r < comm->size; r++) {
    comm->nodes += all[r].local_rank == 0;
    if (all[r].local_size < comm->least_local) comm->least_local = all[r].local_size;
    if (all[r].local_size > comm->most_local) comm->most_local = all[r].local_size;
    memcpy(names[r], all[r].node, NODE_NAME);
  }
  char folded[200], running[128], built[32] = "";
  launch_fold(names, comm->size, folded, sizeof folded);
  launch_library(library, running, sizeof running);
#ifdef OPEN_MPI
  snprintf(built, sizeof built, " (built %d.%d.%d)", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#endif
  snprintf(comm->describe, sizeof comm->describe, "%d rank%s, %d node%s %s; %s%s%s%s", comm->size, comm->size == 1 ? "" : "s",
           comm->nodes, comm->nodes == 1 ? "" : "s", folded, running, built, *pmix ? ", " : "", pmix);
  free(names);
  free(all);
}

void comm_launch(void) { abort_prepare(launch_rank(), launch_rank() + 1, "", false, false); }

Comm *comm_boot(int *argc, char ***argv) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING], pmix[64] = "";
  split_refuse();
  comm_launch();
  mpi_start(argc, argv, library);
  Comm *comm = xmalloc(sizeof *comm);
  *comm = (Comm){.transport = &comm_transport_mpi, .world = MPI_COMM_WORLD};
  MPI("start-up", MPI_Comm_rank(comm->world, &comm->rank));
  MPI("start-up", MPI_Comm_size(comm->world, &comm->size));
  node_name(comm->node);
  bool has_pmix = pmix_open(comm->node, pmix, sizeof pmix);
  abort_prepare(comm->rank, comm->size, comm->node, true, has_pmix);
  MPI("start-up", MPI_Comm_dup(comm->world, &comm->control));
  MPI("start-up", MPI_Comm_split_type(comm->world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm->local));
  MPI("start-up", MPI_Comm_rank(comm->local, &comm->local_rank));
  MPI("start-up", MPI_Comm_size(comm->local, &comm->local_size));
  describe(comm, library, pmix);
  return comm;
}

Comm *comm_self(void) {
  Comm *comm = xmalloc(sizeof *comm);
  *comm = (Comm){.transport = &comm_transport_self, .size = 1, .local_size = 1, .nodes = 1, .least_local = 1, .most_local = 1};
  node_name(comm->node);
  snprintf(comm->describe, sizeof comm->describe, "1 rank, 1 node %s; no MPI", comm->node);
  abort_prepare(0, 1, comm->node, false, false);
  return comm;
}

void comm_set_error_file(Comm *comm, const char *path) {
  (void)comm;
  abort_set_error_file(path);
}

void comm_close(Comm *comm) {
  if (!comm) return;
  CHECK(!comm->control_started && !comm->collect_started && !comm->beside);
  watch_close(comm);
  comm->transport->close(comm);
  abort_prepare(comm->rank, comm->size, comm->node, false, false);
  free(comm->collect_all);
  free(comm);
}

Comm *comm_beside(const Comm *comm) {
  Comm *beside = memcpy(xmalloc(sizeof *beside), comm, sizeof *beside);
  CHECK(!comm->beside);
  beside->beside = true;
  beside->control_started = beside->collect_started = false;
  beside->transport->beside(beside);
  return beside;
}

void comm_beside_close(Comm *beside) {
  if (!beside) return;
  CHECK(beside->beside);
  beside->transport->beside_close(beside);
  free(beside);
}

int comm_rank(const Comm *comm) { return comm->rank; }
int comm_size(const Comm *comm) { return comm->size; }
int comm_local_rank(const Comm *comm) { return comm->local_rank; }
int comm_local_size(const Comm *comm) { return comm->local_size; }
int comm_nodes(const Comm *comm) { return comm->nodes; }

void comm_local_sizes(const Comm *comm, int *least, int *most) {
  *least = comm->least_local;
  *most = comm->most_local;
}

const char *comm_node(const Comm *comm) { return comm->node; }
const char *comm_describe(const Comm *comm) { return comm->describe; }

const void *comm_mpi(const Comm *comm) { return comm->transport == &comm_transport_mpi ? &comm->world : NULL; }
