/* SPDX-License-Identifier: Apache-2.0 */
/* Content hashes: SHA-256 (FIPS 180-4) where two contents must never be taken for one another (kernel cache, run and plan
 * hashes), CRC-32C (Castagnoli, RFC 3720 B.4) where a format or a damaged byte asks for it. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct Sha256 {
  uint32_t h[8];
  uint64_t nbytes;
  unsigned char block[64];
} Sha256;

void sha256_init(Sha256 *s);
void sha256_add(Sha256 *s, const void *bytes, size_t n);
void sha256_add_text(Sha256 *s, const char *text); /* with its NUL, so that "ab","c" differs from "a","bc" */
void sha256_hex(Sha256 *s, char hex[65]);          /* ends the hash */
uint64_t sha256_u64(Sha256 *s);                    /* ends the hash; its first 8 bytes, big endian */

/* Continues crc (0 to start) over n bytes. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);
/* The CRC of two texts in a row from the CRC of each; n is the second's length in bytes. */
uint32_t crc32c_combine(uint32_t crc, uint32_t second, uint64_t n);

#endif
