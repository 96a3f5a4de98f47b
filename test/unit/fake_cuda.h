/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA module without CUDA, for tests of what is chosen: one library row of products, whose plans take as long as the test
 * says, and one of attention's gradient that gives other bits. */
#ifndef TEST_FAKE_CUDA_H
#define TEST_FAKE_CUDA_H

enum { FAKE_PLANS = 8 };

typedef struct Fake {
  int plans;                   /* that the product's row has; 0: it does not apply */
  int first;                   /* the number of its first plan: another one, another library */
  double seconds[FAKE_PLANS];  /* of a run, by choice */
  double now;                  /* the clock of events, which runs alone move */
  int prepared, released, ran; /* so far */
} Fake;

#endif
