/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this node, and how much of it this process may still have. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

typedef struct NodeMemory {
  int64_t total;     /* bytes that all processes of the node, or of this one's control group, may have together; 0: not known */
  int64_t available; /* of them, what could be had now */
  char limit[256];   /* what bounds the latter: "this node", "control group /slurm/job_7" */
} NodeMemory;

/* The kernel's estimate (MemAvailable), or less where a control group, as batch systems and containers set them, allows less. */
NodeMemory node_memory(void);
NodeMemory node_memory_of(const char *proc, const char *groups); /* instead of /proc and /sys/fs/cgroup */

#endif
