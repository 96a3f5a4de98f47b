/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/fit.h"

#include <malloc.h>
#include <string.h>

#include "src/base/memory.h"
#include "src/dev/machine.h"
#include "src/exec/cost.h"
#include "src/exec/memory.h"

/* --- the line --------------------------------------------------------------------------------------------------------------- */

int fit_settings(const FitLine *line) { return (line->levels - 1) * line->blocks + 1; }

void fit_choose(const FitLine *line, int setting, Choices *choices) {
  choices->forget = setting ? (Forget)((setting - 1) / line->blocks + 1) : FORGET_NOTHING;
  choices->spared = setting ? line->blocks - 1 - (setting - 1) % line->blocks : 0;
}

/* --- trying ----------------------------------------------------------------------------------------------------------------- */

/* What a compilation tells: of the micro-step that needs most, and of all other programs. */
typedef struct Told {
  const char *hungriest;
  size_t micro, others;
  double flops, again;
  const ForgetLevels *levels;
  Arena *arena; /* levels'; NULL: they are known */
  int programs;
} Told;

typedef struct Search {
  Comm *comm;
  Mesh *mesh;
  const EngineOptions *options;
  FitLine line;
  size_t room, fixed; /* fixed: what the job holds for good */
  size_t others;
  const char *only; /* the micro-step that is tried */
  FitFound *found;
} Search;

static bool is_micro(const char *program) { return !strncmp(program, "micro", 5); }

static void hear_graph(void *self, const char *program, const char *stage, const Graph *g) {
  Told *told = self;
  if (!told->arena || told->levels || !is_micro(program) || strcmp(stage, "recompute")) return;
  told->levels = forget_levels(g, told->arena);
}

static void hear_program(void *self, const char *name, const char *stage, const Program *program) {
  Told *told = self;
  (void)stage;
  told->programs++;
  if (is_micro(name) && program->transient >= told->micro) {
    told->hungriest = name;
    told->micro = program->transient;
    told->flops = program_flops(program, &told->again);
  }
  if (!is_micro(name) && program->transient > told->others) told->others = program->transient;
}

/* Compiles all programs, or the one; gives what the job needs of memory. */
static JobMemory try_setting(const Search *s, int setting, const char *only, Told *told) {
  Arena *scratch = arena_open();
  CompileWatch watch = {hear_graph, hear_program, told};
  EngineOptions o = *s->options;
  fit_choose(&s->line, setting, &o.choices);
  o.watch = &watch;
  o.only = only;
  JobMemory memory = job_memory(engine_job(engine_open(scratch, NULL, s->comm, s->mesh, &o)));
  arena_close(scratch);
  s->found->compiled += told->programs;
  return memory;
}

static bool note(Search *s, int setting, size_t nbytes, const Told *told) {
  FitFound *f = s->found;
  bool fits = nbytes <= s->room;
  if (fits || nbytes < f->nbytes)
    *f = (FitFound){f->line, setting, fits, nbytes, told->again / (told->flops - told->again), f->text, f->compiled};
  return fits;
}

/* By the micro-step that needs most without recomputation. */
static bool fits(Search *s, int setting) {
  Told told = {0};
  JobMemory m = try_setting(s, setting, s->only, &told);
  return note(s, setting, s->fixed + (m.transient > s->others ? m.transient : s->others), &told);
}

/* By all programs, as the run will have them. */
static bool fits_truly(Search *s, int setting) {
  Told told = {0};
  JobMemory m = try_setting(s, setting, NULL, &told);
  s->found->nbytes = SIZE_MAX; /* what was noted before is what this one says */
  return note(s, setting, m.vars + m.tables + m.transient, &told);
}

/* --- searching -------------------------------------------------------------------------------------------------------------- */

/* A setting that fits: the last, or the end of a level before it; -1: none. */
static int find_any(Search *s) {
  for (int setting = fit_settings(&s->line) - 1; setting > 0; setting -= s->line.blocks)
    if (fits(s, setting)) return setting;
  return -1;
}

/* Memory is only nearly monotone: a neighbour below the border may fit, too. */
static int step_down(Search *s, int setting) {
  enum { NEIGHBOURS = 2 };
  for (int below = setting - 2; below > 0 && below >= setting - 1 - NEIGHBOURS; below--)
    if (fits(s, below)) setting = below;
  return setting;
}

static void search(Search *s) {
  int high = find_any(s), low = 0;
  if (high < 0) return;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    *(fits(s, middle) ? &high : &low) = middle;
  }
  for (int before = -1; before != high;) high = step_down(s, before = high);
  while (!fits_truly(s, high) && high + 1 < fit_settings(&s->line)) high++;
}

static const char *setting_text(Arena *arena, const FitLine *line, int setting, const char *const *names) {
  Choices c = {.forget = FORGET_NOTHING};
  fit_choose(line, setting, &c);
  if (!setting) return "none";
  if (setting == fit_settings(line) - 1) return "block";
  Text text = {0};
  for (int l = FORGET_CHEAP; l <= (int)c.forget; l++) text_printf(&text, "%s%s", l > FORGET_CHEAP ? ", " : "", names[l]);
  if (c.spared) text_printf(&text, " in %d of %d blocks", line->blocks - c.spared, line->blocks);
  const char *copy = arena_strdup(arena, text.at);
  text_close(&text);
  return copy;
}

FitFound fit_find(Arena *arena, Comm *comm, Mesh *mesh, const EngineOptions *options, size_t room) {
  enum { KEPT = 256 << 20, USUAL = 128 << 10 }; /* what one try gives back the next takes: to the system and back takes as long */
  mallopt(M_TRIM_THRESHOLD, KEPT);
  mallopt(M_MMAP_THRESHOLD, KEPT / 8);
  FitFound found = {.line = {1, 1}, .nbytes = SIZE_MAX};
  Search s = {.comm = comm, .mesh = mesh, .options = options, .room = room, .line = found.line, .found = &found};
  Told told = {.arena = arena_open()};
  JobMemory m = try_setting(&s, 0, NULL, &told);
  s.line = found.line = (FitLine){told.levels ? told.levels->n : 1, told.levels ? told.levels->blocks : 1};
  s.fixed = m.vars + m.tables;
  s.others = told.others;
  s.only = told.hungriest;
  if (!note(&s, 0, s.fixed + m.transient, &told)) search(&s);
  found.text = setting_text(arena, &found.line, found.setting, told.levels ? told.levels->name : NULL);
  arena_close(told.arena);
  mallopt(M_TRIM_THRESHOLD, USUAL);
  mallopt(M_MMAP_THRESHOLD, USUAL);
  malloc_trim(0);
  return found;
}

/* --- room ------------------------------------------------------------------------------------------------------------------- */

static size_t room_of(const Config *c, const Comm *comm, const FitPlace *place) {
  DevCard card = {.nbytes = place->gpu};
  Why why;
  if (c->device.kind == DEVICE_KIND_CUDA) {
    bool known = place->gpu || (place->dev ? dev_card(place->dev, &card) : dev_try_cards(&card, 1, true, &why) > 0);
    return known ? (size_t)machine_room((double)card.nbytes, comm_size(comm) == 1) : 0;
  }
  return (size_t)machine_host_room((double)node_memory().total, comm_local_size(comm));
}

/* --- the key ---------------------------------------------------------------------------------------------------------------- */

static const char key[] = "memory.recompute";

/* Bytes for people: "131.2 GiB". */
static const char *amount(Arena *arena, size_t nbytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB"};
  int unit = nbytes >= 1 << 30 ? 2 : nbytes >= 1 << 20 ? 1 : 0;
  return arena_printf(arena, "%.1f %s", (double)nbytes / (double)(1024LL << 10 * unit), units[unit]);
}

static _Noreturn void fail_short(Arena *arena, const Config *c, Comm *comm, Mesh *mesh, const EngineOptions *options,
                                 const FitFound *found, size_t room) {
  EngineOptions o = *options;
  Text classes = {0};
  fit_choose(&found->line, found->setting, &o.choices);
  o.watch = NULL;
  memory_report_print(memory_report(arena, engine_job(engine_open(arena, NULL, comm, mesh, &o))), 0, &classes);
  const char *smaller = options->sequences > 1 ? ", a smaller train.micro_batch_size" : "";
  config_fail(c, key, arena_printf(arena, "more ranks%s, or a shorter train.seq_len; hpctrain plan shows what each needs", smaller),
              "%s planned with recompute: %s, %s %s: %s short, %zu bytes\n%.*s", amount(arena, found->nbytes), found->text,
              amount(arena, room), c->memory.recompute.nbytes ? "allowed" : "to be had", amount(arena, found->nbytes - room),
              found->nbytes - room, (int)classes.n - 1, classes.at);
}

const char *fit_settle(Arena *arena, const Config *c, Comm *comm, Mesh *mesh, EngineOptions *options, const FitPlace *place) {
  if (c->memory.recompute.choice != RECOMPUTE_AUTO) return NULL;
  size_t room = (size_t)c->memory.recompute.nbytes;
  if (!room) room = comm_least(comm, room_of(c, comm, place));
  if (!room)
    config_fail(c, key, "memory.recompute={auto: 130GiB}, or where the GPU is", "nobody here knows how much memory the GPU has");
  FitFound found = fit_find(arena, comm, mesh, options, room);
  if (!found.fits) fail_short(arena, c, comm, mesh, options, &found, room);
  fit_choose(&found.line, found.setting, &options->choices);
  return arena_printf(arena, "%s: +%.1f %% FLOPs, %s of %s", found.text, 100 * found.again, amount(arena, found.nbytes),
                      amount(arena, room));
}
