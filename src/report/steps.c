/* SPDX-License-Identifier: Apache-2.0 */
/* The steps' lines: which are due, what they average, the header, time left, and the note that breaks a silence. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/base/fail.h"
#include "src/base/thread.h"
#include "src/report/human.h"
#include "src/report/private.h"

enum { HEADER_EVERY = 40, SILENCE = 60, BAR_CELLS = 24 };
static const double line_seconds[2] = {10, 1}; /* between lines that nobody asked for: in a log, in a terminal */
static const double bar_seconds = 0.2;

/* Past the first step, whose compiling and warming up says nothing about the rest.  Wall time: saves and evaluations count. */
static double seconds_left(const Lines *l, int64_t step) {
  if (step <= l->first_step) return NAN;
  double pace = (l->clock() - l->first_at) / (double)(step - l->first_step);
  return step < l->shape.total_steps ? pace * (double)(l->shape.total_steps - step) : 0;
}

static void sum_add(Sum *sum, const Speed *speed, const StepEvent *e) {
  sum->steps++;
  sum->tokens += e->step_tokens;
  sum->flops += (double)e->step_tokens * speed_per_token(speed, &e->per_token).causal;
  sum->seconds += e->seconds;
  if (isfinite(e->loss)) {
    sum->loss += e->loss;
    sum->finite++;
  }
  sum->last = *e;
}

static const char *known(double value, int width, int decimals, char out[HUMAN_TEXT]) {
  return value > 0 && isfinite(value) ? human_fixed(value, width, decimals, out) : strcpy(out, "-");
}

static void print_step(Lines *l) {
  const Sum *s = &l->sum;
  const StepEvent *e = &s->last;
  const Speed *speed = &l->shape.speed;
  double rate = speed_tokens((double)s->tokens, s->seconds), per_token = s->flops / (double)s->tokens,
         loss = s->finite ? s->loss / (double)s->finite : e->loss;
  char line[160], cell[10][HUMAN_TEXT];
  if (l->since_header < 0 || l->since_header >= HEADER_EVERY) {
    snprintf(line, sizeof line, "%-4s %7s %6s %7s %6s %9s %6s %6s %6s %5s %5s %8s", "", "step", "tokens", "loss", "gnorm", "lr",
             "s/step", "tok/s", "FLOP/s", "MFU%", "GiB", "left");
    lines_emit(l, line);
    l->since_header = 0;
  }
  snprintf(cell[0], HUMAN_TEXT, "%9.3e", e->lr);
  snprintf(line, sizeof line, "%-4s %7lld %6s %7s %6s %9s %6s %6s %6s %5s %5s %8s", "step", (long long)e->step,
           human_count(e->tokens ? (double)e->tokens : NAN, cell[1]), human_fixed(loss, 7, 4, cell[2]),
           human_fixed(e->grad_norm, 6, 3, cell[3]), cell[0], known(s->seconds / (double)s->steps, 6, 3, cell[4]),
           human_count(rate, cell[5]), human_rate(speed_flops(speed, per_token, rate), cell[6]),
           known(100 * speed_mfu(speed, per_token, rate), 5, 1, cell[7]), known(e->memory_gib, 5, 1, cell[8]),
           human_duration(seconds_left(l, e->step), cell[9]));
  lines_emit(l, line);
  l->printed_at = l->clock();
  l->sum = (Sum){0};
}

static bool is_due(const Lines *l, int64_t step) {
  if (step == l->first_step || step >= l->shape.last_step) return true;
  if (l->shape.every) return step % l->shape.every == 0;
  return l->clock() - l->printed_at >= line_seconds[l->out_terminal];
}

static void draw_bar(Lines *l, int64_t step) {
  if (!l->out_terminal || (l->clock() - l->bar_at < bar_seconds && *l->bar)) return;
  int64_t total = l->shape.total_steps, every = l->shape.save_every;
  int done = total > 0 ? (int)(BAR_CELLS * (double)(step < total ? step : total) / (double)total) : 0;
  char bar[160], left[HUMAN_TEXT], save[64] = "";
  if (every) snprintf(save, sizeof save, "  save in %lld steps", (long long)(every - step % every));
  snprintf(bar, sizeof bar, "[%.*s%.*s] %lld/%lld%s  left %s", done, "########################", BAR_CELLS - done,
           "........................", (long long)step, (long long)total, save, human_duration(seconds_left(l, step), left));
  lines_bar(l, bar);
  l->bar_at = l->clock();
}

void lines_step(Lines *l, const StepEvent *e) {
  pthread_mutex_lock(&l->lock);
  CHECK(l->running);
  double now = l->clock();
  l->alive_at = now;
  l->note_at = 0;
  l->step_seconds = e->seconds;
  if (!l->first_step) {
    l->first_step = e->step;
    l->first_at = now;
  }
  sum_add(&l->sum, &l->shape.speed, e);
  if (l->rank == 0) {
    draw_bar(l, e->step);
    if (is_due(l, e->step)) print_step(l);
  }
  pthread_mutex_unlock(&l->lock);
}

void lines_again(Lines *l) {
  pthread_mutex_lock(&l->lock);
  l->sum = (Sum){0};
  l->first_step = 0;
  pthread_mutex_unlock(&l->lock);
}

void lines_doing(Lines *l, const char *doing) {
  pthread_mutex_lock(&l->lock);
  l->doing = doing;
  pthread_mutex_unlock(&l->lock);
}

/* A step that is slow by nature is no silence. */
static void tick(Lines *l) {
  double quiet = l->clock() - l->alive_at;
  if (!l->running || l->rank || quiet < fmax(SILENCE, 2 * l->step_seconds) || quiet < l->note_at + SILENCE) return;
  char line[256];
  snprintf(line, sizeof line, "note  no step for %.0f s%s%s", quiet, *l->doing ? ": " : "", l->doing);
  lines_emit(l, line);
  l->note_at = quiet;
}

void lines_tick(Lines *l) {
  pthread_mutex_lock(&l->lock);
  tick(l);
  pthread_mutex_unlock(&l->lock);
}

static void *heart(void *arg) {
  Lines *l = arg;
  pthread_mutex_lock(&l->lock);
  while (l->running) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec++;
    pthread_cond_timedwait(&l->stop, &l->lock, &at);
    tick(l);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

void lines_run(Lines *l, const RunShape *shape) {
  CHECK(!l->ran);
  l->shape = *shape;
  l->running = l->ran = true;
  l->alive_at = l->clock();
  if (l->rank) return;
  l->beating = try_thread_start(&l->heart, heart, l, NULL); /* a run does without */
}

void lines_run_end(Lines *l) {
  pthread_mutex_lock(&l->lock);
  bool beating = l->beating;
  if (l->running && l->rank == 0) {
    lines_bar(l, "");
    if (l->sum.steps) print_step(l);
  }
  l->running = l->beating = false;
  pthread_cond_signal(&l->stop);
  pthread_mutex_unlock(&l->lock);
  if (beating) CHECK(!pthread_join(l->heart, NULL));
}
