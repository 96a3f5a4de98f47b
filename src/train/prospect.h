/* SPDX-License-Identifier: Apache-2.0 */
/* What a run will need and how fast it will go, by compiling its programs and running none of them: memory, time, traffic. */
#ifndef TRAIN_PROSPECT_H
#define TRAIN_PROSPECT_H

#include "src/exec/memory.h"
#include "src/report/flops.h"
#include "src/train/forecast.h"
#include "src/train/groups.h"
#include "src/train/setup.h"

typedef struct ProspectSite {
  int ranks, per_node;
  const Machine *machine; /* the GPU; NULL: none is known, or ranks are on CPUs */
  const CompileWatch *watch;
  double allowed; /* bytes that memory.recompute: auto may plan with, where the run file says so and they do not do; 0: no limit */
} ProspectSite;

typedef struct Prospect {
  Arena *arena;
  const Config *config;
  ProspectSite site;
  ModelConfig model;
  Flops flops; /* a token */
  Batch batch;
  const Members *members; /* its parameters, and what is asked of them by name */
  Comm *comm;
  Mesh *mesh;
  Engine *engine;
  const char *fit; /* what memory.recompute: auto is here; NULL: it was not auto */
  MemoryReport *memory;
  double host, files; /* bytes of offloaded states and values, in the host's memory and in files */
  double copies;      /* bytes of the host's memory for saves beside the training; 0: training waits for them */
  double reserve;     /* bytes beside those: of a GPU's driver and libraries, of a CPU's process */
  double capacity;    /* bytes a rank can have; 0: unknown */
  Forecast step;      /* seconds are unknown unless timed, bytes are not */
  bool timed;
} Prospect;

/* config stays the caller's.  warnings: of a config.json. */
Prospect *prospect_open(Arena *arena, const Config *config, const ProspectSite *site, Text *warnings);
void prospect_close(Prospect *prospect);

double prospect_bytes(const Prospect *prospect); /* a rank's, the reserve included; on a CPU what is offloaded, too */
double prospect_short(const Prospect *prospect); /* bytes that are missing; 0: it fits, or nobody knows */
/* Those that are beyond what memory.recompute: auto may plan with, where that is the narrower limit; else 0. */
double prospect_beyond(const Prospect *prospect);
Speed prospect_speed(const Prospect *prospect);
double prospect_tokens(const Prospect *prospect); /* a second, all ranks; NaN: unknown */

#endif
