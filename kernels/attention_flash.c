/* SPDX-License-Identifier: Apache-2.0 */
/* attention and attention_grad as text: the constants that the .inc.c files are compiled with, and the workspace they want. */
#include "kernels/rows.h"
#include "kernels/texts.h"

enum {
  BLOCK = 96,         /* HPT_AT_BLOCK of the texts: queries, and keys, of a block */
  HEADS_MOST = 4,     /* query heads of a forward task at most; with its queries a room is to fit the second-level cache */
  QUERIES_MOST = 384, /* queries of a forward task at most, over its heads */
  KEYS_MOST = 3,      /* blocks of keys that a block of queries meets at a time in the backward, at most */
  PARTS_MOST = 8      /* splits of the keys in the backward at most: each more costs a copy of dq */
};

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t padded(int64_t D) { return divide_up(D, 16) * 16; }

/* A forward task: heads that share a key head, and queries of each; fewer where threads would have too little to share. */
typedef struct Forward {
  int64_t D, heads, queries;
} Forward;

static Forward forward_of(const BigCall *call) {
  const BigView *q = &call->in[0];
  int64_t B = q->dim[0], S = q->dim[1], G = call->in[1].dim[2], group = q->dim[2] / G;
  Forward f = {q->dim[3], smaller(group, HEADS_MOST), 0};
  int64_t blocks = larger(smaller(QUERIES_MOST / f.heads / BLOCK, divide_up(S, BLOCK)), 1),
          tasks = B * G * divide_up(group, f.heads);
  while (blocks > 1 && tasks * divide_up(S, blocks * BLOCK) < 4 * call->threads) blocks--;
  f.queries = blocks * BLOCK;
  return f;
}

/* Bytes of the texts' struct Room, in its order of members; the texts assert that they agree. */
static int64_t forward_room(const Forward *f) {
  int64_t keys = BLOCK * (f->D + padded(f->D)), queries = f->heads * f->queries * (2 * padded(f->D) + 1 + 16);
  return 4 * (keys + queries + 16 * BLOCK + 16 + f->queries);
}

size_t flash_attention_workspace(const BigCall *call) {
  Forward f = forward_of(call);
  return (size_t)(forward_room(&f) * call->threads);
}

void flash_attention_text(const BigCall *call, const char *symbol, Text *source) {
  Forward f = forward_of(call);
  text_printf(source, "%s#define SYMBOL %s\n#define D %lld\n#define DP %lld\n", text_attention_tiles, symbol, (long long)f.D,
              (long long)padded(f.D));
  text_printf(source, "#define HEADS %lld\n#define QUERIES %lld\n#define ROOM %lld\n%s", (long long)f.heads, (long long)f.queries,
              (long long)forward_room(&f), text_attention);
}

/* Blocks of keys at a time: a block of queries is then fetched less often, as long as the room stays small. */
static int64_t grad_keys(int64_t D) { return larger(smaller(KEYS_MOST, 96 / padded(D)), 1); }

static int64_t grad_room(int64_t D) {
  int64_t keys = grad_keys(D) * BLOCK * (2 * D + 3 * padded(D));
  return 4 * (keys + BLOCK * 2 * padded(D) + 2 * BLOCK * BLOCK + 16 * padded(D) + 3 * BLOCK);
}

/* Parts of the keys: one where the key heads alone keep the threads busy. */
static int64_t grad_parts(const BigCall *call) {
  int64_t heads = call->in[2].dim[0] * call->in[2].dim[2], blocks = divide_up(call->in[2].dim[1], BLOCK);
  int64_t wanted = call->threads > 1 ? divide_up(2 * call->threads, heads) : 1;
  return smaller(smaller(wanted, PARTS_MOST), blocks);
}

/* Blocks of queries that see the block of keys. */
static int64_t grad_cost(const BigCall *call, int64_t block) {
  int64_t rest = divide_up(call->in[2].dim[1], BLOCK) - block;
  return call->n[0] ? smaller(rest, divide_up(call->n[0], BLOCK) + 1) : rest;
}

/* Where the parts begin and end, each with about as much work. */
static void edges_print(const BigCall *call, int64_t parts, Text *source) {
  int64_t S = call->in[2].dim[1], blocks = divide_up(S, BLOCK), total = 0, done = 0, part = 1;
  for (int64_t i = 0; i < blocks; i++) total += grad_cost(call, i);
  text_printf(source, "#define EDGES 0");
  for (int64_t i = 0; i < blocks && part < parts; i++) {
    done += grad_cost(call, i);
    if (done * parts < part * total && blocks - 1 - i > parts - part) continue;
    text_printf(source, ", %lld", (long long)((i + 1) * BLOCK));
    part++;
  }
  text_printf(source, ", %lld\n", (long long)S);
}

size_t flash_attention_grad_workspace(const BigCall *call) {
  const BigView *q = &call->in[1];
  int64_t rows = q->dim[0] * q->dim[1] * q->dim[2];
  return (size_t)(grad_room(q->dim[3]) * call->threads + 4 * rows * (1 + (grad_parts(call) - 1) * q->dim[3]));
}

void flash_attention_grad_text(const BigCall *call, const char *symbol, Text *source) {
  long long D = call->in[1].dim[3];
  text_printf(source,
              "%s#define SYMBOL %s\n#define D %lld\n#define DP %lld\n#define ROOM %lld\n#define KEYS %lld\n#define PARTS %lld\n",
              text_attention_tiles, symbol, D, (long long)padded(D), (long long)grad_room(D), (long long)grad_keys(D),
              (long long)grad_parts(call));
  edges_print(call, grad_parts(call), source);
  text_printf(source, "%s", text_attention_grad);
}
