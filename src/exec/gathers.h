/* SPDX-License-Identifier: Apache-2.0 */
/* Which gathers may read other ranks' memory by themselves (comm_copies).  Nobody tells a rank that another is reading, so this
 * is for Vars that hardly anybody writes: states.  Programs that gather them leave them as they are; one that writes them does so
 * behind a reduction over the ranks that gather, as the update does behind that of the gradient's norm; the host writes them before
 * the first run.  Pure: all ranks decide alike. */
#ifndef EXEC_GATHERS_H
#define EXEC_GATHERS_H

#include "src/fuse/fuse.h"

bool gather_reads_state(const Program *p, const Step *step); /* a step starts a gather of a state where it lies */
bool step_exchanges(const Step *step);                       /* starts an all-to-all */
bool gathers_states(const Program *p, int64_t axis);         /* any over this axis does */
bool gathers_may_copy(const Program *p, int64_t axis);       /* such gathers may go by comm_copies as far as this program goes */

#endif
