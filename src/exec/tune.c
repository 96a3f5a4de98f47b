/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by measurement (run.tune).  Every row that can do a product runs it in the job's own memory, which is still
 * all zeros then and stays so; rank 0 takes the time and decides for all.  What was decided is a text, a line a product,
 * that checkpoints keep: a product that such a text names is not measured again, so that a resume keeps its bits. */
#include <string.h>

#include "src/base/clock.h"
#include "src/exec/job.h"

enum { ROWS_MOST = 8, RUNS_LEAST = 3 };
static const double seconds_least = 0.03; /* a row */

typedef struct Candidate {
  const BigImpl *row;
  const char *symbol; /* of a row of text */
  BigRun *run;
} Candidate;

struct Product {
  const char *key; /* all that tells one call from another */
  BigCall call;
  Candidate rows[ROWS_MOST];
  int n, chosen;
};

static const char *key_of(Arena *arena, const BigCall *call) {
  const BigView *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
  return arena_printf(arena, "matmul %lldx%lldx%lld a%lld,%lld b%lld,%lld c%lld%s threads %d", (long long)a->dim[0],
                      (long long)b->dim[1], (long long)a->dim[1], (long long)a->stride[0], (long long)a->stride[1],
                      (long long)b->stride[0], (long long)b->stride[1], (long long)c->stride[0], call->n[0] ? " adds" : "",
                      call->threads);
}

/* The last row is the plain one: only where there is no other. */
static void add_rows(Product *product, const char *only, Code *code) {
  const BigImpl *row;
  for (int i = 0; (row = kernels_row("matmul", i)); i++) {
    bool plain = !kernels_row("matmul", i + 1);
    if (!kernels_allowed(row, only) || !row->deterministic || (plain && product->n) || !kernels_try_row(row, &product->call, NULL))
      continue;
    CHECK(product->n < ROWS_MOST);
    product->rows[product->n++] = (Candidate){
        .row = row, .symbol = row->text ? code_big(code, row, &product->call) : NULL, .run = row->text ? NULL : row->native(NULL)};
  }
}

void job_tune_add(Job *job, const Step *step, Bound *bound, Code *code) {
  if (step->op != OP_MATMUL || (!job->choices->tune && !job->choices->tuned)) return;
  const char *key = key_of(job->arena, &bound->call);
  for (int i = 0; i < job->products.n; i++)
    if (!strcmp(job->products.at[i]->key, key)) bound->product = job->products.at[i];
  if (bound->product) return;
  bound->product = arena_new(job->arena, Product);
  *bound->product = (Product){.key = key, .call = bound->call};
  add_rows(bound->product, job->choices->matmul, code);
  vec_push(job->arena, &job->products, bound->product);
}

/* The row that a text of choices names for this product, if it can be used here; -1. */
static int recorded(const Product *product, const char *text) {
  size_t n = strlen(product->key);
  for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    if (strncmp(line, product->key, n) || line[n] != ' ') continue;
    for (int i = 0; i < product->n; i++) {
      size_t length = strlen(product->rows[i].row->name);
      if (!strncmp(line + n + 1, product->rows[i].row->name, length) && line[n + 1 + length] == '\n') return i;
    }
  }
  return -1;
}

static double seconds_of(const Product *product, BigRun *run) {
  double best = 0, begin = clock_seconds();
  for (int i = 0; i <= RUNS_LEAST || clock_seconds() - begin < seconds_least; i++) {
    double from = clock_seconds();
    run(&product->call);
    double took = clock_seconds() - from;
    if (i == 1 || (i > 1 && took < best)) best = took; /* the first one warms up */
  }
  return best;
}

static int fastest(const Product *product) {
  int best = 0;
  double least = 0;
  for (int i = 0; i < product->n && product->n > 1; i++) {
    double seconds = seconds_of(product, product->rows[i].run);
    if (i == 0 || seconds < least) {
      least = seconds;
      best = i;
    }
  }
  return best;
}

/* Row names rather than numbers go over: a rank may lack a library that rank 0 has. */
static void agree(Job *job, Product *product) {
  char name[32] = "";
  if (comm_rank(job->comm) == 0) strncpy(name, product->rows[product->chosen].row->name, sizeof name - 1);
  comm_broadcast(job->comm, name, sizeof name, 0);
  for (product->chosen = 0; product->chosen < product->n; product->chosen++)
    if (!strcmp(product->rows[product->chosen].row->name, name)) return;
  fail(FAIL_MACHINE, "cpu.matmul: rank 0 has chosen %s, which is not there on this rank\nhelp: run.tune: false, or cpu.matmul: own",
       name);
}

static void choose(Job *job, Product *product) {
  if (comm_rank(job->comm) == 0) {
    product->chosen = recorded(product, job->choices->tuned);
    if (product->chosen < 0) product->chosen = job->choices->tune ? fastest(product) : 0; /* 0: the fixed rule's */
  }
  agree(job, product);
}

void job_tune(Job *job) {
  Text text = {0};
  bool measures = job->choices->tune && job->products.n && comm_rank(job->comm) == 0;
  if (measures) memset(job->base, 0, job->split); /* pages of its own, as later */
  if (measures && job->open) memset(job->open, 0, job->nbytes - job->split);
  for (int i = 0; i < job->products.n; i++) {
    Product *product = job->products.at[i];
    for (int r = 0; r < product->n; r++)
      if (product->rows[r].symbol) {
        void *function = dev_symbol(job->module, product->rows[r].symbol);
        memcpy(&product->rows[r].run, &function, sizeof function);
      }
    choose(job, product);
    text_printf(&text, "%s %s\n", product->key, product->rows[product->chosen].row->name);
  }
  for (int i = 0; i < job->programs.n; i++)
    for (int s = 0; s < job->programs.at[i].program->nsteps; s++) {
      Bound *bound = &job->programs.at[i].steps[s];
      if (!bound->product) continue;
      const Candidate *c = &bound->product->rows[bound->product->chosen];
      bound->row = c->row;
      bound->symbol = c->symbol;
      bound->big = c->run;
    }
  job->tuned = arena_strdup(job->arena, text.at ? text.at : "");
  text_close(&text);
}

const char *job_choices(const Job *job) { return job->tuned ? job->tuned : ""; }

const char *job_notes(const Job *job) { return job->notes.at ? job->notes.at : ""; }
