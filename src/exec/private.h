/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share.  Private to it. */
#ifndef EXEC_PRIVATE_H
#define EXEC_PRIVATE_H

#include "kernels/kernels.h"
#include "src/exec/exec.h"

/* compile.c: a big op's step as kernels/big.h describes it, without addresses; and the row that runs it. */
BigCall big_call(const Step *step, int threads);
const BigImpl *big_choose(const Step *step, const BigCall *call, const Choices *choices);
CommKind collective_kind(Op op);
int64_t collective_count(const Step *step);

/* gpu.c: the same questions of the rows for GPUs. */
const char *gpu_plain(void);     /* CUDA C that the plain rows call */
const char *gpu_fill_code(void); /* gpu_fill.c: and job_fill */
size_t gpu_workspace(const Step *step, const BigCall *call, const Choices *choices);

/* code.c: the distinct kernels of a job's programs. */
typedef struct Code Code;
Code *code_open(Arena *arena, bool cuda);
/* The symbol under which this kernel, or this text row's call, will be found; the text is added once.  aligned: cuda's, as gen.h
 * says.  launch is how to start it; may be NULL. */
const char *code_kernel(Code *code, const Kernel *kernel, uint64_t aligned, DevLaunch *launch);
const char *code_big(Code *code, const BigImpl *row, const BigCall *call);
int code_count(const Code *code);
/* Begins to build on one rank; for a GPU in a thread of its own, since that needs none. */
void code_build(Code *code, Dev *dev, Comm *comm);
/* What was built, from that rank to all, loaded.  hit: the image came from the cache. */
DevModule *code_load(Code *code, Dev *dev, Comm *comm, bool *hit);

#endif
