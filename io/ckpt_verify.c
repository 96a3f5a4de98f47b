/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets against the manifest's checksums.  HDF5 says where they lie; then threads take parts of a few MiB, in their order,
 * and hash them, and the parts' hashes are combined. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/ckpt_impl.h"
#include "src/base/hash.h"
#include "src/base/thread.h"

enum { PART = 16 << 20, BITE = 1 << 20 }; /* what a thread takes; what it reads and hashes while caches hold it */

/* One dataset: its parts are first … first + n - 1 of all. */
typedef struct Item {
  const CkptEntry *entry;
  int64_t offset, nbytes, first, n;
} Item;

typedef struct Verify {
  const Ckpt *ckpt;
  Item *items;
  int n_items;
  int64_t n_parts;
  uint32_t *crc32c;     /* of each part */
  atomic_uchar *failed; /* of each item: a part could not be read */
  Why *why;             /* of each item */
  atomic_llong next;    /* the part that nobody has taken yet */
} Verify;

static const Item *item_of(const Verify *v, int64_t part) {
  int low = 0, high = v->n_items - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (v->items[middle].first <= part)
      low = middle;
    else
      high = middle - 1;
  }
  return &v->items[low];
}

static int64_t part_nbytes(const Item *item, int64_t k) { return k + 1 < item->n ? PART : item->nbytes - k * PART; }

static bool try_hash_part(const Verify *v, const Item *item, int64_t offset, int64_t nbytes, char *bytes, uint32_t *crc, Why *why) {
  *crc = 0;
  ckpt_bytes_soon(v->ckpt, item->entry, offset, nbytes);
  for (int64_t at = 0; at < nbytes; at += BITE) {
    size_t n = nbytes - at < BITE ? (size_t)(nbytes - at) : BITE;
    if (!try_ckpt_bytes(v->ckpt, item->entry, offset + at, bytes, n, why)) return false;
    *crc = crc32c(*crc, bytes, n);
  }
  return true;
}

static void *work(void *self) {
  Verify *v = self;
  char *bytes = xmalloc(BITE);
  for (int64_t part; (part = atomic_fetch_add(&v->next, 1)) < v->n_parts;) {
    const Item *item = item_of(v, part);
    int64_t i = item - v->items, k = part - item->first, n = part_nbytes(item, k);
    Why why;
    if (!try_hash_part(v, item, item->offset + k * PART, n, bytes, &v->crc32c[part], &why) && !atomic_exchange(&v->failed[i], 1))
      v->why[i] = why;
  }
  free(bytes);
  return NULL;
}

/* Threads that cannot be had are done without. */
static void hash_all(Verify *v, int threads) {
  pthread_t *ids = xmalloc(sizeof *ids * (size_t)(threads > 0 ? threads : 1));
  int n = 0;
  while (n + 1 < threads && n + 1 < v->n_parts && try_thread_start(&ids[n], work, v, NULL)) n++;
  work(v);
  for (int t = 0; t < n; t++) CHECK(!pthread_join(ids[t], NULL));
  free(ids);
}

static bool is_whole(const Verify *v, int i, Why *why) {
  const Item *item = &v->items[i];
  uint32_t crc = 0;
  if (v->failed[i]) *why = v->why[i];
  if (v->failed[i]) return false;
  for (int64_t k = 0; k < item->n; k++) crc = crc32c_combine(crc, v->crc32c[item->first + k], (uint64_t)part_nbytes(item, k));
  if (crc == item->entry->crc32c) return true;
  return why_not(why, "%s, checksum %08" PRIx32 ", manifest %08" PRIx32, item->entry->where, crc, item->entry->crc32c);
}

int ckpt_verify(const Ckpt *c, int i, int k, int threads, CkptTell *tell, void *self) {
  Arena *arena = arena_open();
  int n = ckpt_n(c), most = (n - i + k - 1) / k, bad = 0;
  if (most < 0) most = 0;
  Verify v = {.ckpt = c, .items = arena_array(arena, Item, most), .why = arena_array(arena, Why, most)};
  v.failed = arena_array(arena, atomic_uchar, most);
  for (; i < n; i += k) {
    Item *item = &v.items[v.n_items];
    *item = (Item){.entry = ckpt_at(c, i), .nbytes = ckpt_entry_nbytes(ckpt_at(c, i)), .first = v.n_parts};
    if (try_ckpt_locate(c, item->entry, &item->offset, &v.why[v.n_items]))
      item->n = (item->nbytes + PART - 1) / PART;
    else
      v.failed[v.n_items] = 1;
    v.n_parts += item->n;
    v.n_items++;
  }
  v.crc32c = arena_array(arena, uint32_t, v.n_parts);
  hash_all(&v, threads);
  for (int at = 0; at < v.n_items; at++) {
    Why why;
    if (is_whole(&v, at, &why)) continue;
    bad++;
    tell(self, why.text);
  }
  arena_close(arena);
  return bad;
}

static void keep_first(void *self, const char *damage) {
  Why *why = self;
  if (!*why->text) why_not(why, "%s", damage);
}

bool try_ckpt_verify(const Ckpt *c, int i, int k, int threads, Why *why) {
  Why first = {""};
  if (!ckpt_verify(c, i, k, threads, keep_first, &first)) return true;
  return why_not(why, "%s", first.text);
}
