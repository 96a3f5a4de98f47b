/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"

static const struct {
  const char *prefix;
  bool brief; /* launchers do not set these by the dozen */
} kinds[] = {{"BLIS_", true},    {"CUBLAS_", true}, {"CUDA_", true},     {"DNNL_", true},   {"FI_", true},    {"GOMP_", true},
             {"GOTO_", true},    {"HDF5_", true},   {"HPCTRAIN_", true}, {"HYDRA_", false}, {"I_MPI_", true}, {"KMP_", true},
             {"LD_", false},     {"MKL_", true},    {"MPICH_", true},    {"MPI_", false},   {"MV2_", true},   {"NCCL_", true},
             {"NVIDIA_", false}, {"OMPI_", false},  {"OMP_", true},      {"ONEDNN_", true}, {"OPAL_", false}, {"OPENBLAS_", true},
             {"ORTE_", false},   {"PMIX_", false},  {"PMI_", false},     {"PRTE_", false},  {"PSM2_", true},  {"ROMIO_", true},
             {"SLURM_", false},  {"SRUN_", false},  {"UCX_", true}};
static const char *const secrets[] = {"TOKEN", "JWT", "SECRET", "PASSW", "CREDENTIAL", "_KEY"};

static bool is_kind(const char *variable, bool brief) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(variable, kinds[i].prefix, strlen(kinds[i].prefix))) return kinds[i].brief || !brief;
  return false;
}

static bool is_secret(const char *variable) {
  size_t n = strcspn(variable, "=");
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
    if (memmem(variable, n, secrets[i], strlen(secrets[i]))) return true;
  return false;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* A value keeps its printable bytes only: it lands in a terminal. */
static void print(Text *out, bool brief, char between) {
  size_t n = 0, used = 0;
  for (char **v = environ; v && *v; v++) n++;
  const char **found = xmalloc((n + 1) * sizeof *found);
  for (size_t i = 0; i < n; i++)
    if (is_kind(environ[i], brief)) found[used++] = environ[i];
  qsort(found, used, sizeof *found, by_text);
  text_add(out, "", 0);
  for (size_t i = 0; i < used; i++) {
    if (brief && i) text_add(out, &between, 1);
    size_t name = strcspn(found[i], "=");
    bool secret = is_secret(found[i]);
    for (const char *c = found[i]; *c && !(secret && c > found[i] + name); c++)
      text_add(out, (unsigned char)*c < 32 || *c == 127 ? "?" : c, 1);
    if (secret) text_printf(out, "(not shown)");
    if (!brief) text_add(out, &between, 1);
  }
  free(found);
}

void environment_print(Text *out) { print(out, false, '\n'); }
void environment_brief(Text *out) { print(out, true, ' '); }
