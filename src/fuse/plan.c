/* SPDX-License-Identifier: Apache-2.0 */
/* Where every transient buffer lies.  A buffer is a rectangle, its lifetime wide and its bytes high; rectangles are to be
 * packed into a strip as long as the program and as low as can be, moving up and down alone.
 *
 * Greedy: rectangles in some order, each into the lowest gap that those before it leave.  A few orders are tried and the
 * lowest result is taken; none is tried after one that comes close to `live`, which nothing can undercut, nor when it would
 * take so many looks at rectangles that planning would be felt.  By time comes first: it is quick, since rectangles of the past are
 * forgotten, and packs a transformer's forward and backward almost without loss.  Then orders are mended: what reaches highest
 * goes to the front, some rounds over, which finds the places of large buffers among chains of others (embedding and head beside
 * the gathers of layers). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/fuse/fuse.h"

static const int64_t LOOKS = 48 << 20; /* at rectangles, some 60 ms: an order that may need more is not begun */
static const double CLOSE = 1.01;      /* of live: good enough */

/* --- the strip ---------------------------------------------------------------------------------------------------------- */

typedef struct Rect {
  int first, last;
  int64_t bottom, top;
} Rect;

/* The rectangles placed so far from the lowest bottom to the highest, in pieces, so that both a walk over them and an
 * insertion are quick. */
enum { PIECE = 128 };
typedef struct Piece {
  int n;
  Rect at[PIECE];
} Piece;

typedef struct Strip {
  Arena *arena;
  Piece **pieces;
  int npieces;
  int64_t top, looks;
} Strip;

static void strip_clear(Strip *s) {
  s->npieces = 1;
  if (!s->pieces[0]) s->pieces[0] = arena_new(s->arena, Piece);
  s->pieces[0]->n = 0;
  s->top = 0;
}

/* The lowest bottom at which a rectangle of this height is free from step first to last. */
static int64_t strip_find(Strip *s, int first, int last, int64_t height) {
  int64_t bottom = 0;
  for (int i = 0; i < s->npieces; i++) {
    const Piece *p = s->pieces[i];
    s->looks += p->n;
    for (int j = 0; j < p->n; j++) { /* no branch that depends on lifetimes alone: it could not be foreseen */
      const Rect *r = &p->at[j];
      bool meets = (r->first <= last) & (r->last >= first);
      if (meets & (r->bottom - bottom >= height)) return bottom;
      int64_t top = meets ? r->top : 0;
      bottom = top > bottom ? top : bottom;
    }
  }
  return bottom;
}

/* Forgets rectangles that end before this step. */
static void strip_forget(Strip *s, int step) {
  int kept = 0;
  for (int i = 0; i < s->npieces; i++) {
    Piece *p = s->pieces[i];
    int n = 0;
    for (int j = 0; j < p->n; j++)
      if (p->at[j].last >= step) p->at[n++] = p->at[j];
    p->n = n;
    if (!n) continue;
    s->pieces[i] = s->pieces[kept]; /* keeps the empty one for later */
    s->pieces[kept++] = p;
  }
  s->npieces = kept ? kept : 1;
}

static void piece_split(Strip *s, int i) {
  for (int k = s->npieces; k > i + 1; k--) s->pieces[k] = s->pieces[k - 1];
  Piece *low = s->pieces[i], *high = arena_new(s->arena, Piece);
  s->pieces[i + 1] = high;
  s->npieces++;
  high->n = low->n - PIECE / 2;
  low->n = PIECE / 2;
  memcpy(high->at, low->at + low->n, sizeof *high->at * (size_t)high->n);
}

static void strip_insert(Strip *s, Rect r) {
  int i = 0;
  while (i + 1 < s->npieces && s->pieces[i + 1]->at[0].bottom <= r.bottom) i++;
  if (s->pieces[i]->n == PIECE) {
    piece_split(s, i);
    i += s->pieces[i + 1]->at[0].bottom <= r.bottom;
  }
  Piece *p = s->pieces[i];
  int j = p->n++;
  for (; j > 0 && p->at[j - 1].bottom > r.bottom; j--) p->at[j] = p->at[j - 1];
  p->at[j] = r;
  if (r.top > s->top) s->top = r.top;
}

/* --- orders ------------------------------------------------------------------------------------------------------------- */

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int64_t life(const Buffer *b) { return (int64_t)b->last - b->first + 1; }

/* Total orders of the buffers themselves, so that no plan depends on how qsort treats equals. */
static int compare_place(const Buffer *a, const Buffer *b) {
  int c = compare(a->first, b->first);
  return c ? c : compare((int64_t)(uintptr_t)a, (int64_t)(uintptr_t)b);
}

static int by_size(const void *p, const void *q) {
  const Buffer *a = *(Buffer *const *)p, *b = *(Buffer *const *)q;
  int c = compare((int64_t)b->nbytes, (int64_t)a->nbytes);
  return c ? c : compare_place(a, b);
}

static int by_area(const void *p, const void *q) {
  const Buffer *a = *(Buffer *const *)p, *b = *(Buffer *const *)q;
  int c = compare(life(b) * (int64_t)b->nbytes, life(a) * (int64_t)a->nbytes);
  return c ? c : compare_place(a, b);
}

static int by_life(const void *p, const void *q) {
  const Buffer *a = *(Buffer *const *)p, *b = *(Buffer *const *)q;
  int c = compare(life(b), life(a));
  return c ? c : by_size(p, q);
}

static int by_time(const void *p, const void *q) { return compare_place(*(Buffer *const *)p, *(Buffer *const *)q); }

typedef int Order(const void *p, const void *q);
static Order *const orders[] = {by_time, by_size, by_area, by_life};

/* --- the plan ----------------------------------------------------------------------------------------------------------- */

static void measure_live(Program *program, Arena *arena, Buffer *const *buffers, int n) {
  int64_t *change = arena_array(arena, int64_t, program->nsteps + 1), live = 0;
  for (int i = 0; i < n; i++) {
    const Buffer *b = buffers[i];
    CHECK(b->first <= b->last && b->last < program->nsteps && b->nbytes % 64 == 0);
    change[b->first] += (int64_t)b->nbytes;
    change[b->last + 1] -= (int64_t)b->nbytes;
  }
  program->live = 0;
  program->peak_step = 0;
  for (int i = 0; i < program->nsteps; i++) {
    live += change[i];
    if ((size_t)live <= program->live) continue;
    program->live = (size_t)live;
    program->peak_step = i;
  }
}

static void place_in_order(Strip *s, Buffer *const *buffers, int n, Order *order, int64_t *offset) {
  strip_clear(s);
  for (int i = 0; i < n; i++) {
    const Buffer *b = buffers[i];
    if (order == by_time && i % PIECE == 0) strip_forget(s, b->first);
    offset[i] = strip_find(s, b->first, b->last, (int64_t)b->nbytes);
    strip_insert(s, (Rect){b->first, b->last, offset[i], offset[i] + (int64_t)b->nbytes});
  }
}

typedef struct Search {
  Strip strip;
  Buffer **buffers; /* in the order in which they were placed last */
  int64_t *offset;  /* theirs, then */
  int n;
  size_t least;  /* the lowest strip so far */
  double enough; /* one that need not be undercut */
} Search;

/* Places buffers as they stand; true: nothing better need be looked for, or there is no time to. */
static bool try_order(Search *s, Order *order) {
  place_in_order(&s->strip, s->buffers, s->n, order, s->offset);
  if ((size_t)s->strip.top < s->least) {
    s->least = (size_t)s->strip.top;
    for (int i = 0; i < s->n; i++) s->buffers[i]->offset = s->offset[i];
  }
  return (double)s->least <= s->enough || s->strip.looks + (int64_t)s->n * s->n / 3 > LOOKS;
}

/* Those that reach the top come first, the others as they were: they had the worst of what all before them left. */
static void promote_highest(Search *s) {
  int first = 0, rest = 0;
  Buffer **others = arena_array(s->strip.arena, Buffer *, s->n);
  for (int i = 0; i < s->n; i++)
    if (s->offset[i] + (int64_t)s->buffers[i]->nbytes == s->strip.top)
      s->buffers[first++] = s->buffers[i];
    else
      others[rest++] = s->buffers[i];
  memcpy(s->buffers + first, others, sizeof *others * (size_t)rest);
}

static void search(Search *s) {
  enum { ROUNDS = 8 };
  Order *const mended[] = {by_time, by_life};
  for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
    qsort(s->buffers, (size_t)s->n, sizeof *s->buffers, orders[k]);
    if (try_order(s, orders[k])) return;
  }
  for (size_t k = 0; k < sizeof mended / sizeof *mended; k++) {
    qsort(s->buffers, (size_t)s->n, sizeof *s->buffers, mended[k]);
    for (int i = 0; i < ROUNDS; i++) {
      if (try_order(s, NULL)) return;
      promote_highest(s);
    }
  }
}

/* Places the buffers of a class that some step touches; gives the height of the strip. */
static size_t place_class(Program *program, Arena *arena, BufferClass class, Search *s) {
  s->buffers = arena_array(arena, Buffer *, program->nbuffers);
  for (int i = 0; i < program->nbuffers; i++) {
    Buffer *b = &program->buffers[i];
    if (b->class != class) continue;
    b->offset = 0;
    if (b->nbytes && b->first >= 0) s->buffers[s->n++] = b; /* first < 0: of no step */
  }
  if (class == BUFFER_TRANSIENT) measure_live(program, arena, s->buffers, s->n);
  if (class == BUFFER_TRANSIENT) s->enough = CLOSE * (double)program->live;
  s->least = SIZE_MAX;
  s->offset = arena_array(arena, int64_t, s->n);
  s->strip = (Strip){.arena = arena, .pieces = arena_array(arena, Piece *, 2 * s->n / PIECE + 2)};
  search(s);
  return s->least;
}

void plan_memory(Program *program) {
  Arena *arena = arena_open();
  program->host = place_class(program, arena, BUFFER_HOST, &(Search){.enough = INFINITY});
  program->transient = place_class(program, arena, BUFFER_TRANSIENT, &(Search){0});
  arena_close(arena);
}
