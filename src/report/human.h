/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people: three significant digits and a unit.  What is unknown (NaN, infinite, negative) is "-".
 * out has room for HUMAN_TEXT bytes and is returned. */
#ifndef REPORT_HUMAN_H
#define REPORT_HUMAN_H

enum { HUMAN_TEXT = 32 };

const char *human_count(double value, char out[HUMAN_TEXT]);      /* "512", "21.0k", "4.19M", "50.3B", "2.00T"; K M B T are 1000s */
const char *human_rate(double value, char out[HUMAN_TEXT]);       /* the same with SI prefixes: "42.9G", "592T", "1.20P" */
const char *human_bytes(double nbytes, char out[HUMAN_TEXT]);     /* disk and network: "80.9 GB", "512 B" */
const char *human_duration(double seconds, char out[HUMAN_TEXT]); /* "25d 13h", "3h 19m", "4m 5s", "12s"; at most 8 columns */

/* A number with that many decimals, or with fewer where it would not fit in width columns (at most HUMAN_TEXT - 1); then with
 * an exponent.  NaN and infinities are spelled out. */
const char *human_fixed(double value, int width, int decimals, char out[HUMAN_TEXT]);

#endif
