/* SPDX-License-Identifier: Apache-2.0 */
/* The file is a pickle of plain dictionaries, lists, numbers and texts (Python's pickletools documents the opcodes).  The viewer's
 * page has an unpickler of its own (torch/utils/viz/MemoryViz.js), which knows protocols 2 to 4 and few opcodes: these are the
 * ones that are written, of protocol 2.  Lists grow one by one, since that unpickler takes a batch as arguments of one call. */
#include "src/prof/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/vec.h"

enum Opcode {
  APPEND = 'a',
  BINGET = 'h',
  BININT = 'J',
  BININT1 = 'K',
  BININT2 = 'M',
  BINPUT = 'q',
  BINUNICODE = 'X',
  EMPTY_DICT = '}',
  EMPTY_LIST = ']',
  LONG1 = 0x8a,
  LONG_BINGET = 'j',
  LONG_BINPUT = 'r',
  MARK = '(',
  PROTO = 0x80,
  SETITEMS = 'u',
  STOP = '.'
};

typedef enum Word {
  W_ACTION,
  W_ACTIVE,
  W_ACTIVE_SIZE,
  W_ADDR,
  W_ADDRESS,
  W_ALLOC,
  W_ALLOCATED_SIZE,
  W_BLOCKS,
  W_CATEGORY,
  W_DEVICE,
  W_FILENAME,
  W_FRAMES,
  W_FREE_COMPLETED,
  W_FREE_REQUESTED,
  W_INACTIVE,
  W_LARGE,
  W_LINE,
  W_NAME,
  W_REQUESTED_SIZE,
  W_SEGMENT_ALLOC,
  W_SEGMENT_TYPE,
  W_SEGMENTS,
  W_SIZE,
  W_STATE,
  W_STREAM,
  W_TIME_US,
  W_TOTAL_SIZE,
  W_TRACES,
  WORDS
} Word;
static const char *const words[WORDS] = {"action",         "active_allocated", "active_size",  "addr",         "address",  "alloc",
                                         "allocated_size", "blocks",           "category",     "device",       "filename", "frames",
                                         "free_completed", "free_requested",   "inactive",     "large",        "line",     "name",
                                         "requested_size", "segment_alloc",    "segment_type", "segments",     "size",     "state",
                                         "stream",         "time_us",          "total_size",   "device_traces"};

typedef struct Holder {
  const char *category, *name, *file;
  int line;
  bool written;
} Holder;

typedef struct Held {
  uint64_t address, nbytes;
  int holder;
} Held;

struct Snapshot {
  Arena *arena;
  Text *out;
  uint64_t address, nbytes;
  bool written[WORDS];
  VEC(Holder) holders;
  VEC(Held) held;
};

/* --- opcodes ----------------------------------------------------------------------------------------------------------------- */

static void put(Snapshot *s, int byte) { text_add(s->out, &(char){(char)byte}, 1); }

static void put_bytes(Snapshot *s, uint64_t value, int n) {
  for (int i = 0; i < n; i++) put(s, (int)(value >> 8 * i & 0xff));
}

static void put_number(Snapshot *s, uint64_t value) {
  CHECK(value >> 63 == 0); /* or its sign would be taken for one */
  int n = value < 1 << 8 ? 1 : value < 1 << 16 ? 2 : value < 1u << 31 ? 4 : 8;
  put(s, n == 1 ? BININT1 : n == 2 ? BININT2 : n == 4 ? BININT : LONG1);
  if (n == 8) put(s, 8);
  put_bytes(s, value, n);
}

static void put_text(Snapshot *s, const char *text) {
  size_t n = strlen(text);
  put(s, BINUNICODE);
  put_bytes(s, n, 4);
  text_add(s->out, text, n);
}

/* A word is written once, and then referred to. */
static void put_word(Snapshot *s, Word word) {
  if (!s->written[word]) put_text(s, words[word]);
  put(s, s->written[word] ? BINGET : BINPUT);
  put(s, (int)word);
  s->written[word] = true;
}

static void put_pair(Snapshot *s, Word key, uint64_t value) {
  put_word(s, key);
  put_number(s, value);
}

static void put_named(Snapshot *s, Word key, Word value) {
  put_word(s, key);
  put_word(s, value);
}

static void dict_begin(Snapshot *s) {
  put(s, EMPTY_DICT);
  put(s, MARK);
}

static void dict_end(Snapshot *s) { put(s, SETITEMS); }

/* A list of one frame, or of none; written once, too. */
static void put_frames(Snapshot *s, int holder) {
  put_word(s, W_FRAMES);
  if (holder < 0) {
    put(s, EMPTY_LIST);
    return;
  }
  Holder *h = &s->holders.at[holder];
  if (!h->written) {
    put(s, EMPTY_LIST);
    dict_begin(s);
    put_word(s, W_NAME);
    put_text(s, h->name);
    put_word(s, W_FILENAME);
    put_text(s, h->file);
    put_pair(s, W_LINE, (uint64_t)h->line);
    dict_end(s);
    put(s, APPEND);
  }
  put(s, h->written ? LONG_BINGET : LONG_BINPUT);
  put_bytes(s, (uint64_t)(WORDS + holder), 4);
  h->written = true;
}

/* --- events --------------------------------------------------------------------------------------------------------------------
 */

static void put_event(Snapshot *s, Word action, uint64_t address, uint64_t nbytes, int64_t micros, int holder) {
  dict_begin(s);
  put_named(s, W_ACTION, action);
  put_pair(s, W_ADDR, address);
  put_pair(s, W_SIZE, nbytes);
  put_pair(s, W_STREAM, 0);
  put_pair(s, W_TIME_US, (uint64_t)micros);
  put_word(s, W_CATEGORY); /* the viewer wants an unknown one among them */
  put_text(s, holder < 0 ? "unknown" : s->holders.at[holder].category);
  put_frames(s, holder);
  dict_end(s);
  put(s, APPEND);
}

Snapshot *snapshot_open(uint64_t address, uint64_t nbytes, Text *out) {
  Arena *arena = arena_open();
  Snapshot *s = arena_new(arena, Snapshot);
  *s = (Snapshot){.arena = arena, .out = out, .address = address, .nbytes = nbytes};
  put(s, PROTO);
  put(s, 2);
  dict_begin(s);
  put_word(s, W_TRACES);
  put(s, EMPTY_LIST); /* of devices, of which there is one */
  put(s, EMPTY_LIST);
  put_event(s, W_SEGMENT_ALLOC, address, nbytes, 0, -1);
  return s;
}

int snapshot_holder(Snapshot *s, const char *category, const char *name, const char *file, int line) {
  Holder holder = {arena_strdup(s->arena, category), arena_strdup(s->arena, name), arena_strdup(s->arena, file), line, false};
  vec_push(s->arena, &s->holders, holder);
  return s->holders.n - 1;
}

void snapshot_take(Snapshot *s, int holder, uint64_t address, uint64_t nbytes, int64_t micros) {
  CHECK(address >= s->address && nbytes && address + nbytes <= s->address + s->nbytes);
  vec_push(s->arena, &s->held, (Held){address, nbytes, holder});
  put_event(s, W_ALLOC, address, nbytes, micros, holder);
}

void snapshot_give(Snapshot *s, uint64_t address, int64_t micros) {
  int i = s->held.n - 1;
  while (i >= 0 && s->held.at[i].address != address) i--;
  CHECK(i >= 0);
  Held held = s->held.at[i];
  s->held.at[i] = s->held.at[--s->held.n];
  put_event(s, W_FREE_REQUESTED, held.address, held.nbytes, micros, held.holder);
  put_event(s, W_FREE_COMPLETED, held.address, held.nbytes, micros, held.holder);
}

/* --- the end -------------------------------------------------------------------------------------------------------------------
 */

static int by_address(const void *a, const void *b) {
  const Held *x = a, *y = b;
  return x->address < y->address ? -1 : x->address > y->address;
}

static void put_block(Snapshot *s, Word state, uint64_t address, uint64_t nbytes, int holder) {
  if (!nbytes) return;
  dict_begin(s);
  put_pair(s, W_ADDRESS, address);
  put_pair(s, W_SIZE, nbytes);
  put_pair(s, W_REQUESTED_SIZE, nbytes);
  put_named(s, W_STATE, state);
  put_frames(s, holder);
  dict_end(s);
  put(s, APPEND);
}

/* Blocks fill the segment: the viewer adds their sizes up to addresses. */
static void put_blocks(Snapshot *s) {
  uint64_t at = s->address;
  put_word(s, W_BLOCKS);
  put(s, EMPTY_LIST);
  for (int i = 0; i < s->held.n; i++) {
    const Held *h = &s->held.at[i];
    CHECK(h->address >= at);
    put_block(s, W_INACTIVE, at, h->address - at, -1);
    put_block(s, W_ACTIVE, h->address, h->nbytes, h->holder);
    at = h->address + h->nbytes;
  }
  put_block(s, W_INACTIVE, at, s->address + s->nbytes - at, -1);
}

static void put_segment(Snapshot *s) {
  uint64_t held = 0;
  for (int i = 0; i < s->held.n; i++) held += s->held.at[i].nbytes;
  dict_begin(s);
  put_pair(s, W_DEVICE, 0);
  put_pair(s, W_ADDRESS, s->address);
  put_pair(s, W_TOTAL_SIZE, s->nbytes);
  put_pair(s, W_ALLOCATED_SIZE, held);
  put_pair(s, W_ACTIVE_SIZE, held);
  put_pair(s, W_REQUESTED_SIZE, held);
  put_pair(s, W_STREAM, 0);
  put_named(s, W_SEGMENT_TYPE, W_LARGE);
  put_frames(s, -1);
  put_blocks(s);
  dict_end(s);
}

void snapshot_close(Snapshot *s) {
  if (s->held.n) qsort(s->held.at, (size_t)s->held.n, sizeof *s->held.at, by_address);
  put(s, APPEND); /* the device's events to the list of devices */
  put_word(s, W_SEGMENTS);
  put(s, EMPTY_LIST);
  put_segment(s);
  put(s, APPEND);
  dict_end(s);
  put(s, STOP);
  arena_close(s->arena);
}
