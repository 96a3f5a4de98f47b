/* SPDX-License-Identifier: Apache-2.0 */
/* Multiple-choice questions as JSON lines, of three kinds, told apart by their fields:
 *
 *   any        {"context": "…", "choices": ["…", "…"], "label": 0}
 *   HellaSwag  {"activity_label": "…", "ctx_a": "…", "ctx_b": "…", "endings": ["…", …], "label": 0}, or "ctx" instead of the two
 *   ARC        {"question": "…", "choices": {"text": ["…", …], "label": ["A", …]}, "answerKey": "A"}, or as it was published:
 *              {"question": {"stem": "…", "choices": [{"text": "…", "label": "A"}, …]}, "answerKey": "A"}
 *
 * A label is the number of a choice, from 0, as a number or a text, or what the choices' own labels call it.  Contexts and choices
 * become texts as EleutherAI's evaluation harness has it: HellaSwag's are cleaned of "[title]" and other brackets and begin with
 * the activity, ARC's question stands as "Question: …\nAnswer:"; a choice follows its context behind a blank. */
#ifndef IO_QUESTIONS_H
#define IO_QUESTIONS_H

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
} Question;

/* All lines that are not blank; a line that is no question, or a file without any, is an input error that names it. */
Question *questions_read(Arena *arena, const char *path, int *n);

#endif
