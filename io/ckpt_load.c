/* SPDX-License-Identifier: Apache-2.0 */
/* Loading by all ranks, checked: each hashes what it reads, and the hashes are combined as they were when it was written, so that
 * no byte is read twice for its checksum.  What nobody has loaded whole is read for that by the ranks in turn. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/ckpt_impl.h"
#include "src/base/hash.h"
#include "src/base/vec.h"

enum { BITE = 1 << 20 }; /* bytes that are read and hashed while caches hold them */

struct CkptLoad {
  Arena *arena;
  Comm *comm;
  const Ckpt *ckpt;
  VEC(CkptHash) hashes;
  Why why; /* the first read that failed; "" none */
};

/* --- hashes of all ranks ---------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
  const CkptHash *x = a, *y = b;
  if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

const CkptHash *ckpt_gather_hashes(Arena *arena, Comm *comm, const CkptHash *mine, int64_t n_mine, int64_t *n) {
  int size = comm_size(comm);
  int64_t most = 1, *counts = arena_array(arena, int64_t, size);
  comm_gather(comm, &n_mine, sizeof n_mine, counts);
  for (int r = 0; r < size; r++)
    if (counts[r] > most) most = counts[r];
  CkptHash *padded = arena_array(arena, CkptHash, most), *all = arena_array(arena, CkptHash, most * size);
  if (n_mine) memcpy(padded, mine, sizeof *padded * (size_t)n_mine);
  comm_gather(comm, padded, sizeof *padded * (size_t)most, all);
  *n = 0;
  for (int r = 0; r < size; r++) {
    memmove(all + *n, all + r * most, sizeof *all * (size_t)counts[r]);
    *n += counts[r];
  }
  qsort(all, (size_t)*n, sizeof *all, by_place);
  return all;
}

bool ckpt_agree(Comm *comm, bool good, Why *why) {
  if (!good && comm_nodes(comm) > 1) {
    size_t n = strlen(why->text);
    snprintf(why->text + n, sizeof why->text - n, " (rank %d on %s)", comm_rank(comm), comm_node(comm));
  }
  return !comm_any_reason(comm, !good, why->text, sizeof why->text);
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

CkptLoad *ckpt_load_open(Comm *comm, const Ckpt *ckpt) {
  Arena *arena = arena_open();
  CkptLoad *load = arena_new(arena, CkptLoad);
  *load = (CkptLoad){.arena = arena, .comm = comm, .ckpt = ckpt};
  return load;
}

/* Ranges that follow one another are one. */
static void add_hash(CkptLoad *load, int32_t tensor, int64_t first, int64_t n, const void *bytes, size_t nbytes) {
  CkptHash *last = load->hashes.n ? &load->hashes.at[load->hashes.n - 1] : NULL;
  if (last && last->tensor == tensor && last->first + last->n == first) {
    last->crc32c = crc32c(last->crc32c, bytes, nbytes);
    last->n += n;
  } else {
    vec_push(load->arena, &load->hashes, (CkptHash){tensor, crc32c(0, bytes, nbytes), first, n});
  }
}

void ckpt_load_read(CkptLoad *load, const char *path, DType dtype, int64_t first, int64_t n, void *out) {
  const Ckpt *c = load->ckpt;
  const CkptEntry *e = ckpt_find(c, path);
  size_t size = dtype_size(dtype);
  int64_t at;
  CHECK(e && !e->is_text && first >= 0 && n >= 0 && first <= e->n && n <= e->n - first);
  Why *why = *load->why.text ? NULL : &load->why;
  if (e->dtype != dtype)
    why_not(why, "%s is not %s", path, dtype_name(dtype));
  else if (n && try_ckpt_locate(c, e, &at, why))
    for (int64_t most = BITE / (int64_t)size, end = first + n; first < end; first += most) {
      n = end - first < most ? end - first : most;
      if (!try_ckpt_bytes(c, e, at + first * (int64_t)size, out, (size_t)n * size, why)) return;
      add_hash(load, (int32_t)(e - ckpt_at(c, 0)), first, n, out, (size_t)n * size);
      out = (char *)out + (size_t)n * size;
    }
}

void ckpt_load_soon(CkptLoad *load, const char *path, int64_t first, int64_t n) {
  const CkptEntry *e = ckpt_find(load->ckpt, path);
  int64_t at, size = (int64_t)dtype_size(e->dtype);
  if (try_ckpt_locate(load->ckpt, e, &at, NULL)) ckpt_bytes_soon(load->ckpt, e, at + first * size, n * size);
}

/* --- the verdict ------------------------------------------------------------------------------------------------------------ */

/* Whether the hashes from *at on, as far as they are this entry's, cover it once; its checksum from them. */
static bool join(const CkptEntry *e, int32_t tensor, const CkptHash **at, const CkptHash *end, uint32_t *crc) {
  int64_t covered = 0;
  bool once = true;
  *crc = 0;
  for (; *at < end && (*at)->tensor == tensor; ++*at) {
    once &= (*at)->first == covered;
    *crc = crc32c_combine(*crc, (*at)->crc32c, (uint64_t)(*at)->n * dtype_size(e->dtype));
    covered += (*at)->n;
  }
  return once && covered == e->n;
}

static bool judge(CkptLoad *load, Why *why) {
  int64_t n, unread = 0;
  const CkptHash *at = ckpt_gather_hashes(load->arena, load->comm, load->hashes.at, load->hashes.n, &n), *end = at + n;
  bool whole = true;
  if (*load->why.text) return why_not(why, "%s", load->why.text);
  for (int i = 0; whole && i < ckpt_n(load->ckpt); i++) {
    const CkptEntry *e = ckpt_at(load->ckpt, i);
    uint32_t crc;
    if (!join(e, i, &at, end, &crc))
      whole =
          unread++ % comm_size(load->comm) != comm_rank(load->comm) || try_ckpt_verify(load->ckpt, i, ckpt_n(load->ckpt), 1, why);
    else if (crc != e->crc32c)
      whole = why_not(why, "%s, checksum %08" PRIx32 ", manifest %08" PRIx32, e->where, crc, e->crc32c);
  }
  return whole;
}

bool try_ckpt_load_close(CkptLoad *load, Why *why) {
  Why mine = {""};
  bool ok = judge(load, &mine);
  bool whole = ckpt_agree(load->comm, ok, &mine);
  arena_close(load->arena);
  return whole || why_not(why, "%s", mine.text);
}
