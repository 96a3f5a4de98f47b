/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: rows of kernels/cuda, which are in the program's CUDA part.  The first deterministic row that can prepare
 * the call within the planned workspace runs it. */
#include "kernels/cuda/gpu.h"

#include <string.h>

#include "src/exec/job.h"

typedef const GpuImpl *RowOf(const char *op, int i);

static const GpuImpl *row_of(const char *op, int i) {
  static RowOf *find;
  if (!find) {
    void *symbol = dev_cuda_symbol("gpu_row");
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

/* The most that any row which may be chosen wants; pure, as the rows' bounds are. */
size_t gpu_workspace(const Step *step, const BigCall *call) {
  size_t most = 0;
  const GpuImpl *row;
  for (int i = 0; (row = row_of(op_table[step->op].name, i)); i++) {
    if (!row->deterministic || !row->workspace) continue;
    size_t nbytes = row->workspace(call);
    if (nbytes > most) most = nbytes;
  }
  return most;
}

static void *plain_kernel(void *module, const char *name) { return dev_symbol(module, name); }

void gpu_bind(Job *job, const Step *step, Bound *bound, size_t workspace) {
  const char *op = op_table[step->op].name;
  GpuTools tools = {plain_kernel, job->module, 0};
  Text tried = {0};
  const GpuImpl *row;
  for (int i = 0; (row = row_of(op, i)); i++) {
    Why why = {""};
    size_t needed = 0;
    if (!row->deterministic) {
      why_not(&why, "is not deterministic");
    } else if (row->try_prepare(&tools, &bound->call, &bound->plan, &needed, &why)) {
      if (needed <= workspace) break;
      row->release(bound->plan);
      why_not(&why, "wants %zu bytes of workspace, %zu are planned", needed, workspace);
    }
    text_printf(&tried, "\n   %s: %s", row->name, why.text);
  }
  if (!row)
    fail(FAIL_MACHINE, "no implementation of %s can be used on this GPU%s\nhelp: device.kind: cpu", op, tried.at ? tried.at : "");
  text_close(&tried);
  bound->gpu = row;
}

void gpu_run(Job *job, Bound *bound) { bound->gpu->run(bound->plan, &bound->call, dev_stream(job->dev)); }

void gpu_release(Bound *bound) { bound->gpu->release(bound->plan); }
