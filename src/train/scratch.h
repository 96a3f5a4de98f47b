/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for temporary files that goes with the process, whether that ends well, by an error or by a signal that can be handled.
 * One at a time, of files alone. */
#ifndef TRAIN_SCRATCH_H
#define TRAIN_SCRATCH_H

/* Makes it below TMPDIR; its path, until scratch_close. */
const char *scratch_open(void);
void scratch_close(void); /* removes it, and all in it; none being open is fine */

#endif
