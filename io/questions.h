/* SPDX-License-Identifier: Apache-2.0 */
/* Multiple-choice questions as JSON lines, of three kinds, told apart by their fields:
 *
 *   any        {"context": "…", "choices": ["…", "…"], "label": 0}
 *   HellaSwag  {"activity_label": "…", "ctx_a": "…", "ctx_b": "…", "endings": ["…", …], "label": 0}, or "ctx" instead of the two
 *   ARC        {"question": "…", "choices": {"text": ["…", …], "label": ["A", …]}, "answerKey": "A"}, or as it was published:
 *              {"question": {"stem": "…", "choices": [{"text": "…", "label": "A"}, …]}, "answerKey": "A"}
 *
 * A label is what the choices' own labels call it, texts or whole numbers; where they have none, the number of a choice, from 0, as
 * a number or a text; a number is that, too, where no label is one.  Contexts and choices
 * become texts as EleutherAI's evaluation harness has it: HellaSwag's are cleaned of "[title]" and other brackets and begin with
 * the activity, ARC's question stands as "Question: …\nAnswer:"; a choice follows its context behind a blank, even
 * where it begins with one or the context ends with one; of the first kind it does so only where neither is so. */
#ifndef IO_QUESTIONS_H
#define IO_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/arena.h"

enum { QUESTION_CHOICES = 64 };

typedef struct Choice {
  const char *text; /* without the blank */
  size_t n;
} Choice;

typedef struct Question {
  const char *place; /* "path:line" */
  const char *context;
  size_t n;
  Choice *choices; /* 2 to QUESTION_CHOICES, none empty */
  int n_choices, label;
  bool apart; /* a blank always stands between context and choice; else where neither has one there */
} Question;

/* All lines that are not blank; a line that is no question, or a file without any, is an input error that names it. */
Question *questions_read(Arena *arena, const char *path, int *n);

#endif
