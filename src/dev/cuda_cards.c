/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that this process sees, without using any of them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/dev/cuda.h"

/* The NUMA node of a PCI device: "0000:1B:00.0"; -1: unknown, as the kernel says it too. */
static int numa_of(const char *bus) {
  char path[96];
  size_t n;
  int at = snprintf(path, sizeof path, "/sys/bus/pci/devices/");
  for (const char *c = bus; *c && at < 64; c++) path[at++] = (char)tolower((unsigned char)*c);
  snprintf(path + at, sizeof path - (size_t)at, "/numa_node");
  char *text = file_read(path, &n);
  int node = text ? atoi(text) : -1;
  free(text);
  return node;
}

bool cuda_try_card(int gpu, DevCard *card, Why *why) {
  struct cudaDeviceProp prop;
  if (!CUDA_TRY(cudaGetDeviceProperties(&prop, gpu), why) ||
      !CUDA_TRY(cudaDeviceGetPCIBusId(card->bus, sizeof card->bus, gpu), why))
    return false;
  snprintf(card->name, sizeof card->name, "%.*s", (int)sizeof card->name - 1, prop.name);
  memcpy(card->uuid, &prop.uuid, sizeof card->uuid);
  card->numa = numa_of(card->bus);
  card->nbytes = prop.totalGlobalMem;
  return true;
}

int cuda_try_cards(DevCard *cards, int most, Why *why) {
  int n = 0;
  if (!CUDA_TRY(cudaGetDeviceCount(&n), why)) return -1;
  for (int i = 0; i < n && i < most; i++)
    if (!cuda_try_card(i, &cards[i], why)) return -1;
  return n < most ? n : most;
}
