/* SPDX-License-Identifier: Apache-2.0 */
/* The longest common subsequence by its table of lengths, quadratic: run files have about 80 lines.  Past LINES_MAX of
 * them all are told as changed. */
#include "src/report/difference.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"

enum { LINES_MAX = 2000 };

typedef struct Line {
  const char *at;
  int n;
} Line;

typedef struct Side {
  Line *at;
  int n;
} Side;

static Side split(Arena *arena, const char *text) {
  Side s = {0};
  for (const char *c = text; *c; c += strcspn(c, "\n"), c += *c == '\n') s.n++;
  s.at = arena_array(arena, Line, s.n);
  s.n = 0;
  for (const char *c = text; *c; c += *c == '\n') {
    int n = (int)strcspn(c, "\n");
    s.at[s.n++] = (Line){c, n};
    c += n;
  }
  return s;
}

static bool same(Line a, Line b) { return a.n == b.n && !memcmp(a.at, b.at, (size_t)a.n); }

static void put(Text *out, char sign, Line line) { text_printf(out, "%c %.*s\n", sign, line.n, line.at); }

int difference_lines(const char *before, const char *after, Text *out) {
  Arena *arena = arena_open();
  Side a = split(arena, before), b = split(arena, after);
  int rows = a.n <= LINES_MAX && b.n <= LINES_MAX ? a.n : 0, width = b.n + 1, changed = 0;
  /* common[i][j]: of a from i on and b from j on */
  int *common = arena_array(arena, int, ((size_t)rows + 1) * (size_t)width);
  for (int i = rows - 1; i >= 0; i--)
    for (int j = b.n - 1; j >= 0; j--) {
      int skip_a = common[(i + 1) * width + j], skip_b = common[i * width + j + 1];
      common[i * width + j] = same(a.at[i], b.at[j]) ? common[(i + 1) * width + j + 1] + 1 : skip_a > skip_b ? skip_a : skip_b;
    }
  text_add(out, "", 0);
  for (int i = 0, j = 0; i < a.n || j < b.n;) {
    bool both = rows && i < a.n && j < b.n;
    if (both && same(a.at[i], b.at[j])) {
      i++, j++;
      continue;
    }
    if (j == b.n || (i < a.n && (!both || common[(i + 1) * width + j] >= common[i * width + j + 1])))
      put(out, '-', a.at[i++]);
    else
      put(out, '+', b.at[j++]);
    changed++;
  }
  arena_close(arena);
  return changed;
}
