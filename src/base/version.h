/* SPDX-License-Identifier: Apache-2.0 */
/* Which hpctrain this is, as it tells it itself, and in what it writes. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* "0.1 (a1b2c3d)": the release and the commit it was built from, with + when files differed from it; without a commit where
 * the sources did not say. */
extern const char version_text[];

#endif
