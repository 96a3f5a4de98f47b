/* SPDX-License-Identifier: Apache-2.0 */
#include "src/exec/memory.h"

#include <stdlib.h>
#include <string.h>

#include "src/exec/job.h"

const char *const memory_class_names[MEMORY_CLASSES] = {
    [MEMORY_ACTIVATIONS] = "activations", [MEMORY_GATHERED] = "gathered",     [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_GRADIENTS] = "gradients",     [MEMORY_PARAMETERS] = "parameters", [MEMORY_MOMENTS] = "moments",
    [MEMORY_INPUTS] = "inputs",           [MEMORY_CONSTANTS] = "constants",   [MEMORY_GAPS] = "gaps"};

/* --- classes ---------------------------------------------------------------------------------------------------------------- */

static bool starts(const char *name, const char *slot) {
  size_t n = strlen(slot);
  return !strncmp(name, slot, n) && name[n] == '/';
}

/* Vars are told apart by the names that the state table gives them. */
MemoryClass memory_var_class(const Var *var) {
  static const struct {
    StateSlot slot;
    MemoryClass class;
  } slots[] = {
      {SLOT_PARAM, MEMORY_PARAMETERS}, {SLOT_LOWER, MEMORY_PARAMETERS}, {SLOT_M, MEMORY_MOMENTS}, {SLOT_V, MEMORY_MOMENTS}};
  if (state_is_gathered(var->name)) return MEMORY_GATHERED;
  if (starts(var->name, "upper")) return MEMORY_PARAMETERS;
  if (starts(var->name, "grad") || starts(var->name, "gradsum")) return MEMORY_GRADIENTS;
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
    if (starts(var->name, state_slot_name(slots[i].slot))) return slots[i].class;
  return MEMORY_INPUTS;
}

static void mark(const Program *p, MemoryClass *classes, int buffer, MemoryClass class) {
  if (buffer >= 0 && p->buffers[buffer].class == BUFFER_TRANSIENT) classes[buffer] = class;
}

/* What comes from a Var elsewhere, or goes there, is of its class. */
static void mark_moved(const Program *p, MemoryClass *classes, const Step *s) {
  const Buffer *in = &p->buffers[s->in[0].place.buffer], *out = &p->buffers[s->out[0].place.buffer];
  if (in->class == BUFFER_VAR) mark(p, classes, s->out[0].place.buffer, memory_var_class(&p->graph->vars.at[in->var]));
  if (out->class == BUFFER_VAR) mark(p, classes, s->in[0].place.buffer, memory_var_class(&p->graph->vars.at[out->var]));
}

MemoryClass *memory_classes(Arena *arena, const Program *p) {
  MemoryClass *classes = arena_array(arena, MemoryClass, p->nbuffers);
  for (int b = 0; b < p->nbuffers; b++)
    classes[b] = p->buffers[b].class == BUFFER_VAR     ? memory_var_class(&p->graph->vars.at[p->buffers[b].var])
                 : p->buffers[b].class == BUFFER_TABLE ? MEMORY_CONSTANTS
                                                       : MEMORY_ACTIVATIONS;
  for (int i = 0; i < p->nsteps; i++) {
    const Step *s = &p->steps[i];
    mark(p, classes, s->workspace, MEMORY_WORKSPACE);
    if (s->kind == STEP_TRANSFER_START) mark_moved(p, classes, s);
    if (s->kind != STEP_COLLECTIVE_START) continue;
    MemoryClass class = s->op == OP_ALL_GATHER ? MEMORY_GATHERED : MEMORY_GRADIENTS;
    mark(p, classes, s->in[0].place.buffer, class);
    mark(p, classes, s->out[0].place.buffer, class);
  }
  return classes;
}

static bool alive_at(const Buffer *b, int step) { return b->class == BUFFER_TRANSIENT && b->first <= step && step <= b->last; }

/* Whether a Var has bytes of its own in the arena: not another's, which it is within, nor elsewhere, nor another job's. */
static bool is_here(const JobVar *v) { return !v->var->within && !v->borrowed && v->var->home == HOME_DEVICE; }

/* What the job holds for good. */
static void add_fixed(const Job *job, size_t by_class[MEMORY_CLASSES]) {
  for (int i = 0; i < job->vars.n; i++)
    if (is_here(&job->vars.at[i])) by_class[memory_var_class(job->vars.at[i].var)] += job->vars.at[i].nbytes;
  by_class[MEMORY_CONSTANTS] += job->memory.tables;
}

size_t *memory_timeline(Arena *arena, const Job *job, int program) {
  const Program *p = job->programs.at[program].program;
  size_t *alive = arena_array(arena, size_t, (size_t)(p->nsteps + 1) * MEMORY_CLASSES);
  const MemoryClass *classes = memory_classes(arena, p);
  add_fixed(job, alive);
  for (int b = 0; b < p->nbuffers; b++) { /* changes, modulo 2^64; then their sums */
    const Buffer *x = &p->buffers[b];
    if (x->class != BUFFER_TRANSIENT || x->first < 0) continue;
    alive[x->first * MEMORY_CLASSES + classes[b]] += x->nbytes;
    alive[(x->last + 1) * MEMORY_CLASSES + classes[b]] -= x->nbytes;
  }
  for (int i = MEMORY_CLASSES; i < p->nsteps * MEMORY_CLASSES; i++) alive[i] += alive[i - MEMORY_CLASSES];
  return alive;
}

/* --- names ------------------------------------------------------------------------------------------------------------------ */

static const char *scope_name(const Program *p, const Node *node) {
  const char *scope = p->graph->scopes.at[node->scope].name;
  return scope ? scope : "";
}

/* "backward of layers.31" */
static const char *where(Arena *arena, const Program *p, const char *name, int step) {
  static const char *const phases[PHASE_COUNT] = {"forward", "recomputation", "backward"};
  const Node *node = graph_node(p->graph, p->steps[step].node);
  const char *scope = scope_name(p, node), *phase = strcmp(name, "update") ? phases[node->phase] : "update";
  return arena_printf(arena, "%s%s%s", phase, *scope ? " of " : "", scope);
}

const char *memory_place(Arena *arena, const Program *p, const char *name, int step) {
  const Step *s = &p->steps[step];
  const char *what = s->kind == STEP_KERNEL ? "fused kernel" : op_table[graph_node(p->graph, s->node)->op].name;
  return arena_printf(arena, "%s, %s", where(arena, p, name, step), what);
}

static void print_shape(Text *text, const Shape *s) {
  for (int i = 0; i < s->rank; i++) text_printf(text, "%c%lld", i ? 'x' : ' ', (long long)s->dim[i]);
}

/* By what makes it: the node of its own, or (workspaces, results that nobody reads) the step it is for. */
const char *memory_buffer_name(Arena *arena, const Job *job, int program, int buffer) {
  const JobProgram *p = &job->programs.at[program];
  const Buffer *b = &p->program->buffers[buffer];
  Text text = {0};
  text_printf(&text, "%s", b->name);
  if (b->var >= 0) {
    const Node *node = graph_node(p->program->graph, b->var);
    print_shape(&text, &node->shape);
    text_printf(&text, " %s", dtype_name(node->dtype));
  }
  text_printf(&text, ", %s", where(arena, p->program, p->name, b->first));
  const char *name = arena_strdup(arena, text.at);
  text_close(&text);
  return name;
}

const char *memory_var_name(Arena *arena, const Var *var) {
  Text text = {0};
  text_printf(&text, "%s", var->name);
  print_shape(&text, &var->shape);
  text_printf(&text, " %s", dtype_name(var->dtype));
  const char *name = arena_strdup(arena, text.at);
  text_close(&text);
  return name;
}

/* --- the report --------------------------------------------------------------------------------------------------------------- */

/* Size first; the rest for a total order. */
static int by_size(const void *a, const void *b) {
  const MemoryHolder *x = a, *y = b;
  if (x->nbytes != y->nbytes) return x->nbytes < y->nbytes ? 1 : -1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static void add_holder(MemoryReport *r, MemoryHolder holder) {
  if (!holder.nbytes) return;
  r->by_class[holder.class] += holder.nbytes;
  r->at[r->n++] = holder;
}

static void add_tables(MemoryReport *r, const Job *job, int program) {
  const JobProgram *p = &job->programs.at[program];
  for (int b = 0; b < p->program->nbuffers && !job->interpreted; b++) {
    const Buffer *x = &p->program->buffers[b];
    if (x->class != BUFFER_TABLE) continue;
    add_holder(r, (MemoryHolder){"table", MEMORY_CONSTANTS, x->nbytes, job->memory.vars + p->table[b], program, 0,
                                 p->program->nsteps - 1});
  }
}

static void add_transients(MemoryReport *r, Arena *arena, const Job *job) {
  const JobProgram *p = &job->programs.at[r->program];
  const MemoryClass *classes = memory_classes(arena, p->program);
  for (int b = 0; b < p->program->nbuffers; b++) {
    const Buffer *x = &p->program->buffers[b];
    if (!x->nbytes || !alive_at(x, r->step)) continue;
    size_t at = job->memory.vars + job->memory.tables + (size_t)x->offset;
    add_holder(
        r, (MemoryHolder){memory_buffer_name(arena, job, r->program, b), classes[b], x->nbytes, at, r->program, x->first, x->last});
  }
}

/* Vars by their class; the rest is what programs send there until its backward: the inputs of blocks. */
static void add_host(MemoryReport *r, const Job *job) {
  r->host = job->memory.host;
  for (int i = 0; i < job->vars.n; i++)
    if (job->vars.at[i].var->home == HOME_HOST) r->host_by_class[memory_var_class(job->vars.at[i].var)] += job->vars.at[i].nbytes;
  r->host_by_class[MEMORY_ACTIVATIONS] += job->memory.host - job->memory.host_vars;
}

static int most_holders(const Job *job) {
  int n = job->vars.n;
  for (int i = 0; i < job->programs.n; i++) n += job->programs.at[i].program->nbuffers;
  return n;
}

static int hungriest(const Job *job) {
  int most = -1;
  for (int i = 0; i < job->programs.n && !job->interpreted; i++)
    if (most < 0 || job->programs.at[i].program->transient > job->programs.at[most].program->transient) most = i;
  return most;
}

MemoryReport *memory_report(Arena *arena, const Job *job) {
  MemoryReport *r = arena_new(arena, MemoryReport);
  *r = (MemoryReport){
      .nbytes = job->memory.vars + job->memory.tables + job->memory.transient, .program = hungriest(job), .place = ""};
  r->at = arena_array(arena, MemoryHolder, most_holders(job));
  for (int i = 0; i < job->vars.n; i++) {
    const JobVar *v = &job->vars.at[i];
    if (!is_here(v)) continue;
    add_holder(r, (MemoryHolder){memory_var_name(arena, v->var), memory_var_class(v->var), v->nbytes, v->offset, -1, 0, 0});
  }
  for (int i = 0; i < job->programs.n; i++) add_tables(r, job, i);
  add_host(r, job);
  size_t live = 0;
  if (r->program >= 0 && job->programs.at[r->program].program->nsteps) {
    const JobProgram *p = &job->programs.at[r->program];
    r->step = p->program->peak_step;
    r->place = arena_printf(arena, "%s, in %s", memory_place(arena, p->program, p->name, r->step), p->name);
    add_transients(r, arena, job);
    live = p->program->live;
  }
  r->by_class[MEMORY_GAPS] = job->memory.transient - live;
  if (r->n) qsort(r->at, (size_t)r->n, sizeof *r->at, by_size);
  return r;
}

/* --- for people -----------------------------------------------------------------------------------------------------------------
 */

/* Numbers behind a dot are a unit's. */
static const char *kin_name(Arena *arena, const char *name) {
  char *out = arena_alloc(arena, strlen(name) + 1), *to = out;
  for (const char *c = name; *c; c++) {
    *to++ = *c;
    size_t digits = *c == '.' ? strspn(c + 1, "0123456789") : 0;
    if (digits) *to++ = '*';
    c += digits;
  }
  return out;
}

static int by_sum(const void *a, const void *b) {
  const MemoryKin *x = a, *y = b;
  size_t p = x->each * (size_t)x->n, q = y->each * (size_t)y->n;
  return p != q ? (p < q ? 1 : -1) : by_size(x->one, y->one);
}

MemoryKin *memory_kin(Arena *arena, const MemoryReport *r, int *count) {
  MemoryKin *kin = arena_array(arena, MemoryKin, r->n);
  int n = 0;
  for (int i = 0; i < r->n; i++) {
    const MemoryHolder *h = &r->at[i];
    MemoryKin mine = {kin_name(arena, h->name), h->class, h->nbytes, 1, h};
    int k = 0;
    while (k < n && (kin[k].each != h->nbytes || kin[k].class != h->class || strcmp(kin[k].name, mine.name))) k++;
    if (k == n)
      kin[n++] = mine;
    else
      kin[k].n++;
  }
  if (n) qsort(kin, (size_t)n, sizeof *kin, by_sum);
  *count = n;
  return kin;
}

static void print_kin(const MemoryKin *kin, double unit, const char *unit_name, Text *out) {
  text_printf(out, "   %9.3f %s  %-11s  ", (double)(kin->each * (size_t)kin->n) / unit, unit_name, memory_class_names[kin->class]);
  if (kin->n > 1)
    text_printf(out, "%d of %.3f: %s\n", kin->n, (double)kin->each / unit, kin->name);
  else if (kin->one->program >= 0)
    text_printf(out, "%s; steps %d to %d\n", kin->one->name, kin->one->first, kin->one->last);
  else
    text_printf(out, "%s\n", kin->one->name);
}

static void print_classes(const size_t by_class[MEMORY_CLASSES], double unit, Text *out) {
  for (int c = 0, k = 0; c < MEMORY_CLASSES; c++)
    if (by_class[c]) text_printf(out, "%s %s %.3f", k++ ? "," : "", memory_class_names[c], (double)by_class[c] / unit);
  text_printf(out, "\n");
}

void memory_report_print(const MemoryReport *r, int most, Text *out) {
  bool small = r->nbytes < 1 << 30;
  double unit = small ? 1 << 20 : 1 << 30;
  const char *unit_name = small ? "MiB" : "GiB";
  Arena *arena = arena_open();
  int n;
  const MemoryKin *kin = memory_kin(arena, r, &n);
  text_printf(out, "   %.3f %s planned:", (double)r->nbytes / unit, unit_name);
  print_classes(r->by_class, unit, out);
  if (r->host) {
    text_printf(out, "   %.3f %s in the host's memory:", (double)r->host / unit, unit_name);
    print_classes(r->host_by_class, unit, out);
  }
  if (*r->place) text_printf(out, "   peak in %s\n", r->place);
  for (int i = 0; i < n && i < most; i++) print_kin(&kin[i], unit, unit_name, out);
  arena_close(arena);
}
