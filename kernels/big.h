/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops: matrix product, attention and embedding, which no generated loop should write.  Each has several candidate
 * implementations, one row of a table a candidate; a plain reference is always the last row.
 *
 * One BigCall describes a use completely but for the pointers (views, numbers); planning asks rows with at == NULL whether
 * they apply and what workspace they want, and running fills in the pointers.  This header is also compiled into generated
 * code, so it includes nothing but <stdint.h>.
 *
 * Shapes: B sequences, S positions, H query heads, G key/value heads (H % G == 0), D head size, T = B·S tokens, C model
 * width, V vocabulary.  All values are float32 but ids, order and segment starts (int32).
 *
 *   op              in                                                         out             numbers
 *   matmul          a (M,K)  b (K,N)  [bias (N)]                               c (M,N)         n[0]: 1 adds to c, 0 overwrites it
 *   attention       q (B,S,H,D)  k v (B,S,G,D)  start (B,S)                    o (B,S,H,D)     f: scale; n[0]: window or 0
 *                                                                              lse (B,H,S)
 *   attention_grad  do (B,S,H,D)  q  k  v  o  lse  start                       dq dk dv        as attention
 *   embedding       table (V,C)  ids (T)                                       out (T,C)
 *   embedding_grad  dout (T,C)  ids (T)  order (T)                             dtable (V,C)    n[0]: 1 adds to dtable, 0 overwrites
 * it
 *   route           scores (T,E)                                               out (3·T·k+E+1) n[1]: k
 *   take            x (T,C)  index (T·n)  inverse (T·n)                        out (T·n,C)     n[1]: n
 *   grouped         x (R,K)  w (E·N,K)  offsets (E+1)                          out (R,N)       n[1]: 1: w is (E·K,N)
 *   grouped_grad    a (R,M)  b (R,N)  offsets (E+1)                            out (E·M,N)     n[0]: 1 adds to out, 0 overwrites it
 *
 * matmul: in each of a, b, c one of the two strides is 1 (a transposed operand is just a view with its strides exchanged;
 * c's last stride is 1); the other is a leading dimension of any size at least the extent.  bias, on GPUs alone, is added to every
 * row before the result is rounded; absent it has rank 0.
 * attention: query i sees keys j with max(start[i], i-window+1) <= j <= i (window 0: no limit); start[i] is the first
 * position of i's own segment, 0 <= start[i] <= i.  lse = log of the sum of exp(scale·q·k) over the keys seen.  The last
 * stride of q, k, v, o, do, dq, dk, dv is 1; lse and start are contiguous.
 * embedding_grad: order is the permutation that sorts ids stably (ids[order[0]] <= ids[order[1]] <= …).
 *
 * route: out, int32, has four parts.  The k experts of each row, best first: those with the largest scores, the lower one of equal
 * ones, NaN as -infinity; pair t·k+j is row t's choice j.  The pairs sorted stably by expert.  The place of each pair among them.
 * The first place of each expert's, and T·k. take: row i of out is row index[i] / n of x; inverse is not looked at. grouped: row r
 * of out is row r of x times the transpose of w's part e, where offsets[e] <= r < offsets[e+1]; offsets[0] is 0, offsets[E] is R.
 * grouped_grad: part e of out is aᵀ·b of those rows, zeros where there are none.  The last stride of x, a, b and out is 1; w, index
 * and offsets are contiguous.
 *
 * Determinism: the same call on the same kind of CPU with the same number of threads gives the same bits. */
#ifndef KERNELS_BIG_H
#define KERNELS_BIG_H

#include <stdint.h>

enum { BIG_RANK = 5, BIG_IN = 7, BIG_OUT = 3 };

/* Element types; CPUs know BIG_F32 alone, and BIG_I32 where the table above says int32 (there type is not looked at). */
enum { BIG_F32, BIG_BF16, BIG_F16, BIG_I32 };

typedef struct BigView {
  void *at;
  int64_t dim[BIG_RANK], stride[BIG_RANK]; /* in elements */
  int rank, type;
} BigView;

typedef struct BigCall {
  BigView in[BIG_IN], out[BIG_OUT];
  int64_t n[2];
  double f;
  void *workspace; /* as many bytes as the row asked for, aligned to 64 */
  int threads;     /* of this rank */
} BigCall;

typedef void BigRun(const BigCall *call);

#endif
