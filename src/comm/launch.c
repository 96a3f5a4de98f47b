/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher and the MPI library say about themselves.  No MPI calls. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/comm/impl.h"

static int64_t env_int(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  int64_t value;
  return text && num_parse_int(text, &value) ? value : otherwise;
}

/* -1: no launcher tells one. */
static int told_rank(void) {
  static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int64_t rank = env_int(names[i], -1);
    if (rank >= 0 && rank < 1 << 30) return (int)rank;
  }
  return -1;
}

int launch_rank(void) { return told_rank() < 0 ? 0 : told_rank(); }

bool comm_is_launched(void) { return told_rank() >= 0; }

int comm_launched_ranks(void) {
  int64_t ranks = env_int("OMPI_COMM_WORLD_SIZE", env_int("PMI_SIZE", 1)); /* PMI: MPICH's mpirun, and Intel's */
  return ranks > 1 && ranks < 1 << 30 ? (int)ranks : 1;
}

bool launch_is_split(void) {
  return getenv("SLURM_PROCID") && !getenv("PMIX_RANK") && !getenv("OMPI_COMM_WORLD_RANK") && !getenv("PMI_RANK") &&
         env_int("SLURM_NTASKS", 1) > 1;
}

/* Open MPI's three numbers; false for another library. */
static bool open_mpi_version(const char *text, int version[3]) {
  return sscanf(text, "Open MPI v%d.%d.%d", &version[0], &version[1], &version[2]) == 3;
}

void launch_library(const char *text, char *out, size_t nbytes) {
  int v[3];
  if (open_mpi_version(text, v))
    snprintf(out, nbytes, "Open MPI %d.%d.%d", v[0], v[1], v[2]);
  else
    snprintf(out, nbytes, "%.*s", (int)strcspn(text, ",\n"), text);
}

bool launch_library_is_refused(const char *text) {
  int v[3];
  return open_mpi_version(text, v) && (v[0] < 4 || (v[0] == 4 && v[1] == 0 && v[2] < 3));
}

static int name_compare(const void *a, const void *b) { return strcmp(a, b); }

/* Length of what precedes the digits at the end. */
static int stem(const char *name) {
  size_t n = strlen(name);
  while (n && isdigit((unsigned char)name[n - 1])) n--;
  return (int)n;
}

/* Whether b follows a in one folded list: same stem, same width. */
static bool name_is_kin(const char *a, const char *b) {
  return strlen(a) == strlen(b) && stem(a) == stem(b) && !strncmp(a, b, (size_t)stem(a));
}

static bool name_is_next(const char *a, const char *b) {
  int n = stem(a);
  return name_is_kin(a, b) && strtoull(a + n, NULL, 10) + 1 == strtoull(b + n, NULL, 10);
}

int launch_fold(char (*names)[NODE_NAME], int n, char *out, size_t nbytes) {
  qsort(names, (size_t)n, sizeof *names, name_compare);
  int kept = 0;
  for (int i = 0; i < n; i++)
    if (!kept || strcmp(names[i], names[kept - 1])) memmove(names[kept++], names[i], sizeof *names);
  Text text = {0};
  for (int i = 0; i < kept;) {
    int end = i + 1, digits = stem(names[i]);
    while (end < kept && name_is_kin(names[i], names[end])) end++;
    bool folds = end > i + 1 && names[i][digits];
    if (!folds) end = i + 1;
    text_printf(&text, "%s%.*s%s", i ? "," : "", folds ? digits : NODE_NAME, names[i], folds ? "[" : "");
    for (int first = i; folds && first < end;) {
      int last = first;
      while (last + 1 < end && name_is_next(names[last], names[last + 1])) last++;
      text_printf(&text, "%s%s", first > i ? "," : "", names[first] + digits);
      if (last > first) text_printf(&text, "-%s", names[last] + digits);
      first = last + 1;
    }
    if (folds) text_printf(&text, "]");
    i = end;
  }
  snprintf(out, nbytes, "%s", text.at ? text.at : "");
  text_close(&text);
  return kept;
}
