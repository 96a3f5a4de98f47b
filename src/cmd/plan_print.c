/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/cmd/plan.h"
#include "src/report/human.h"

/* --- the work ----------------------------------------------------------------------------------------------------------------- */

static void print_model(const Prospect *p) {
  const Config *c = p->config;
  const char *name = c->model.preset ? c->model.preset : c->model.config ? c->model.config : c->model.from;
  if (!name) name = c->run.name;
  char count[HUMAN_TEXT], flops[HUMAN_TEXT];
  int64_t embedding, parameters = model_parameters(&p->model, &embedding);
  int digits = (int)strcspn(human_rate(p->flops.causal, flops), "kMGTPE");
  printf("model  %s %s parameters, %.*s %sFLOP/token\n", name, human_count((double)parameters, count), digits, flops,
         flops + digits);
}

static void print_members(const Prospect *p) {
  Text lines = {0};
  members_print(p->members, p->config, &lines);
  printf("%s", lines.at);
  text_close(&lines);
  for (int i = 0; i < p->members->warnings.n; i++) fprintf(stderr, "warn   %s\n", p->members->warnings.at[i]);
}

static void print_device(const Prospect *p, const char *kind) {
  if (kind) printf("device %s%s\n", kind, p->config->device.kind == DEVICE_KIND_CPU ? "; --gpu h200 plans for GPUs" : "");
}

static void print_batch(const Prospect *p) {
  char tokens[HUMAN_TEXT];
  const Batch *b = &p->batch;
  printf("batch  %" PRId64 " x %" PRId64 " = %s tokens = %d rank%s x %" PRId64 " x %" PRId64 " pass%s\n", b->sequences,
         p->config->train.seq_len, human_count((double)b->tokens, tokens), p->site.ranks, p->site.ranks == 1 ? "" : "s", b->micro,
         b->passes, b->passes == 1 ? "" : "es");
}

/* --- memory ------------------------------------------------------------------------------------------------------------------- */

static const double MIB = 1 << 20, GIB = 1 << 30;

static const char *amount(char out[HUMAN_TEXT], double nbytes, double unit) { return human_fixed(nbytes / unit, 9, 1, out); }

static const char *unit_name(double unit) { return unit < GIB ? "MiB" : "GiB"; }

static double unit_of(double nbytes) { return nbytes < GIB ? MIB : GIB; }

const char *plan_amount(char out[HUMAN_TEXT], double nbytes) {
  char number[HUMAN_TEXT];
  snprintf(out, HUMAN_TEXT, "%.24s %s", amount(number, nbytes, unit_of(nbytes)), unit_name(unit_of(nbytes)));
  return out;
}

static void print_fit(const Prospect *p) {
  double all = prospect_bytes(p), missing = prospect_short(p);
  char text[HUMAN_TEXT], room[HUMAN_TEXT];
  plan_amount(text, all);
  if (prospect_beyond(p) > 0) {
    char planned[HUMAN_TEXT];
    printf("short  %s: %s planned, %s allowed by memory.recompute", plan_amount(room, missing),
           plan_amount(planned, (double)p->memory->nbytes), plan_amount(text, p->site.allowed));
    return;
  }
  if (!p->capacity) {
    printf("memory %s a rank", text);
    return;
  }
  if (missing > 0) printf("short  %s: ", plan_amount(room, missing));
  if (!strcmp(strchr(text, ' '), strchr(plan_amount(room, p->capacity), ' '))) *strchr(text, ' ') = 0; /* "77.4 of 140.4 GiB" */
  printf("%s%s of %s", missing > 0 ? "" : "fits   ", text, room);
}

static void print_elsewhere(const char *where, double nbytes, int per_node) {
  char one[HUMAN_TEXT], all[HUMAN_TEXT];
  if (nbytes > 0)
    printf("       in %s %s, of all ranks of a node %s\n", where, plan_amount(one, nbytes), plan_amount(all, nbytes * per_node));
}

/* Classes that show, the others together. */
static void print_memory(const Prospect *p) {
  const double unit = unit_of(prospect_bytes(p)), least = 0.05 * unit;
  double other = 0;
  char text[HUMAN_TEXT];
  print_fit(p);
  printf(", peak in %s\n      ", *p->memory->place ? p->memory->place : "what stays");
  for (int i = 0; i < MEMORY_CLASSES; i++) {
    double nbytes = (double)p->memory->by_class[i];
    if (nbytes < least)
      other += nbytes;
    else
      printf(" %s %s,", memory_class_names[i], amount(text, nbytes, unit));
  }
  const char *beside = p->config->device.kind == DEVICE_KIND_CUDA ? "driver and libraries" : "the process";
  if (p->reserve >= least) printf(" %s %s,", beside, amount(text, p->reserve, unit));
  printf(" other %s\n", amount(text, other, unit));
  print_elsewhere("the host's memory", p->host, p->site.per_node);
  print_elsewhere("files", p->files, p->site.per_node);
  print_elsewhere("the host's memory for saves", p->copies, p->site.per_node);
  if (p->fit) printf("       memory.recompute: auto is %s\n", p->fit);
}

/* --- time --------------------------------------------------------------------------------------------------------------------- */

/* What a time is told as, beside the whole of which it is a part. */
static const char *seconds_text(char out[HUMAN_TEXT], double seconds, double whole) {
  return whole < 1 ? human_fixed(seconds * 1e3, 6, 1, out) : human_fixed(seconds, 6, 2, out);
}

static const char *why_untimed(const Prospect *p) {
  if (p->config->device.kind != DEVICE_KIND_CUDA) return "CPUs differ too much to be foretold; train.stop_after=10steps tells";
  if (!p->site.machine) return "no GPU was named (--gpu h200)";
  if (p->config->memory.optimizer == OPTIMIZER_HOST) return "how fast the host updates differs too much (memory.optimizer)";
  if (p->config->memory.offload_folder)
    return "how fast files are differs too much (memory.offload_folder); hpctrain check measures it";
  return "attention of 32 bits was never measured; precision.compute: bf16 has been";
}

/* Which passes are how long is not looked at here. */
static const char *how_near(const Prospect *p) {
  return config_has_buckets(p->config) ? "if all rows were full: data.buckets makes it faster" : "within 15 %";
}

static void print_time(const Prospect *p) {
  const Forecast *f = &p->step;
  char text[HUMAN_TEXT], rate[HUMAN_TEXT];
  if (!p->timed) {
    printf("time   -: %s\n", why_untimed(p));
    return;
  }
  Speed speed = prospect_speed(p);
  double tokens = prospect_tokens(p);
  printf("time   %s %s/step, %s tok/s/GPU (%s)", seconds_text(text, f->seconds, f->seconds), f->seconds < 1 ? "ms" : "s",
         human_count(tokens / p->site.ranks, rate), how_near(p));
  if (speed.peak > 0)
    printf(", MFU %.1f %% causal, %.1f %% full", 100 * speed_mfu(&speed, p->flops.causal, tokens),
           100 * speed_mfu(&speed, p->flops.full, tokens));
  printf("\n      ");
  for (int k = 0, n = 0; k < PROF_KINDS; k++)
    if (f->spent[k] > 0)
      printf("%s %s%s %s", n++ ? "," : "", k == PROF_GATHERS || k == PROF_REDUCTIONS || k == PROF_COPIES ? "exposed " : "",
             prof_kind_names[k], seconds_text(text, f->spent[k], f->seconds));
  printf("\n");
}

static void print_moves(const Prospect *p) {
  static const char *const names[LANES] = {"gathers", "reductions", "fetches", "sends"};
  const Forecast *f = &p->step;
  double busy = 0, exposed = f->spent[PROF_GATHERS] + f->spent[PROF_REDUCTIONS] + f->spent[PROF_COPIES];
  char text[HUMAN_TEXT];
  int n = 0;
  for (int l = 0; l < LANES; l++)
    if (f->nbytes[l] > 0) {
      printf("%s %s %s", n++ ? "," : "moves ", names[l], human_bytes(f->nbytes[l], text));
      busy += f->busy[l];
    }
  if (!n) return;
  printf(" a step and rank");
  if (p->timed && busy > 0) printf(", %.0f %% hidden", 100 * (1 - exposed / busy));
  printf("\n");
}

void plan_print_run(const Prospect *p, int64_t steps) {
  enum { DAY = 86400, SOON = 2 * DAY };
  if (!p->timed) return;
  double seconds = p->step.seconds * (double)steps;
  char text[HUMAN_TEXT], hours[HUMAN_TEXT], date[32] = "-";
  time_t end = (time_t)(clock_wall() + seconds);
  struct tm at;
  if (seconds < 1e5 * DAY && gmtime_r(&end, &at)) strftime(date, sizeof date, seconds < SOON ? "%F %H:%M UTC" : "%F", &at);
  printf("run    %s%s, %s GPU-hours, done %s if started now\n", config_has_buckets(p->config) ? "at most " : "",
         human_duration(seconds, text), human_count(seconds / 3600 * p->site.ranks, hours), date);
}

void plan_print(const Prospect *p, const char *kind) {
  print_device(p, kind);
  print_model(p);
  print_members(p);
  print_batch(p);
  print_memory(p);
  print_time(p);
  print_moves(p);
  if (p->config->train.duration.unit != UNIT_EPOCHS) plan_print_run(p, config_total_steps(p->config, 1));
}
