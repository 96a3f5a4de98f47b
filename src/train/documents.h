/* SPDX-License-Identifier: Apache-2.0 */
/* Whole documents as rows, as fine-tuning wants them: where a document begins, the marks beside the token files say.  A row of S
 * positions holds one, or with packing several, which then are segments of it; what is left of it is padding.  A document of n ids
 * has n - 1 labels and takes n - 1 positions.
 *
 * Which documents share a row follows from their lengths in the order of the files alone: each goes to that of a few open rows in
 * which it leaves the least room ("best fit"; Johnson, Demers, Ullman, Garey and Graham, SIAM J. Computing 3, 1974). */
#ifndef TRAIN_DOCUMENTS_H
#define TRAIN_DOCUMENTS_H

#include "io/tokens.h"
#include "src/base/arena.h"

typedef struct Documents Documents;

/* What becomes of a document with more than S labels: its beginning stays, it is left out, or it is an input error. */
typedef enum DocumentsLong { LONG_CUT, LONG_DROP, LONG_REFUSE } DocumentsLong;

typedef struct DocumentsTold {
  int64_t documents, rows;
  int64_t labels;  /* that count */
  int64_t inputs;  /* positions that are no padding */
  int64_t longer;  /* documents that were cut or left out */
  int64_t useless; /* documents without a label that counts, which are left out */
} DocumentsTold;

/* Reads all marks.  False: an input error, which names the file or the key. */
bool try_documents_open(Arena *arena, const Tokens *tokens, int64_t S, bool packing, DocumentsLong how, Documents **documents,
                        Why *why);
const DocumentsTold *documents_told(const Documents *d);

/* Where row i begins: an id's number in the files. */
int64_t documents_at(const Documents *d, int64_t i);

int64_t documents_length(const Documents *d, int64_t i); /* positions of row i that are no padding */

/* Row i: ids, labels (negative: ignored) and, with packing, starts, S each.  ids_room and marks_room: S + 1 each.  Threads may take
 * at once, with rooms of their own. */
bool try_documents_row(const Documents *d, int64_t i, int32_t *ids_room, uint8_t *marks_room, int32_t *ids, int32_t *labels,
                       int32_t *starts, Why *why);

#endif
