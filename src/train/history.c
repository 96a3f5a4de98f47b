/* SPDX-License-Identifier: Apache-2.0 */
/* The text has a line each, in their order:
 *   jump STEP BATCHES
 *   seen LOSS NORM */
#include "src/train/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a normal distribution's deviation, the median distance from the median is this part's inverse. */
static const double of_median = 1.4826;
/* Of what is usual: the least that counts as its deviation, so that a loss that hardly moves has no spikes. */
static const double least = 1e-3;

History *history_open(Arena *arena) {
  History *h = arena_new(arena, History);
  *h = (History){.jump = arena_array(arena, Jump, HISTORY_JUMPS)};
  return h;
}

void history_add(History *h, double loss, double norm) {
  const double value[MEASURES] = {loss, norm};
  if (!isfinite(loss) || !isfinite(norm)) return;
  bool full = h->n == HISTORY_WINDOW;
  for (Measure m = 0; m < MEASURES; m++) {
    double *seen = h->seen[m];
    if (full) memmove(seen, seen + 1, sizeof *seen * (HISTORY_WINDOW - 1));
    seen[h->n - full] = value[m];
  }
  h->n += !full;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Usual history_usual(const History *h, Measure measure) {
  double values[HISTORY_WINDOW];
  if (h->n < HISTORY_LEAST) return (Usual){NAN, INFINITY};
  memcpy(values, h->seen[measure], sizeof values);
  double middle = median(values, h->n);
  for (int i = 0; i < h->n; i++) values[i] = fabs(h->seen[measure][i] - middle);
  return (Usual){middle, fmax(of_median * median(values, h->n), least * fabs(middle))};
}

bool history_jump(History *h, int64_t step, int64_t batches) {
  if (h->jumps == HISTORY_JUMPS) return false;
  h->jump[h->jumps++] = (Jump){step, batches};
  return true;
}

int64_t history_ahead(const History *h) {
  int64_t ahead = 0;
  for (int i = 0; i < h->jumps; i++) ahead += h->jump[i].batches;
  return ahead;
}

void history_print(const History *h, Text *out) {
  char loss[NUM_TEXT], norm[NUM_TEXT];
  for (int i = 0; i < h->jumps; i++) text_printf(out, "jump %" PRId64 " %" PRId64 "\n", h->jump[i].step, h->jump[i].batches);
  for (int i = 0; i < h->n; i++)
    text_printf(out, "seen %s %s\n", num_double(h->seen[MEASURE_LOSS][i], loss), num_double(h->seen[MEASURE_NORM][i], norm));
}

enum { MOST_BATCHES = 1 << 30 }; /* that a jump leaves out: sums stay small numbers */

static bool take_line(History *h, const char *word, const char *a, const char *b) {
  double loss, norm;
  int64_t step, batches;
  if (!strcmp(word, "seen")) {
    if (!num_parse_double(a, &loss) || !num_parse_double(b, &norm)) return false;
    history_add(h, loss, norm);
    return true;
  }
  return !strcmp(word, "jump") && num_parse_int(a, &step) && num_parse_int(b, &batches) && step >= 0 && batches >= 0 &&
         batches <= MOST_BATCHES && history_jump(h, step, batches);
}

bool try_history_parse(History *h, const char *text, Why *why) {
  h->n = h->jumps = 0;
  for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
    char copy[128], *rest = copy, *words[3];
    size_t n = strcspn(line, "\n");
    end = line + n;
    if (n >= sizeof copy) return why_not(why, "a line of %zu bytes", n);
    memcpy(copy, line, n);
    copy[n] = 0;
    for (int i = 0; i < 3; i++) words[i] = strsep(&rest, " ");
    if (!words[2] || rest || !take_line(h, words[0], words[1], words[2])) return why_not(why, "\"%.*s\"", (int)n, line);
  }
  return true;
}
