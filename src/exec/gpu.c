/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: rows of kernels/cuda, which are in the program's CUDA part.  The first allowed row that can prepare the
 * call within the planned workspace runs it, by the first of its own plans, unless run.tune or a record says otherwise
 * (gpu_tune.c).  Steps whose calls are alike but for addresses share one prepared plan: they run on one stream. */
#include "src/exec/gpu.h"

#include <stdio.h>
#include <string.h>

static const char *const types[] = {[BIG_F32] = "f32", [BIG_BF16] = "bf16", [BIG_F16] = "f16", [BIG_I32] = "i32"};

typedef const GpuImpl *ImplOf(const char *op, int i);

const GpuImpl *gpu_row(const char *op, int i) {
  static ImplOf *find;
  if (!find) {
    void *symbol = dev_cuda_symbol("gpu_impl");
    memcpy(&find, &symbol, sizeof symbol);
  }
  return find(op, i);
}

const char *gpu_plain(void) {
  const char *(*text)(void);
  void *symbol = dev_cuda_symbol("gpu_plain_text");
  memcpy(&text, &symbol, sizeof symbol);
  return text();
}

static bool is_attention(const char *op) { return !strcmp(op, "attention") || !strcmp(op, "attention_grad"); }

/* gpu.attention: auto is whatever gives the same bits in every run; a name is that row alone.  The fast gradient has no
 * forward of its own. */
bool gpu_allowed(const GpuRow *row, const Choices *choices) {
  const char *only = choices->attention;
  if (!is_attention(row->op) || !only || !strcmp(only, "auto")) return row->deterministic;
  if (!strcmp(only, "cudnn-fast") && !strcmp(row->op, "attention")) only = "cudnn";
  return !strcmp(row->name, only);
}

/* The most that any row which may be chosen wants; pure, as the rows' bounds are. */
size_t gpu_workspace(const Step *step, const BigCall *call, const Choices *choices) {
  size_t most = 0;
  for (int i = 0; i < GPU_ROWS; i++) {
    if (strcmp(gpu_rows[i].op, op_table[step->op].name) || !gpu_allowed(&gpu_rows[i], choices)) continue;
    size_t nbytes = gpu_rows[i].workspace(call);
    if (nbytes > most) most = nbytes;
  }
  return most;
}

/* --- calls that are alike ------------------------------------------------------------------------------------------------- */

static void key_view(Text *key, const BigView *v) {
  text_printf(key, " %s", v->rank ? types[v->type] : "-");
  for (int r = 0; r < v->rank; r++) text_printf(key, "%s%lld", r ? "x" : ":", (long long)v->dim[r]);
  for (int r = 0; r < v->rank; r++) text_printf(key, "%s%lld", r ? "," : "/", (long long)v->stride[r]);
  if (v->rank) text_printf(key, "@%zu", gpu_alignment(v->at));
}

/* All that preparing looks at, as a text that means the same in every process on such a GPU. */
static const char *key_of(Job *job, const char *op, const Step *step, const BigCall *call, size_t workspace) {
  char factor[NUM_TEXT];
  Text key = {0};
  text_printf(&key, "%s", op);
  for (int i = 0; i < step->nin; i++) key_view(&key, &call->in[i]);
  text_printf(&key, " to");
  for (int i = 0; i < step->nout; i++) key_view(&key, &call->out[i]);
  if (call->n[1]) text_printf(&key, " m%lld", (long long)call->n[1]);
  text_printf(&key, " n%lld f%s workspace %zu", (long long)call->n[0], num_double(call->f, factor), workspace);
  const char *copy = arena_strdup(job->arena, key.at);
  text_close(&key);
  return copy;
}

void gpu_add(Job *job, const Step *step, Bound *bound, size_t workspace) {
  const char *op = op_table[step->op].name, *key = key_of(job, op, step, &bound->call, workspace);
  for (int i = 0; i < job->uses.n && !bound->use; i++)
    if (!strcmp(job->uses.at[i]->key, key)) bound->use = job->uses.at[i];
  if (bound->use) return;
  bound->use = arena_new(job->arena, GpuUse);
  *bound->use = (GpuUse){.key = key, .op = op, .call = bound->call, .workspace = workspace};
  vec_push(job->arena, &job->uses, bound->use);
}

/* --- choosing ------------------------------------------------------------------------------------------------------------- */

static void *plain_kernel(void *module, const char *name) { return dev_symbol(module, name); }

bool gpu_try_prepare(const Job *job, const GpuUse *use, const GpuImpl *impl, int choice, GpuPlan *plan, Why *why) {
  GpuTools tools = {plain_kernel, job->module, choice};
  size_t needed = 0;
  *plan = (GpuPlan){.impl = impl};
  if (choice && !impl->tell) return why_not(why, "has one plan");
  if (!impl->try_prepare(&tools, &use->call, &plan->plan, &needed, why)) return false;
  if (needed > use->workspace) {
    impl->release(plan->plan);
    return why_not(why, "wants %zu bytes of workspace, %zu are planned", needed, use->workspace);
  }
  char word[GPU_TOLD] = "";
  if (impl->tell) impl->tell(plan->plan, word);
  snprintf(plan->told, sizeof plan->told, "%s%s%s", impl->row->name, *word ? ":" : "", word);
  return true;
}

void gpu_refuse(const Job *job, const GpuUse *use, const char *tried) {
  bool named = is_attention(use->op) && job->choices->attention && strcmp(job->choices->attention, "auto");
  fail(FAIL_MACHINE, "no implementation of %s can be used on this GPU%s\nhelp: %sdevice.kind: cpu", use->op, tried,
       named ? "gpu.attention: auto, or " : "");
}

/* The fixed rule, as far as rows can be prepared yet: plain ones need the compiled code. */
static void choose_first(Job *job, GpuUse *use) {
  const GpuImpl *impl;
  Text tried = {0};
  text_printf(&tried, "%s", "");
  for (int i = 0; !use->chosen.plan && (impl = gpu_row(use->op, i)); i++) {
    Why why = {""};
    if (impl->row->plain && !job->module) break;
    if (!gpu_allowed(impl->row, job->choices))
      why_not(&why, impl->row->deterministic ? "is not what gpu.attention asks for" : "gives other bits in every run");
    else if (gpu_try_prepare(job, use, impl, 0, &use->chosen, &why))
      break;
    use->chosen = (GpuPlan){0};
    text_printf(&tried, "\n   %s: %s", impl->row->name, why.text);
  }
  if (!use->chosen.plan && job->module) gpu_refuse(job, use, tried.at);
  text_close(&tried);
}

void gpu_prepare(Job *job) {
  for (int i = 0; i < job->uses.n; i++) {
    GpuUse *use = job->uses.at[i];
    if (!gpu_recorded(job, use) && !job->choices->tune) choose_first(job, use);
  }
}

void gpu_settle(Job *job) {
  for (int i = 0; i < job->uses.n; i++)
    if (!job->uses.at[i]->chosen.plan && !gpu_recorded(job, job->uses.at[i]) && !job->choices->tune)
      choose_first(job, job->uses.at[i]);
  if (job->choices->tune || job->choices->tuned) gpu_tune(job);
}

void gpu_bind(Bound *bound) {
  bound->gpu = bound->use->chosen.impl;
  bound->plan = bound->use->chosen.plan;
}

const char *gpu_told(const Bound *bound) { return bound->use->chosen.told; }

void gpu_run(Job *job, Bound *bound) { bound->gpu->run(bound->plan, &bound->call, dev_stream(job->dev)); }

void gpu_release(Job *job) {
  for (int i = 0; i < job->uses.n; i++) {
    const GpuPlan *plan = &job->uses.at[i]->chosen;
    if (plan->plan) plan->impl->release(plan->plan);
  }
}
