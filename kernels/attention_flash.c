/* SPDX-License-Identifier: Apache-2.0 */
/* attention and attention_grad as text: the constants that the .inc.c files are compiled with, and the workspace they want. */
#include "kernels/rows.h"
#include "kernels/texts.h"

enum {
  BLOCK = 96,    /* HPT_AT_BLOCK of the texts: queries, and keys, of a block */
  HEADS = 4,     /* query heads of a task at most, so that its room stays in the second-level cache */
  PARTS_MOST = 8 /* the backward's splits of the keys at most: each more costs a copy of dq */
};

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t padded(int64_t D) { return divide_up(D, 16) * 16; }

/* Bytes of the texts' struct Room, in its order of members; the texts assert that they agree. */
static int64_t forward_room(int64_t D, int64_t heads) {
  int64_t keys = BLOCK * (D + padded(D)), queries = heads * BLOCK * (2 * padded(D) + 1 + 16);
  return 4 * (keys + queries + 16 * BLOCK + 16 + BLOCK);
}

static int64_t grad_room(int64_t D) {
  return 4 * (BLOCK * (2 * D + padded(D)) + BLOCK * 4 * padded(D) + 2 * BLOCK * BLOCK + 16 * padded(D) + 3 * BLOCK);
}

/* Heads of a task: all that share a key head, up to HEADS. */
static int64_t forward_heads(const BigCall *call) { return smaller(call->in[0].dim[2] / call->in[1].dim[2], HEADS); }

size_t flash_attention_workspace(const BigCall *call) {
  return (size_t)(forward_room(call->in[0].dim[3], forward_heads(call)) * call->threads);
}

void flash_attention_text(const BigCall *call, const char *symbol, Text *source) {
  long long D = call->in[0].dim[3], heads = forward_heads(call);
  text_printf(source, "%s#define SYMBOL %s\n#define D %lld\n#define DP %lld\n#define HEADS %lld\n#define ROOM %lld\n%s",
              text_attention_tiles, symbol, D, (long long)padded(D), heads, (long long)forward_room(D, heads), text_attention);
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
  text_printf(source, "%s#define SYMBOL %s\n#define D %lld\n#define DP %lld\n#define ROOM %lld\n#define PARTS %lld\n",
              text_attention_tiles, symbol, D, (long long)padded(D), (long long)grad_room(D), (long long)grad_parts(call));
  edges_print(call, grad_parts(call), source);
  text_printf(source, "%s", text_attention_grad);
}
