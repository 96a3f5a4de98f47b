/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 as FIPS 180-4 section 6.2 writes it, and CRC-32C by table or by the processor. */
#include "src/base/hash.h"

#include <stdio.h>
#include <string.h>

#include "src/base/crc.h"

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256_block(uint32_t h[8], const unsigned char *p) {
  uint32_t w[64];
  for (int t = 0; t < 16; t++)
    w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 | (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
  for (int t = 16; t < 64; t++) {
    uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t v[8];
  memcpy(v, h, sizeof v);
  for (int t = 0; t < 64; t++) {
    uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
    uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t t1 = v[7] + s1 + choose + round_constant[t] + w[t];
    uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + s0 + majority;
  }
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

void sha256_init(Sha256 *s) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(s->h, start, sizeof start);
  s->nbytes = 0;
}

void sha256_add(Sha256 *s, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  while (n) {
    size_t at = s->nbytes % 64, take = 64 - at < n ? 64 - at : n;
    memcpy(s->block + at, p, take);
    s->nbytes += take;
    p += take;
    n -= take;
    if (s->nbytes % 64 == 0) sha256_block(s->h, s->block);
  }
}

void sha256_add_text(Sha256 *s, const char *text) { sha256_add(s, text, strlen(text) + 1); }

static void sha256_end(Sha256 *s) {
  uint64_t bits = s->nbytes * 8;
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  sha256_add(s, "\x80", 1);
  while (s->nbytes % 64 != 56) sha256_add(s, "", 1);
  sha256_add(s, length, 8);
}

void sha256_hex(Sha256 *s, char hex[65]) {
  sha256_end(s);
  for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", s->h[i]);
}

uint64_t sha256_u64(Sha256 *s) {
  sha256_end(s);
  return (uint64_t)s->h[0] << 32 | s->h[1];
}

/* Polynomials over GF(2) modulo Castagnoli's, bit-reversed: bit 31 is the coefficient of x^0. */
static const uint32_t polynomial = 0x82f63b78u;

/* Eight bytes a turn: table[k] is the effect of a byte that k more bytes follow (Kounavis and Berry, "A systematic approach
 * to building high performance software-based CRC generators", ISCC 2005). */
static const uint32_t (*crc_table(void))[256] {
  static uint32_t table[8][256];
  static int ready;
  if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) return (const uint32_t(*)[256])table;
  for (uint32_t i = 0; i < 256; i++) { /* racing threads write the same values */
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
    table[0][i] = c;
  }
  for (int k = 1; k < 8; k++)
    for (int i = 0; i < 256; i++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
  __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
  return (const uint32_t(*)[256])table;
}

uint32_t crc_by_table(uint32_t crc, const unsigned char *p, size_t n) {
  const uint32_t(*t)[256] = crc_table();
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    crc = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^
          t[0][p[7]];
  }
  for (; n; n--, p++) crc = t[0][(crc ^ *p) & 255] ^ crc >> 8;
  return crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n) {
  return ~(crc_has_machine() ? crc_by_machine(~crc, bytes, n) : crc_by_table(~crc, bytes, n));
}

static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
  }
  return product;
}

/* Appending n bytes multiplies what came before by x^(8n); the inversions of crc and second cancel. */
uint32_t crc32c_combine(uint32_t crc, uint32_t second, uint64_t n) {
  uint32_t power = UINT32_C(1) << 31, square = UINT32_C(1) << 23; /* 1, x^8 */
  for (; n; n >>= 1) {
    if (n & 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  return multiply(power, crc) ^ second;
}
