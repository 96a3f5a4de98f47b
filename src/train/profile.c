/* SPDX-License-Identifier: Apache-2.0 */
/* profile.steps: when recording begins and ends, and the files it leaves.  Every rank records and writes its own. */
#include <inttypes.h>

#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/exec/memory.h"
#include "src/train/run.h"

void run_profile_open(Run *run) {
  Range steps = run->config->profile.steps;
  setup_check_profile(run->config, run->shape.total_steps);
  if (!steps.first) return;
  if (run->step >= steps.last) {
    if (run_speaks(run))
      lines_note(run->lines, "profile.steps: %" PRId64 " and those before are done, none is recorded", steps.last);
    return;
  }
  run->prof = prof_open(run->dev, comm_rank(run->comm), comm_size(run->comm));
  engine_profile(run->engine, run->prof);
}

void run_profile_before(Run *run) {
  Range steps = run->config->profile.steps;
  int64_t next = run->step + 1;
  double wall = clock_wall();
  if (!run->prof || prof_on(run->prof) || next < steps.first || next > steps.last) return;
  run_doing(run, true, "starting a profile");
  prof_arm(run->prof);
  comm_broadcast(run->comm, &wall, sizeof wall, 0);
  comm_barrier(run->comm); /* which ranks leave together: the common zero of their clocks */
  prof_start(run->prof, wall);
  run_doing(run, false, "");
}

static bool try_write(Run *run, const char *extension, const Text *text, Why *why) {
  return try_file_write(runfolder_rank_profile(run->folder, run->arena, comm_rank(run->comm), extension), text->at, text->n, why);
}

/* All ranks have the same plan, of which one picture is enough. */
static bool try_snapshot(Run *run, Arena *arena, Why *why) {
  const Job *job = engine_job(run->engine);
  Text text = {0};
  int n;
  if (!run_speaks(run)) return true;
  const MemoryMoment *at = memory_recorded(arena, job, &n);
  memory_snapshot(job, at, n, &text);
  bool ok = try_file_write(arena_printf(arena, "%s/memory.pickle", run->folder->profile), text.at, text.n, why);
  text_close(&text);
  return ok;
}

/* A profile that cannot be written costs nothing but itself. */
static void write_files(Run *run) {
  Arena *arena = arena_open();
  Text trace = {0}, table = {0};
  Why why = {""};
  const ProfTable *t = prof_table(run->prof, arena);
  prof_trace_print(run->prof, &trace);
  prof_table_write(t, &table);
  bool ok = try_folder_make(run->folder->profile, &why) && try_write(run, "json", &trace, &why) &&
            try_write(run, "tsv", &table, &why) && try_snapshot(run, arena, &why);
  bool failed = comm_any_reason(run->comm, !ok, why.text, sizeof why.text);
  if (run_speaks(run) && failed) lines_warn(run->lines, run->step, "no profile: %s", why.text);
  if (run_speaks(run) && !failed)
    lines_note(run->lines, "steps %" PRId64 "-%" PRId64 " are recorded: hpctrain profile %s; traces of ranks in %s", t->first,
               t->last, run->folder->path, run->folder->profile);
  text_close(&trace);
  text_close(&table);
  arena_close(arena);
}

void run_profile_close(Run *run) {
  if (!prof_on(run->prof)) return;
  run_doing(run, true, "writing a profile");
  prof_stop(run->prof);
  write_files(run);
  run_doing(run, false, "");
}

void run_profile_after(Run *run) {
  if (run->step >= run->config->profile.steps.last) run_profile_close(run);
}
