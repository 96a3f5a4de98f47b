/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and how long something took: durations are by the monotonic clock, dates by the wall's. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);          /* monotonic, arbitrary origin */
double clock_since_exec(void);       /* seconds since this process was started; 0 where /proc does not tell */
double clock_wall(void);             /* seconds since 1970, UTC */
const char *clock_utc(char out[32]); /* now, as 2026-11-29T10:02:11Z */

#endif
