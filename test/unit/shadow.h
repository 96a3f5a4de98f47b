/* SPDX-License-Identifier: Apache-2.0 */
/* A lowered program run on shadow memory, which holds of every byte not its value but the buffer that it was written as. */
#ifndef TEST_UNIT_SHADOW_H
#define TEST_UNIT_SHADOW_H

#include "src/fuse/fuse.h"

/* "", or what is wrong: an access outside of its buffer; a read of what was not written as that buffer, or has been written
 * over, or is still on its way from other ranks; a write to what is still being sent to them; a buffer that lies outside of the
 * plan.  Walks every element: for small programs.  Valid until the next call. */
const char *shadow_run(const Program *program);

#endif
