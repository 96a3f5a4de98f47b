/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/metrics.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/base/version.h"
#include "src/report/append.h"
#include "src/report/tensorboard.h"

struct Metrics {
  Append *file;
  TensorBoard *board;
};

/* Of a line that this program wrote; -1: it is none. */
static int64_t line_step(const char *line, size_t n) {
  static const char type[] = "{\"type\":\"", key[] = ",\"step\":";
  if (n < sizeof type || memcmp(line, type, sizeof type - 1) || line[n - 1] != '}') return -1;
  const char *at = memmem(line, n, key, sizeof key - 1);
  if (!at) return -1;
  at += sizeof key - 1;
  if (*at < '0' || *at > '9') return -1;
  int64_t step = 0;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (step > (INT64_MAX - 9) / 10) return -1;
    step = 10 * step + (*at - '0');
  }
  return *at == ',' || *at == '}' ? step : -1;
}

static void write_whole(const char *path, const Text *text) {
  Why why;
  if (!try_file_write(path, text->at ? text->at : "", text->n, &why))
    fail(FAIL_MACHINE, "%s\nhelp: make room there, or give run.folder=PATH where this user can write", why.text);
}

/* What is cut off is safe before the file is shortened. */
static void cut(const char *path, int64_t step, const char *cut_path) {
  size_t n;
  char *was = file_read(path, &n);
  if (!was && errno == ENOENT) return;
  if (!was) fail(FAIL_MACHINE, "%s: %s\nhelp: make the file readable, or move it away", path, strerror(errno));
  Text kept = {0}, rest = {0};
  for (char *line = was, *end; line < was + n; line = end + 1) {
    end = memchr(line, '\n', (size_t)(was + n - line));
    if (!end) break;
    int64_t at = line_step(line, (size_t)(end - line));
    text_add(at >= 0 && at <= step ? &kept : &rest, line, (size_t)(end - line) + 1);
  }
  if (rest.n && cut_path) write_whole(cut_path, &rest);
  if (kept.n != n) write_whole(path, &kept);
  text_close(&kept);
  text_close(&rest);
  free(was);
}

Metrics *metrics_open(const char *folder, int64_t step, const char *cut_path) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/metrics.jsonl", folder) >= (int)sizeof path)
    fail(FAIL_INPUT, "%s: %s\nhelp: give run.folder a shorter path", folder, strerror(ENAMETOOLONG));
  cut(path, step, cut_path);
  Metrics *m = xmalloc(sizeof *m);
  *m = (Metrics){.file = append_open(path), .board = tensorboard_open(folder, step)};
  return m;
}

void metrics_close(Metrics *m) {
  if (!m) return;
  Why why;
  if (!append_close(m->file, &why) || !tensorboard_close(m->board, &why)) fail(FAIL_MACHINE, "%s\nhelp: make room there", why.text);
  free(m);
}

static void add_number(Text *out, const char *name, double value) {
  char text[NUM_TEXT];
  text_printf(out, ",\"%s\":%s", name, isfinite(value) ? num_double(value, text) : "null");
}

static void add_known(Text *out, const char *name, double value) { add_number(out, name, value > 0 ? value : NAN); }

static void add_string(Text *out, const char *name, const char *value) {
  text_printf(out, ",\"%s\":\"", name);
  for (const unsigned char *c = (const unsigned char *)value; *c; c++)
    text_printf(out, *c == '"' || *c == '\\' ? "\\%c" : *c < 32 ? "\\u%04x" : "%c", *c);
  text_printf(out, "\"");
}

static void begin(Text *out, const char *type, int64_t step) {
  text_printf(out, "{\"type\":\"%s\",\"step\":%lld", type, (long long)step);
}

static void end_take(Metrics *m, Text *out) {
  add_number(out, "time", round(1e3 * clock_wall()) / 1e3);
  text_printf(out, "}\n");
  append_add(m->file, out->at, out->n);
  text_close(out);
}

static void add_phases(Text *out, const Phases *phases) {
  char seconds[NUM_TEXT];
  if (!phases) return;
  text_printf(out, ",\"phases\":{");
  for (int i = 0; i < phases->n; i++)
    text_printf(out, "%s\"%s\":%s", i ? "," : "", phases->at[i].name,
                num_double(round(1e6 * phases->at[i].seconds) / 1e6, seconds));
  text_printf(out, "}");
}

void metrics_start(Metrics *m, const StartEvent *e) {
  Text out = {0};
  begin(&out, "start", e->step);
  text_printf(&out, ",\"attempt\":%d,\"ranks\":%d", e->attempt, e->ranks);
  add_string(&out, "version", version_text);
  text_printf(&out, ",\"kernels\":%d,\"cached\":%s", e->kernels, e->cached ? "true" : "false");
  add_number(&out, "seconds", e->seconds);
  add_number(&out, "mpi_seconds", e->mpi);
  add_number(&out, "plan_seconds", e->plan);
  add_number(&out, "kernel_seconds", e->kernel);
  add_number(&out, "load_seconds", e->load);
  add_phases(&out, e->phases);
  add_known(&out, "planned_gib", e->memory_gib);
  add_known(&out, "allocated_gib", e->allocated_gib);
  if (e->beside_gib > 0) add_known(&out, "beside_gib", e->beside_gib);
  add_known(&out, "free_gib", e->free_gib);
  end_take(m, &out);
}

void metrics_step(Metrics *m, const Speed *speed, const StepEvent *e) {
  double rate = speed_tokens((double)e->step_tokens, e->seconds);
  Flops per_token = speed_per_token(speed, &e->per_token);
  Text out = {0};
  begin(&out, "step", e->step);
  text_printf(&out, ",\"tokens\":%lld", (long long)e->tokens);
  add_number(&out, "loss", e->loss);
  add_number(&out, "grad_norm", e->grad_norm);
  add_number(&out, "lr", e->lr);
  if (e->z_loss > 0) add_number(&out, "z_loss", e->z_loss);
  if (e->router_loss > 0) add_number(&out, "router_loss", e->router_loss);
  add_known(&out, "seconds", e->seconds);
  add_number(&out, "tokens_per_second", rate);
  add_number(&out, "mfu_causal", speed_mfu(speed, per_token.causal, rate));
  add_number(&out, "mfu_full", speed_mfu(speed, per_token.full, rate));
  if (e->padding > 0) add_number(&out, "padding", e->padding);
  add_known(&out, "memory_gib", e->memory_gib);
  if (e->beside_gib > 0) add_known(&out, "beside_gib", e->beside_gib);
  if (e->connect > 0) add_number(&out, "connect_seconds", e->connect);
  if (e->connect > 0) add_number(&out, "connect_waited_seconds", e->connect_waited);
  if (e->skipped) add_string(&out, "skipped", e->skipped);
  end_take(m, &out);
  const Scalar scalars[] = {
      {"train/loss", e->loss}, {"train/grad_norm", e->grad_norm}, {"train/lr", e->lr}, {"perf/tokens_per_second", rate}};
  tensorboard_add(m->board, e->step, scalars, isfinite(rate) ? 4 : 3);
}

void metrics_back(Metrics *m, const BackEvent *e) {
  Text out = {0};
  begin(&out, "back", e->step);
  text_printf(&out, ",\"from\":%lld", (long long)e->from);
  if (e->batches) text_printf(&out, ",\"first_batch\":%lld", (long long)e->first);
  text_printf(&out, ",\"batches\":%lld", (long long)e->batches);
  add_string(&out, "why", e->why);
  end_take(m, &out);
}

void metrics_eval(Metrics *m, const EvalEvent *e) {
  Text out = {0};
  begin(&out, "eval", e->step);
  add_string(&out, "name", e->name);
  add_number(&out, "loss", e->loss);
  add_known(&out, "bits_per_byte", e->bits_per_byte);
  text_printf(&out, ",\"tokens\":%lld", (long long)e->tokens);
  add_known(&out, "seconds", e->seconds);
  end_take(m, &out);
  Text loss = {0}, bits = {0};
  text_printf(&loss, "eval/%s", e->name);
  text_printf(&bits, "bits_per_byte/%s", e->name);
  tensorboard_add(m->board, e->step, (Scalar[]){{loss.at, e->loss}, {bits.at, e->bits_per_byte}}, e->bits_per_byte > 0 ? 2 : 1);
  text_close(&loss);
  text_close(&bits);
}

void metrics_save(Metrics *m, const SaveEvent *e) {
  Text out = {0};
  begin(&out, "save", e->step);
  add_known(&out, "bytes", e->bytes);
  add_known(&out, "seconds", e->seconds);
  add_number(&out, "stalled_seconds", e->stalled);
  end_take(m, &out);
}

void metrics_straggler(Metrics *m, const StragglerEvent *e) {
  Text out = {0};
  begin(&out, "straggler", e->step);
  text_printf(&out, ",\"rank\":%d", e->rank);
  add_string(&out, "node", e->node);
  add_number(&out, "gpu", e->gpu < 0 ? NAN : (double)e->gpu);
  add_number(&out, "slower", e->slower);
  add_known(&out, "mhz", e->mhz);
  add_known(&out, "mhz_most", e->mhz_most);
  add_string(&out, "slowed", e->slowed);
  text_printf(&out, ",\"over\":%s", e->over ? "true" : "false");
  end_take(m, &out);
}

bool metrics_sync(Metrics *m, Why *why) { return append_sync(m->file, why); }
