/* SPDX-License-Identifier: Apache-2.0 */
/* Where every transient buffer lies.  A buffer is a rectangle, its lifetime wide and its bytes high; rectangles are to be
 * packed into a strip as long as the program and as low as can be, moving up and down alone.
 *
 * Several simple heuristics run one after the other, and the lowest result is taken; no heuristic runs after one that comes
 * close to `live`, which nothing can undercut, nor after so many looks at rectangles that planning would be felt.
 *   skyline: fills the lowest valley of the outline with the longest-lived buffer that fits in; a valley that nothing fits is
 *     filled up (Burke, Kendall, Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem", 2004).  Its
 *     time grows little faster than the number of buffers.
 *   orders: buffers in some order (largest first, …), each into the lowest gap between those before it. */
#include <limits.h>
#include <stdlib.h>

#include "src/fuse/fuse.h"

/* Looks at rectangles after which no further heuristic is begun: some 10 ms. */
static const int64_t LOOKS = 8 << 20;
static const double CLOSE = 1.005; /* of live: good enough */

typedef struct Rect {
  int buffer, first, last;
  int64_t nbytes, offset;
} Rect;

typedef struct Pack {
  Arena *arena;
  int n, nsteps;
  Rect *rects; /* sorted by first, then longest-lived */
  int64_t looks;
} Pack;

static int64_t span(const Rect *r) { return (int64_t)r->last - r->first + 1; }

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* --- skyline ------------------------------------------------------------------------------------------------------------ */

/* A stretch of steps up to which the strip is filled to one height. */
typedef struct Stretch {
  int first, last;
  int64_t height;
  int left, right; /* neighbours, -1 at the ends */
  int at;          /* in the heap, -1 when it is gone */
} Stretch;

typedef struct Skyline {
  Pack *pack;
  Stretch *stretches;
  int nstretches, nfree;
  int *free; /* stretches that are gone */
  int *heap; /* stretches, the lowest first */
  int nheap;
  int *by_span;          /* rects, the longest-lived first */
  int *next_unplaced;    /* in by_span: itself when unplaced, else a later one (path-halved) */
  int *next_by_first;    /* the same in rects */
  const int *span_start; /* by_span from here on live at most so many steps */
  const int *first_start; /* rects from here on start at this step or later */
} Skyline;

static bool lower(const Skyline *s, int a, int b) {
  const Stretch *x = &s->stretches[a], *y = &s->stretches[b];
  return x->height < y->height || (x->height == y->height && x->first < y->first);
}

static void heap_set(Skyline *s, int at, int stretch) {
  s->heap[at] = stretch;
  s->stretches[stretch].at = at;
}

/* Moves the stretch at `at` to where it belongs. */
static void heap_move(Skyline *s, int at) {
  int x = s->heap[at];
  for (; at > 0 && lower(s, x, s->heap[(at - 1) / 2]); at = (at - 1) / 2) heap_set(s, at, s->heap[(at - 1) / 2]);
  for (;;) {
    int child = 2 * at + 1;
    if (child + 1 < s->nheap && lower(s, s->heap[child + 1], s->heap[child])) child++;
    if (child >= s->nheap || !lower(s, s->heap[child], x)) break;
    heap_set(s, at, s->heap[child]);
    at = child;
  }
  heap_set(s, at, x);
}

static int stretch_add(Skyline *s, int first, int last, int64_t height, int left, int right) {
  int i = s->nfree ? s->free[--s->nfree] : s->nstretches++;
  s->stretches[i] = (Stretch){first, last, height, left, right, s->nheap};
  if (left >= 0) s->stretches[left].right = i;
  if (right >= 0) s->stretches[right].left = i;
  s->heap[s->nheap++] = i;
  heap_move(s, s->nheap - 1);
  return i;
}

static void stretch_remove(Skyline *s, int i) {
  Stretch *x = &s->stretches[i];
  int at = x->at, moved = s->heap[--s->nheap];
  if (x->left >= 0) s->stretches[x->left].right = x->right;
  if (x->right >= 0) s->stretches[x->right].left = x->left;
  s->free[s->nfree++] = i;
  x->at = -1;
  if (moved == i) return;
  heap_set(s, at, moved);
  heap_move(s, at);
}

/* Neighbours of one height become one stretch. */
static void stretch_join(Skyline *s, int i) {
  Stretch *x = &s->stretches[i];
  if (x->left >= 0 && s->stretches[x->left].height == x->height) {
    x->first = s->stretches[x->left].first;
    stretch_remove(s, x->left);
  }
  if (x->right >= 0 && s->stretches[x->right].height == x->height) {
    x->last = s->stretches[x->right].last;
    stretch_remove(s, x->right);
  }
  heap_move(s, x->at);
}

static int find_unplaced(int *next, int i) {
  while (next[i] != i) i = next[i] = next[next[i]];
  return i;
}

/* The longest-lived unplaced rect within the steps first…last, or -1: whichever is shorter is searched, those that live no
 * longer than the stretch or those that start in it. */
static int skyline_choose(Skyline *s, int first, int last) {
  Pack *p = s->pack;
  int from = s->span_start[last - first + 1], lo = s->first_start[first], hi = s->first_start[last + 1], best = -1;
  if (p->n - from <= hi - lo || first == 0) {
    for (int i = find_unplaced(s->next_unplaced, from); i < p->n; i = find_unplaced(s->next_unplaced, i + 1)) {
      const Rect *r = &p->rects[s->by_span[i]];
      p->looks++;
      if (r->first >= first && r->last <= last) return s->by_span[i];
    }
    return -1;
  }
  for (int i = find_unplaced(s->next_by_first, lo); i < hi; i = find_unplaced(s->next_by_first, i + 1)) {
    const Rect *r = &p->rects[i];
    p->looks++;
    if (r->last > last || (best >= 0 && span(r) <= span(&p->rects[best]))) continue;
    best = i;
  }
  return best;
}

static void skyline_place(Skyline *s, int i, int rect) {
  Rect *r = &s->pack->rects[rect];
  Stretch x = s->stretches[i];
  r->offset = x.height;
  stretch_remove(s, i);
  int left = x.left, right = x.right;
  if (x.first < r->first) left = stretch_add(s, x.first, r->first - 1, x.height, left, right);
  int top = stretch_add(s, r->first, r->last, x.height + r->nbytes, left, right);
  if (r->last < x.last) stretch_add(s, r->last + 1, x.last, x.height, top, right);
  stretch_join(s, top);
}
