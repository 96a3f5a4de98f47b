/* SPDX-License-Identifier: Apache-2.0 */
#include "io/questions.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/json_lines.h"
#include "src/base/utf8.h"
#include "src/base/vec.h"

typedef struct Reading {
  Arena *arena;
  VEC(Question) questions;
} Reading;

/* What a line is to be made of. */
typedef struct Line {
  Arena *arena;
  const char *place;
  const json_t *object;
  const char *labels[QUESTION_CHOICES]; /* what the choices call themselves; NULL: nothing */
  Question *question;
} Line;

static _Noreturn void wrong(const Line *l, const char *what) {
  fail(FAIL_INPUT, "%s: %s\nhelp: {\"context\": \"…\", \"choices\": [\"…\", \"…\"], \"label\": 0}, or HellaSwag's or ARC's fields",
       l->place, what);
}

static const char *text_of(const Line *l, const json_t *value, const char *what, size_t *n) {
  if (!json_is_string(value)) wrong(l, what);
  *n = json_string_length(value);
  return json_string_value(value);
}

static const char *label_text(const Line *l, const json_t *label) {
  if (json_is_integer(label)) return arena_printf(l->arena, "%lld", (long long)json_integer_value(label));
  return json_string_value(label);
}

static void add_choice(Line *l, const char *text, size_t n, const json_t *label) {
  Question *q = l->question;
  if (!n) wrong(l, "a choice is empty");
  if (q->n_choices == QUESTION_CHOICES) wrong(l, "there are too many choices");
  if (label && !json_is_string(label) && !json_is_integer(label)) wrong(l, "a choice's label is neither text nor a whole number");
  l->labels[q->n_choices] = label_text(l, label);
  q->choices[q->n_choices++] = (Choice){arena_strndup(l->arena, text, n), n};
}

static void set_context(Line *l, const char *text, size_t n) {
  l->question->context = arena_strndup(l->arena, text, n);
  l->question->n = n;
}

/* --- HellaSwag ------------------------------------------------------------------------------------------------------------ */

static void replace_all(Text *text, const char *what, const char *by) {
  Text out = {0};
  size_t n = strlen(what);
  text_add(&out, "", 0);
  for (size_t i = 0; i < text->n;) {
    bool found = text->n - i >= n && !memcmp(text->at + i, what, n);
    text_add(&out, found ? by : text->at + i, found ? strlen(by) : 1);
    i += found ? n : 1;
  }
  text_close(text);
  *text = out;
}

/* Without what stands in brackets, the nearest ones; they do not cross lines. */
static void drop_brackets(Text *text) {
  size_t to = 0;
  for (size_t i = 0; i < text->n;) {
    size_t close = i;
    if (text->at[i] == '[')
      while (close < text->n && text->at[close] != ']' && text->at[close] != '\n') close++;
    bool pair = text->at[i] == '[' && close < text->n && text->at[close] == ']';
    if (pair)
      i = close + 1;
    else
      text->at[to++] = text->at[i++];
  }
  text->n = to;
}

static void clean(Text *text) {
  text->n = utf8_trimmed(text->at, text->n);
  size_t begin = utf8_spaces(text->at, text->n);
  if (text->n) memmove(text->at, text->at + begin, text->n -= begin);
  replace_all(text, " [title]", ". ");
  drop_brackets(text);
  replace_all(text, "  ", " ");
}

/* Its first letter large, the others small (ASCII's). */
static void capitalise(char *at, size_t n) {
  for (size_t i = 0; i < n; i++) at[i] = (char)(i ? tolower((unsigned char)at[i]) : toupper((unsigned char)at[i]));
}

static void add_field(const Line *l, Text *text, const char *name) {
  size_t n;
  const char *value = text_of(l, json_object_get(l->object, name), "ctx (or ctx_a and ctx_b) is no text", &n);
  text_add(text, value, n);
}

static void read_hellaswag(Line *l) {
  const json_t *activity = json_object_get(l->object, "activity_label"), *endings = json_object_get(l->object, "endings"), *one;
  Text text = {0};
  size_t i, n;
  l->question->apart = true;
  if (json_is_string(activity)) text_printf(&text, "%s: ", json_string_value(activity));
  if (json_object_get(l->object, "ctx_a") && json_object_get(l->object, "ctx_b")) {
    add_field(l, &text, "ctx_a");
    text_add(&text, " ", 1);
    size_t before = text.n;
    add_field(l, &text, "ctx_b");
    capitalise(text.at + before, text.n - before);
  } else {
    add_field(l, &text, "ctx");
  }
  clean(&text);
  set_context(l, text.at, text.n);
  if (!json_is_array(endings)) wrong(l, "endings are no list");
  json_array_foreach((json_t *)endings, i, one) {
    const char *ending = text_of(l, one, "an ending is no text", &n);
    text.n = 0;
    text_add(&text, ending, n);
    clean(&text);
    add_choice(l, text.at, text.n, NULL);
  }
  text_close(&text);
}

/* --- ARC, and any --------------------------------------------------------------------------------------------------------- */

/* {"text": […], "label": […]}, or a list of texts, or of {"text", "label"}. */
static void read_choices(Line *l, const json_t *choices) {
  const json_t *texts = json_is_object(choices) ? json_object_get(choices, "text") : choices, *one;
  const json_t *labels = json_is_object(choices) ? json_object_get(choices, "label") : NULL;
  size_t i, n;
  if (!json_is_array(texts)) wrong(l, "choices are no list");
  json_array_foreach((json_t *)texts, i, one) {
    const json_t *label = json_is_object(one) ? json_object_get(one, "label") : json_array_get(labels, i);
    const char *text = text_of(l, json_is_object(one) ? json_object_get(one, "text") : one, "a choice is no text", &n);
    add_choice(l, text, n, label);
  }
}

static void read_arc(Line *l) {
  const json_t *question = json_object_get(l->object, "question"), *stem = question;
  bool published = json_is_object(question);
  Text text = {0};
  size_t n;
  if (published) stem = json_object_get(question, "stem");
  const char *asked = text_of(l, stem, "question is no text", &n);
  l->question->apart = true;
  text_printf(&text, "Question: ");
  text_add(&text, asked, n);
  text_printf(&text, "\nAnswer:");
  set_context(l, text.at, text.n);
  text_close(&text);
  read_choices(l, json_object_get(published ? question : l->object, "choices"));
}

static void read_any(Line *l) {
  size_t n;
  const char *context = text_of(l, json_object_get(l->object, "context"), "context is no text", &n);
  set_context(l, context, n);
  read_choices(l, json_object_get(l->object, "choices"));
}

/* --- lines ---------------------------------------------------------------------------------------------------------------- */

static int label_of(const Line *l) {
  static const char *const names[] = {"label", "answerKey"};
  const json_t *label = NULL;
  int64_t number = -1;
  for (size_t i = 0; i < sizeof names / sizeof *names && !label; i++) label = json_object_get(l->object, names[i]);
  if (!label) wrong(l, "there is no label, nor answerKey");
  const char *name = label_text(l, label);
  bool named = false, numbered = false;
  for (int i = 0; i < l->question->n_choices; i++) {
    int64_t any;
    if (!l->labels[i]) continue;
    if (name && !strcmp(l->labels[i], name)) return i;
    named = true;
    numbered |= num_parse_int(l->labels[i], &any);
  }
  bool by_number = !numbered && (!named || json_is_integer(label));
  if (!by_number || !name || !num_parse_int(name, &number)) number = -1;
  if (number < 0 || number >= l->question->n_choices) wrong(l, "its label names none of its choices");
  return (int)number;
}

static void read_line(void *self, const char *place, const json_t *value) {
  Reading *r = self;
  Question q = {.place = arena_strdup(r->arena, place)};
  Line l = {.arena = r->arena, .place = place, .object = value, .question = &q};
  q.choices = arena_array(r->arena, Choice, QUESTION_CHOICES);
  if (json_object_get(value, "endings"))
    read_hellaswag(&l);
  else if (json_object_get(value, "question"))
    read_arc(&l);
  else
    read_any(&l);
  if (q.n_choices < 2) wrong(&l, "fewer than two choices");
  q.label = label_of(&l);
  vec_push(r->arena, &r->questions, q);
}

Question *questions_read(Arena *arena, const char *path, int *n) {
  Reading r = {.arena = arena};
  json_lines_read(path, read_line, &r);
  if (!r.questions.n) fail(FAIL_INPUT, "%s: no question is there\nhelp: a question a line, as JSON", path);
  *n = r.questions.n;
  return r.questions.at;
}
