/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* Bytes of memory that this process has had at its peak (VmHWM); 0 where /proc does not tell. */
int64_t process_peak(void);

#endif
