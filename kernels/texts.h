/* SPDX-License-Identifier: Apache-2.0 */
/* C source carried as strings; made from kernels/NAME.inc.c, NAME.inc.cu and kernels/big.h by kernels/embed.sh. */
#ifndef KERNELS_TEXTS_H
#define KERNELS_TEXTS_H

extern const char text_big[];
extern const char text_prelude[];
extern const char text_prelude_cuda[];
extern const char text_grouped[];
extern const char text_matmul[];
extern const char text_attention[];
extern const char text_attention_grad[];
extern const char text_attention_tiles[];
extern const char text_experts[]; /* CUDA C, behind text_plain */
extern const char text_fill[];    /* CUDA C */
extern const char text_plain[];   /* CUDA C */

#endif
