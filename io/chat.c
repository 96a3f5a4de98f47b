/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation is written piece by piece.  Between two special tokens lies a segment of text, which is encoded with the two
 * beside it where the tokenizer finds them in text, since some treat a text's beginning otherwise than what follows a token.  Where
 * what counts begins within a segment, the ids that the text before it alone has do not count; an id that is part of both does. */
#include "io/chat.h"

#include <string.h>

#include "io/chat_templates.h"
#include "io/json.h"
#include "io/tokens.h"
#include "src/base/arena.h"
#include "src/base/utf8.h"

enum { MOST = 1 << 29 /* bytes of a line */ };

/* A special token of the template. */
typedef struct Special {
  int32_t id;
  const char *text; /* by which the tokenizer finds it in text; NULL: it does not */
} Special;

struct Chat {
  Arena *arena;
  const Tokenizer *t;
  const ChatTemplate *template;
  bool inputs;
  Special begin[2], role[CHAT_ROLES][CHAT_PIECES]; /* of its pieces that are tokens */
};

const char *const *chat_names(void) {
  static const char *names[16];
  CHECK(chat_ntemplates < 16);
  for (int i = 0; i < chat_ntemplates; i++) names[i] = chat_templates[i].name;
  return names;
}

/* --- a template and a tokenizer ------------------------------------------------------------------------------------------ */

static int32_t find_piece(const Tokenizer *t, const char *text) {
  size_t n, length = strlen(text);
  for (int32_t id = 0; id < tokenizer_vocab(t); id++) {
    const char *piece = tokenizer_piece(t, id, &n);
    if (n == length && !memcmp(piece, text, n)) return id;
  }
  return -1;
}

static bool find_special(const Chat *c, TokenizerWork *w, const ChatPiece *piece, Special *s, Why *why) {
  static const char *const roles[] = {[CHAT_BOS] = "begins a text", [CHAT_EOS] = "ends a text"};
  if (piece->kind == CHAT_TEXT || piece->kind == CHAT_CONTENT) return true;
  bool named = piece->kind == CHAT_TOKEN;
  s->id = named ? find_piece(c->t, piece->text) : tokenizer_special(c->t, piece->kind == CHAT_BOS ? TOKENIZER_BOS : TOKENIZER_EOS);
  if (s->id < 0 && named)
    return why_not(why, "chat template %s: %s has no token %s", c->template->name, tokenizer_path(c->t), piece->text);
  if (s->id < 0)
    return why_not(why, "chat template %s: %s has no token that %s", c->template->name, tokenizer_path(c->t), roles[piece->kind]);
  size_t n;
  const char *text = tokenizer_piece(c->t, s->id, &n);
  Ids ids = {0};
  if (!try_tokenizer_encode(w, text, n, &ids, why)) return false;
  if (ids.n == 1 && ids.at[0] == s->id) s->text = arena_strndup(c->arena, text, n);
  ids_close(&ids);
  return true;
}

static bool find_all(const Chat *c, TokenizerWork *w, const ChatPiece *pieces, Special *specials, Why *why) {
  for (int i = 0; pieces[i].kind != CHAT_END; i++)
    if (!find_special(c, w, &pieces[i], &specials[i], why)) return false;
  return true;
}

static bool why_name(const char *name, Why *why) {
  Text all = {0};
  for (int i = 0; i < chat_ntemplates; i++) text_printf(&all, "%s%s", i ? ", " : "", chat_templates[i].name);
  why_not(why, "no chat template is called '%.60s'\nhelp: %s", name, all.at);
  text_close(&all);
  return false;
}

bool try_chat_open(const Tokenizer *t, const char *name, bool inputs, Chat **chat, Why *why) {
  int i = 0;
  while (i < chat_ntemplates && strcmp(chat_templates[i].name, name)) i++;
  *chat = NULL;
  if (i == chat_ntemplates) return why_name(name, why);
  Arena *arena = arena_open();
  Chat *c = arena_new(arena, Chat);
  *c = (Chat){.arena = arena, .t = t, .template = &chat_templates[i], .inputs = inputs};
  TokenizerWork *w = tokenizer_work_open(t);
  bool ok = find_all(c, w, c->template->begin, c->begin, why);
  for (int r = 0; ok && r < CHAT_ROLES; r++) ok = find_all(c, w, c->template->role[r], c->role[r], why);
  tokenizer_work_close(w);
  if (!ok) return chat_close(c), false;
  *chat = c;
  return true;
}

void chat_close(Chat *c) {
  if (c) arena_close(c->arena);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------------ */

typedef struct Turn {
  ChatRole role;
  const char *text;
  size_t n;
} Turn;

typedef struct Turns {
  Turn *at;
  int n;
} Turns;

/* Absent, or there because a file's records all have the same fields. */
static bool says_nothing(const json_t *value) {
  const char *text = json_string_value(value);
  return !value || json_is_null(value) || (text && (!*text || !strcmp(text, "[]"))) ||
         (json_is_array(value) && !json_array_size(value));
}

/* What would be lost without a word; names end with NULL. */
static bool check_absent(const json_t *json, const char *const *names, const char *what, Why *why) {
  for (; *names; names++)
    if (!says_nothing(json_object_get(json, *names)))
      return why_not(why, "%s with '%s', which no template here writes: leave the field or the conversation out", what, *names);
  return true;
}

/* Whether what a message says of itself is so anyway. */
static bool check_counting(const Chat *c, const json_t *message, ChatRole role, Why *why) {
  static const char *const names[] = {"weight", "train"};
  bool counts = role == CHAT_ASSISTANT || c->inputs;
  for (int i = 0; i < 2; i++) {
    const json_t *value = json_object_get(message, names[i]);
    bool as_here =
        json_is_number(value) ? json_number_value(value) == counts : json_is_boolean(value) && json_is_true(value) == counts;
    if (as_here || says_nothing(value)) continue;
    return why_not(why, "a message whose '%s' is not %d, but %s: leave the field or the conversation out", names[i], counts,
                   c->inputs ? "all count" : "answers count and nothing else");
  }
  return true;
}

static bool take_turn(const Chat *c, const json_t *message, const char *role, const char *content, Turn *turn, Why *why) {
  const json_t *who = json_object_get(message, role), *text = json_object_get(message, content);
  if (!json_is_string(who) || !json_is_string(text)) return why_not(why, "a message without texts '%s' and '%s'", role, content);
  for (int i = 0; i < chat_nroles; i++)
    if (!strcmp(json_string_value(who), chat_roles[i].name)) {
      *turn = (Turn){chat_roles[i].role, json_string_value(text), json_string_length(text)};
      return check_absent(message, (const char *const[]){"tool_calls", "function_call", NULL}, "a message", why) &&
             check_counting(c, message, turn->role, why);
    }
  return why_not(why, "role '%.40s' is none of system, user, assistant", json_string_value(who));
}

static bool take_pair(const json_t *json, Turns *turns, Why *why) {
  const json_t *ask = json_object_get(json, "prompt"), *answer = json_object_get(json, "completion");
  if (!json_is_string(ask) || !json_is_string(answer))
    return why_not(why, "no conversation: it has neither 'messages' nor 'conversations', nor texts 'prompt' and 'completion'");
  turns->at[turns->n++] = (Turn){CHAT_USER, json_string_value(ask), json_string_length(ask)};
  turns->at[turns->n++] = (Turn){CHAT_ASSISTANT, json_string_value(answer), json_string_length(answer)};
  return true;
}

static bool take_system(const json_t *json, Turns *turns, Why *why) {
  const json_t *system = json_object_get(json, "system");
  if (says_nothing(system)) return true;
  if (!json_is_string(system)) return why_not(why, "'system' is no text");
  turns->at[turns->n++] = (Turn){CHAT_SYSTEM, json_string_value(system), json_string_length(system)};
  return true;
}

static bool take_turns(const Chat *c, const json_t *json, Arena *arena, Turns *turns, Why *why) {
  static const char *const forms[][3] = {{"messages", "role", "content"}, {"conversations", "from", "value"}};
  int f = 0;
  while (f < 2 && !json_object_get(json, forms[f][0])) f++;
  const json_t *list = f < 2 ? json_object_get(json, forms[f][0]) : NULL;
  size_t n = json_array_size(list);
  turns->at = arena_array(arena, Turn, n + 3); /* with a system's text; or a pair */
  if (!check_absent(json, (const char *const[]){"tools", "functions", NULL}, "a conversation", why)) return false;
  if (!take_system(json, turns, why)) return false;
  if (f == 2) return take_pair(json, turns, why);
  if (!n) return why_not(why, "'%s' is no list of messages", forms[f][0]);
  for (size_t i = 0; i < n; i++)
    if (!take_turn(c, json_array_get(list, i), forms[f][1], forms[f][2], &turns->at[turns->n++], why)) return false;
  return true;
}

static bool check_order(const Chat *c, const Turns *turns, Why *why) {
  const ChatTemplate *t = c->template;
  int first = turns->at[0].role == CHAT_SYSTEM;
  for (int i = first; i < turns->n; i++) {
    if (turns->at[i].role == CHAT_SYSTEM) return why_not(why, "a message of the system's that is not the first");
    if (t->alternate && (turns->at[i].role == CHAT_USER) != ((i - first) % 2 == 0))
      return why_not(why, "user and assistant do not take turns, as chat template %s wants it", t->name);
  }
  if (turns->n == first) return why_not(why, "a conversation of a system's message alone");
  return true;
}

/* --- writing --------------------------------------------------------------------------------------------------------------- */

typedef struct Writer {
  const Chat *c;
  TokenizerWork *w;
  Ids *ids;
  Text *marks;
  Text segment;
  size_t counted; /* where in the segment that counts begins; SIZE_MAX: nowhere */
  bool counting;
  const Special *left; /* of the segment; NULL: it begins the text */
  Ids whole, before;   /* scratch */
} Writer;

static void put_marks(Writer *w, int64_t n, bool counts) {
  static const char mark[2] = {0, TOKEN_COUNTS};
  for (int64_t i = 0; i < n; i++) text_add(w->marks, &mark[counts || w->c->inputs], 1);
}

/* n bytes of the segment between the tokens beside it, right NULL for none; ids: theirs alone. */
static bool encode(Writer *w, size_t n, const Special *right, Ids *ids, Why *why) {
  const char *l = w->left && w->left->text ? w->left->text : "", *r = right && right->text ? right->text : "";
  Text all = {0};
  text_printf(&all, "%s", l);
  text_add(&all, w->segment.at, n);
  text_printf(&all, "%s", r);
  ids->n = 0;
  bool ok = try_tokenizer_encode(w->w, all.at, all.n, ids, why);
  text_close(&all);
  if (!ok) return false;
  int64_t first = *l != 0, last = *r != 0;
  if (ids->n < first + last || (first && ids->at[0] != w->left->id) || (last && ids->at[ids->n - 1] != right->id))
    return why_not(why, "the tokenizer does not find %s and %s around a text", l, r);
  ids->n -= first + last;
  memmove(ids->at, ids->at + first, sizeof *ids->at * (size_t)ids->n);
  return true;
}

static bool end_segment(Writer *w, const Special *right, Why *why) {
  int64_t quiet = 0; /* ids that do not count */
  if (!w->segment.n) return true;
  if (!encode(w, w->segment.n, right, &w->whole, why)) return false;
  if (w->counted >= w->segment.n) {
    quiet = w->whole.n;
  } else if (w->counted) {
    if (!encode(w, w->counted, NULL, &w->before, why)) return false;
    while (quiet < w->before.n && quiet < w->whole.n && w->before.at[quiet] == w->whole.at[quiet]) quiet++;
  }
  ids_add(w->ids, w->whole.at, w->whole.n);
  put_marks(w, quiet, false);
  put_marks(w, w->whole.n - quiet, true);
  w->segment.n = 0;
  return true;
}

static bool put_special(Writer *w, const Special *s, Why *why) {
  if (!end_segment(w, s, why)) return false;
  ids_add(w->ids, &s->id, 1);
  put_marks(w, 1, w->counting);
  w->counting = false;
  w->counted = SIZE_MAX;
  w->left = s;
  return true;
}

static void put_content(Writer *w, const Turn *turn, const Turn *system, bool trim) {
  const ChatTemplate *t = w->c->template;
  Text all = {0};
  text_printf(&all, "%s", "");
  if (system) {
    text_printf(&all, "%s", t->fold[0]);
    text_add(&all, system->text, system->n);
    text_printf(&all, "%s", t->fold[1]);
  }
  text_add(&all, turn->text, turn->n);
  size_t end = trim ? utf8_trimmed(all.at, all.n) : all.n, begin = trim ? utf8_spaces(all.at, end) : 0;
  text_add(&w->segment, all.at + begin, end - begin);
  text_close(&all);
}

/* system: what is folded into this turn, or NULL. */
static bool put_turn(Writer *w, const Turn *turn, const Turn *system, Why *why) {
  const ChatPiece *pieces = w->c->template->role[turn->role];
  for (int i = 0; pieces[i].kind != CHAT_END; i++) {
    switch (pieces[i].kind) {
    case CHAT_TEXT:
      text_printf(&w->segment, "%s", pieces[i].text);
      break;
    case CHAT_CONTENT:
      w->counting = turn->role == CHAT_ASSISTANT;
      if (w->counting) w->counted = w->segment.n;
      put_content(w, turn, system, w->c->template->trim[turn->role]);
      break;
    default:
      if (!put_special(w, &w->c->role[turn->role][i], why)) return false;
    }
  }
  return true;
}

static bool put_all(Writer *w, const Turns *turns, Why *why) {
  const ChatTemplate *t = w->c->template;
  bool given = turns->at[0].role == CHAT_SYSTEM, folded = given && t->fold[0];
  for (int i = 0; t->begin[i].kind != CHAT_END; i++)
    if (!put_special(w, &w->c->begin[i], why)) return false;
  if (!given && t->system && !put_turn(w, &(Turn){CHAT_SYSTEM, t->system, strlen(t->system)}, NULL, why)) return false;
  for (int i = folded; i < turns->n; i++)
    if (!put_turn(w, &turns->at[i], i == 1 && folded ? &turns->at[0] : NULL, why)) return false;
  return end_segment(w, NULL, why);
}

static bool write_turns(const Chat *c, TokenizerWork *work, const Turns *turns, Ids *ids, Text *marks, Why *why) {
  Writer w = {.c = c, .w = work, .ids = ids, .marks = marks, .counted = SIZE_MAX};
  int64_t ids_before = ids->n;
  size_t marks_before = marks->n;
  bool ok = put_all(&w, turns, why);
  if (ok && marks->n > marks_before) marks->at[marks_before] |= TOKEN_BEGINS;
  if (!ok) ids->n = ids_before, marks->n = marks_before;
  text_close(&w.segment);
  ids_close(&w.whole);
  ids_close(&w.before);
  return ok;
}

bool try_chat_encode(const Chat *c, TokenizerWork *w, const char *text, size_t n, Ids *ids, Text *marks, Why *why) {
  Turns turns = {0};
  if (n > MOST) return why_not(why, "%zu bytes are too long a line", n);
  json_t *json = json_parse(text, n, "JSON", why);
  if (!json) return false;
  Arena *arena = arena_open();
  bool ok = take_turns(c, json, arena, &turns, why) && check_order(c, &turns, why) && write_turns(c, w, &turns, ids, marks, why);
  arena_close(arena);
  json_decref(json);
  return ok;
}
