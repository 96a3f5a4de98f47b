/* SPDX-License-Identifier: Apache-2.0 */
/* The units' part of an update on the host's cores, where moments, masters and gradients are (memory.optimizer: host).  Ren et al.,
 * "ZeRO-Offload: Democratizing Billion-Scale Model Training", USENIX ATC 2021.
 *
 * A second job, of a program a unit, works on the Vars that the first one keeps in the host's memory and on a copy there of the
 * parameters' upper halves; what it makes of those goes to the device, a unit while the next one is computed. */
#ifndef TRAIN_HOST_UPDATE_H
#define TRAIN_HOST_UPDATE_H

#include "src/train/engine.h"

typedef struct HostUpdate HostUpdate;

/* Compiles; job, which is dev's (NULL: for a plan), keeps what units need from here on. */
HostUpdate *host_update_open(Arena *arena, Dev *dev, Job *job, Comm *comm, const StateTable *states, const UpdateOptions *update,
                             const EngineOptions *options);
Job *host_update_job(const HostUpdate *host);
/* After the device's job has started, and before it is closed (all ranks). */
JobStart host_update_start(HostUpdate *host);
void host_update_close(HostUpdate *host);

void host_update_stale(HostUpdate *host); /* somebody else writes the device's parameters */
/* Behind the head of the update, which it waits for; the last upper halves are still on their way to the device when it returns. */
void host_update_run(HostUpdate *host);

#endif
