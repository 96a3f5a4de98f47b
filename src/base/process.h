/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells of processes. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ProcessStat {
  char name[64];   /* the kernel keeps 15 characters of a program's */
  char state;      /* 'Z': only its remains are there */
  int parent;      /* 0: none that is seen from here */
  int64_t started; /* clock ticks after boot, by which two processes of one number differ */
} ProcessStat;
/* proc(5).  pid 0: this process, whatever number /proc has for it (one of another PID namespace has another).  False: there is no
 * such process, or it is hidden. */
bool process_stat(int pid, ProcessStat *stat);

/* Bytes of memory that this process has had at its peak (VmHWM); 0 where /proc does not tell. */
int64_t process_peak(void);

/* Calls visit with the folder of this process's control group and of each above it: of version 2 (second), or version 1's of a
 * controller ("cpu", "memory"). */
typedef void CgroupVisit(void *self, const char *folder, bool second);
void process_cgroups(const char *controller, CgroupVisit *visit, void *self);
void process_cgroups_of(const char *proc, const char *groups, const char *controller, CgroupVisit *visit, void *self);

#endif
