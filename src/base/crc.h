/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c (hash.h) from the inside: the two ways there are to it, so that tests can hold one against the other. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What crc32c does between its two inversions, by table and by the processor; the latter only where it can. */
uint32_t crc_by_table(uint32_t crc, const unsigned char *bytes, size_t n);
bool crc_has_machine(void);
uint32_t crc_by_machine(uint32_t crc, const unsigned char *bytes, size_t n);

#endif
