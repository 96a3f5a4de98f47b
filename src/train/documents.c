/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/documents.h"

#include <inttypes.h>
#include <string.h>

#include "src/base/vec.h"
#include "src/train/data.h"

enum { OPEN_ROWS = 64, SCAN = 1 << 16 /* marks at a time */ };

typedef struct Document {
  int64_t at;
  int32_t labels; /* all that it has in its row */
} Document;

struct Documents {
  const Tokens *tokens;
  int64_t S;
  bool packing;
  Document *documents; /* row by row */
  int64_t *first;      /* of each row's documents, and behind the last row's */
  DocumentsTold told;
};

const DocumentsTold *documents_told(const Documents *d) { return &d->told; }
int64_t documents_at(const Documents *d, int64_t i) { return d->documents[d->first[i]].at; }

int64_t documents_length(const Documents *d, int64_t i) {
  int64_t n = 0;
  for (int64_t k = d->first[i]; k < d->first[i + 1]; k++) n += d->documents[k].labels;
  return n;
}

/* --- which documents there are --------------------------------------------------------------------------------------------- */

/* A walk over all marks.  The document under way began at `at`; of its labels, so many count within S. */
typedef struct Scan {
  Documents *d;
  Arena *arena;
  DocumentsLong how;
  VEC(Document) found;
  int64_t at, within;
  int pattern;    /* of the file in which it began */
  int64_t before; /* documents of other patterns' files, before those */
} Scan;

static bool end_document(Scan *s, int64_t end, Why *why) {
  DocumentsTold *told = &s->d->told;
  int64_t labels = end - s->at - 1, S = s->d->S;
  bool longer = labels > S;
  if (s->at < 0) return true;
  int pattern = tokens_pattern(s->d->tokens, s->at);
  if (pattern != s->pattern) s->before = told->documents;
  s->pattern = pattern;
  told->documents++;
  if (longer && s->how == LONG_REFUSE)
    return why_not(why,
                   "%s: document %" PRId64 " of its pattern (of JSON lines, that line that is not blank) has %" PRId64
                   " tokens, a sequence %" PRId64
                   " and its last label\nhelp: a larger train.seq_len, or data.too_long: cut or drop",
                   tokens_file(s->d->tokens, s->at, 1), told->documents - s->before, labels + 1, S);
  told->longer += longer;
  if (longer && s->how == LONG_DROP) return true;
  if (!s->within) return told->useless++, true;
  if (s->found.n == INT32_MAX / 2) return why_not(why, "more than %d documents", INT32_MAX / 2);
  vec_push(s->arena, &s->found, (Document){s->at, (int32_t)(longer ? S : labels)});
  told->labels += s->within;
  told->inputs += longer ? S : labels;
  return true;
}

static bool scan(Scan *s, Why *why) {
  uint8_t *marks = arena_alloc(s->arena, SCAN);
  int64_t n = tokens_n(s->d->tokens);
  s->at = -1;
  for (int64_t from = 0, take; from < n; from += take) {
    take = n - from < SCAN ? n - from : SCAN;
    if (!try_tokens_marks(s->d->tokens, from, take, marks, why)) return false;
    for (int64_t i = 0; i < take; i++) {
      int64_t at = from + i;
      if (marks[i] & TOKEN_BEGINS) {
        if (!end_document(s, at, why)) return false;
        s->at = at;
        s->within = 0;
      } else {
        s->within += marks[i] & TOKEN_COUNTS && at - s->at <= s->d->S;
      }
    }
  }
  return end_document(s, n, why);
}

/* --- which share a row ------------------------------------------------------------------------------------------------------ */

typedef struct Open {
  int64_t row, room;
} Open;

/* The row of a document; full rows close when too many are open. */
static int64_t place(Open *open, int *n, int64_t *rows, int64_t labels, int64_t S) {
  int best = -1, fullest = 0;
  for (int i = 0; i < *n; i++) {
    if (open[i].room >= labels && (best < 0 || open[i].room < open[best].room)) best = i;
    if (open[i].room < open[fullest].room) fullest = i;
  }
  if (best < 0) {
    best = *n < OPEN_ROWS ? (*n)++ : fullest;
    open[best] = (Open){(*rows)++, S};
  }
  open[best].room -= labels;
  return open[best].row;
}

/* Documents go to their rows in their order: a counting sort. */
static void lay_out(Documents *d, Arena *arena, const Document *found, int n) {
  Arena *scratch = arena_open();
  int64_t *row = arena_array(scratch, int64_t, n), rows = 0;
  Open open[OPEN_ROWS];
  int n_open = 0;
  for (int i = 0; i < n; i++) row[i] = d->packing ? place(open, &n_open, &rows, found[i].labels, d->S) : rows++;
  d->first = arena_array(arena, int64_t, rows + 1);
  d->documents = arena_array(arena, Document, n);
  int64_t *next = arena_array(scratch, int64_t, rows);
  for (int i = 0; i < n; i++) d->first[row[i] + 1]++;
  for (int64_t r = 0; r < rows; r++) d->first[r + 1] += next[r] = d->first[r];
  for (int i = 0; i < n; i++) d->documents[next[row[i]]++] = found[i];
  d->told.rows = rows;
  arena_close(scratch);
}

bool try_documents_open(Arena *arena, const Tokens *tokens, int64_t S, bool packing, DocumentsLong how, Documents **documents,
                        Why *why) {
  Documents *d = *documents = arena_new(arena, Documents);
  *d = (Documents){.tokens = tokens, .S = S, .packing = packing};
  Scan s = {.d = d, .arena = arena_open(), .how = how};
  bool ok = try_tokens_documents(tokens, why) && scan(&s, why);
  if (ok && !s.found.n)
    ok = why_not(why, "%s: none of its %" PRId64 " documents has a label that counts and fits into train.seq_len",
                 tokens_file(tokens, 0, 1), d->told.documents);
  if (ok) lay_out(d, arena, s.found.at, s.found.n);
  arena_close(s.arena);
  return ok;
}

/* --- rows ------------------------------------------------------------------------------------------------------------------- */

static bool put_document(const Documents *d, const Document *doc, int32_t at, int32_t *ids_room, uint8_t *marks_room, int32_t *ids,
                         int32_t *labels, int32_t *starts, Why *why) {
  int32_t n = doc->labels;
  if (!try_tokens_read(d->tokens, doc->at, n + 1, ids_room, why)) return false;
  if (!try_tokens_marks(d->tokens, doc->at, n + 1, marks_room, why)) return false;
  for (int32_t t = 0; t < n; t++) {
    ids[at + t] = ids_room[t];
    labels[at + t] = marks_room[t + 1] & TOKEN_COUNTS ? ids_room[t + 1] : DATA_IGNORED;
    if (d->packing) starts[at + t] = at;
  }
  return true;
}

bool try_documents_row(const Documents *d, int64_t i, int32_t *ids_room, uint8_t *marks_room, int32_t *ids, int32_t *labels,
                       int32_t *starts, Why *why) {
  CHECK(i >= 0 && i < d->told.rows);
  int32_t at = 0, S = (int32_t)d->S;
  for (int64_t k = d->first[i]; k < d->first[i + 1]; k++) {
    const Document *doc = &d->documents[k];
    if (!put_document(d, doc, at, ids_room, marks_room, ids, labels, starts, why)) return false;
    at += doc->labels;
  }
  for (int32_t t = at; t < S; t++) { /* padding: a segment of its own */
    ids[t] = 0;
    labels[t] = DATA_PADDING;
    if (d->packing) starts[t] = at;
  }
  return true;
}
