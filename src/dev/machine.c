/* SPDX-License-Identifier: Apache-2.0 */
/* The table of GPUs, and the shares of their data sheets that were measured. */
#include "src/dev/machine.h"

#include <string.h>

/* NVIDIA's data sheets of the SXM cards (H100 PCIe: its own); memory as nvidia-smi tells it.  network: a 400 Gbit/s port a GPU, as
 * in DGX and HGX nodes (A100: 200); host: 16 lanes of PCIe. */
const Machine machines[] = {
    {"h200", "H200", 143771 * 1048576.0, 989e12, 67e12, 4.8e12, 450e9, 50e9, 64e9},
    {"h100-pcie", "H100 PCIe", 81559 * 1048576.0, 756e12, 51e12, 2.0e12, 64e9, 50e9, 64e9},
    {"h100", "H100", 81559 * 1048576.0, 989e12, 67e12, 3.35e12, 450e9, 50e9, 64e9},
    {"a100", "A100", 81920 * 1048576.0, 312e12, 19.5e12, 2.04e12, 300e9, 25e9, 32e9},
    {"b200", "B200", 183359 * 1048576.0, 2250e12, 75e12, 8.0e12, 900e9, 50e9, 64e9},
};
const int nmachines = sizeof machines / sizeof *machines;

/* Shares of the data sheet, measured on H200s held under load in training (test/bench/h200.md); for other cards a lead. */
static const struct {
  double products, attention[2][2], bytes, fused, update, way[WAYS], network, host;
  double products_slowed, way_slowed, kernel_gap, start;
} measured = {
    .products = 0.68,
    .attention = {{0.33, 0.235}, {0.46, 0.355}}, /* alone 0.376, 0.267; 0.52, 0.404: in a step the clock is lower */
    .bytes = 0.89,
    .fused = 0.8,
    .update = 0.86,
    .way = {[WAY_GATHER] = 0.66, [WAY_SCATTER] = 0.62, [WAY_ALL_REDUCE] = 0.75, [WAY_COPY] = 0.8},
    .network = 0.8, /* not measured: what tests of NCCL are usually seen to reach */
    .host = 0.78,
    .products_slowed = 1.3,
    .way_slowed = 1.7,
    .kernel_gap = 1.5e-6,
    .start = 40e-6,
};

const Machine *machine_find(const char *name) {
  for (int i = 0; i < nmachines; i++)
    if (!strcmp(machines[i].name, name)) return &machines[i];
  return NULL;
}

const Machine *machine_of_card(const char *card) {
  for (int i = 0; i < nmachines; i++)
    if (strstr(card, machines[i].card)) return &machines[i];
  return NULL;
}

MachineRates machine_rates(const Machine *m) {
  MachineRates r = {
      .narrow = measured.products * m->narrow,
      .wide = measured.products * m->wide,
      .bytes = measured.bytes * m->bytes,
      .fused = measured.fused * m->bytes,
      .update = measured.update * m->bytes,
      .network = measured.network * m->network,
      .host = measured.host * m->host,
      .products_slowed = measured.products_slowed,
      .way_slowed = measured.way_slowed,
      .kernel_gap = measured.kernel_gap,
      .start = measured.start,
  };
  for (int size = 0; size < 2; size++)
    for (int gradient = 0; gradient < 2; gradient++) r.attention[size][gradient] = measured.attention[size][gradient] * m->narrow;
  for (int w = 0; w < WAYS; w++) r.way[w] = measured.way[w] * m->link;
  return r;
}

double machine_reserve(bool alone) { return (alone ? 0.55 : 2.05) * (1 << 30); }

double machine_room(double memory, bool alone) {
  double room = 0.99 * memory - machine_reserve(alone);
  return room > 0 ? room : 0;
}

double machine_host_room(double memory, int ranks) {
  const double share = memory / ranks, reserve = 1 << 30;
  return share > 2 * reserve ? share - reserve : share / 2;
}
