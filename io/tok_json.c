/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json (huggingface/tokenizers, version 1.0) with a BPE model: added tokens are found first, what lies between is
 * normalised, cut into words, and each word is encoded.  Offsets, truncation and padding are of no use here and not looked at. */
#include <stdlib.h>
#include <string.h>

#include "io/tok_impl.h"
#include "src/base/utf8.h"

typedef struct Spelling {
  const char *at; /* NULL: there is no such id */
  uint32_t n;
  bool special;
} Spelling;

typedef struct TokJson {
  Normals normals;
  Splits splits;
  Decodes decodes;
  bool bytes; /* words are made of bytes */
  Bpe *bpe;
  VEC(AddedToken) tokens;
  Added *plain, *normalized;
  Spelling *spelling; /* vocab */
} TokJson;

typedef struct JsonWork {
  const TokJson *j;
  RegexWork *regex;
  BpeWork *bpe;
  Text escaped, normal[2], word, *scratch;
  Why why;
  bool is_escaped;
  bool is_first; /* what is looked at begins the text */
  Ids *ids;
} JsonWork;

/* --- reading JSON ---------------------------------------------------------------------------------------------------------- */

bool tok_check_keys(const json_t *json, const char *keys, Why *why) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)json, key, value) {
    size_t n = strlen(key);
    bool known = !strcmp(key, "type");
    for (const char *at = keys; !known && *at; at += strcspn(at, " "), at += *at == ' ')
      known = strcspn(at, " ") == n && !memcmp(at, key, n);
    if (!known) return why_not(why, "'%.40s' is not known here", key);
  }
  return true;
}

bool tok_bool(const json_t *json, const char *key, bool fallback) {
  const json_t *value = json_object_get(json, key);
  return json_is_boolean(value) ? json_is_true(value) : fallback;
}

bool tok_gave_up(Why *why) { return why_not(why, "a pattern gives up: too many ways to match"); }
bool tok_too_long(Why *why) { return why_not(why, "the tokenizer's stages make too long a text of it"); }

/* jansson takes no NUL in keys, and pieces are keys: in the file's text a NUL's escape becomes U+FFFF and a 0, and U+FFFF itself,
 * as an escape or not, U+FFFF and a 1; here they become again what they were. */
static const char mark[] = "\xEF\xBF\xBF";

static void hide_nuls(const char *bytes, size_t n, Text *out) {
  size_t done = 0, length;
  text_add(out, "", 0);
  for (size_t at = 0; at < n; at += length) {
    const char *from = bytes + at, *instead = NULL;
    size_t left = n - at;
    length = *from == '\\' && left > 1 ? 2 : 1;
    if (left >= 6 && !memcmp(from, "\\u0000", 6))
      length = 6, instead = "\\uFFFF0";
    else if (left >= 6 && !memcmp(from, "\\u", 2) && !strncasecmp(from + 2, "FFFF", 4))
      length = 6, instead = "\\uFFFF1";
    else if (left >= 3 && !memcmp(from, mark, 3))
      length = 3, instead = "\\uFFFF1";
    if (!instead) continue;
    text_add(out, bytes + done, at - done);
    text_add(out, instead, 7);
    done = at + length;
  }
  text_add(out, bytes + done, n - done);
}

static const char *show_nuls(Arena *arena, const char *text, size_t *n) {
  char *out = arena_strndup(arena, text, *n);
  size_t made = 0, length;
  for (size_t i = 0; i < *n; i += length) {
    bool marked = *n - i >= 4 && !memcmp(text + i, mark, 3);
    length = marked ? 4 : 1;
    if (marked && text[i + 3] == '1')
      memcpy(out + made, mark, 3), made += 3;
    else
      out[made++] = marked ? 0 : text[i];
  }
  out[made] = 0;
  *n = made;
  return out;
}

const char *tok_text(Arena *arena, const json_t *json, const char *key, size_t *n, Why *why) {
  const json_t *value = json_object_get(json, key);
  if (!json_is_string(value)) return why_not(why, "%s is not there, or is no text", key), NULL;
  *n = json_string_length(value);
  return show_nuls(arena, json_string_value(value), n);
}

bool tok_pattern(Arena *arena, const json_t *json, Regex **regex, Why *why) {
  const json_t *pattern = json_object_get(json, "pattern"), *text = json_object_get(pattern, "String");
  const json_t *expression = json_object_get(pattern, "Regex");
  if (json_object_size(pattern) != 1 || !(json_is_string(text) || json_is_string(expression)))
    return why_not(why, "pattern is neither {\"String\": …} nor {\"Regex\": …}");
  if (text && !json_string_length(text)) return why_not(why, "pattern is empty");
  size_t n = json_string_length(text ? text : expression);
  const char *is = show_nuls(arena, json_string_value(text ? text : expression), &n);
  return try_regex_open(is, n, text ? REGEX_LITERAL : REGEX_ONIGURUMA, regex, why);
}

/* --- model ----------------------------------------------------------------------------------------------------------------- */

static bool is_set(const json_t *model, const char *key) {
  const json_t *value = json_object_get(model, key);
  return value && !json_is_null(value) && !(json_is_string(value) && !json_string_length(value)) &&
         !(json_is_number(value) && json_number_value(value) == 0);
}

static bool check_model(const json_t *model, Why *why) {
  static const char *const refused[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
  const char *type = json_string_value(json_object_get(model, "type"));
  if (!json_is_object(model)) return why_not(why, "model: is not there");
  if (type && strcmp(type, "BPE")) return why_not(why, "model '%.40s' is not known here; BPE is", type);
  Why reason;
  if (!tok_check_keys(
          model, "dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges vocab merges",
          &reason))
    return why_not(why, "model: %s", reason.text);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (is_set(model, refused[i])) return why_not(why, "model: %s is not known here", refused[i]);
  if (!json_is_object(json_object_get(model, "vocab"))) return why_not(why, "model: vocab is not there");
  if (!json_is_array(json_object_get(model, "merges"))) return why_not(why, "model: merges is not there");
  return true;
}

/* The id of a text in the vocabulary, or -1; ids were checked. */
static int32_t vocab_id(const json_t *vocab, const char *text) {
  const json_t *id = json_object_get(vocab, text);
  return id ? (int32_t)json_integer_value(id) : -1;
}

/* The bytes that a piece spells in ByteLevel's alphabet; NULL: it has another character, so no word can be it. */
static const char *piece_bytes(Arena *arena, const char *piece, size_t n, size_t *out_n) {
  char *out = arena_alloc(arena, n);
  *out_n = 0;
  for (size_t at = 0; at < n;) {
    uint32_t c;
    at += (size_t)utf8_read(piece + at, &c);
    int byte = byte_of_char(c);
    if (byte < 0) return NULL;
    out[(*out_n)++] = (char)byte;
  }
  return out;
}

static bool read_vocab(Tokenizer *t, TokJson *j, const json_t *vocab, Why *why) {
  const char *key;
  json_t *value;
  int64_t most = -1;
  json_object_foreach((json_t *)vocab, key, value) {
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= TOK_IDS_MOST) return why_not(why, "model: vocab: '%.40s' has no id", key);
    if (id > most) most = id;
  }
  int64_t n_added = j->tokens.n, n_pieces = (int64_t)json_object_size(vocab);
  t->vocab = (most + 1 > n_pieces ? most + 1 : n_pieces) + n_added; /* room; settled when the added tokens are there */
  j->spelling = arena_array(t->arena, Spelling, t->vocab);
  json_object_foreach((json_t *)vocab, key, value) {
    size_t n = strlen(key), n_bytes;
    int32_t id = (int32_t)json_integer_value(value);
    if (j->spelling[id].at) return why_not(why, "model: vocab: two pieces have id %d", id);
    const char *kept = show_nuls(t->arena, key, &n), *bytes = j->bytes ? piece_bytes(t->arena, kept, n, &n_bytes) : kept;
    if (!j->bytes) n_bytes = n;
    j->spelling[id] = (Spelling){kept, (uint32_t)n, false};
    if (bytes && n) bpe_add_piece(j->bpe, bytes, n_bytes, id);
  }
  return true;
}

/* A merge's two texts: ["a", "b"] or "a b". */
static bool merge_texts(Arena *arena, const json_t *merge, const char *text[2]) {
  if (json_is_array(merge) && json_array_size(merge) == 2) {
    for (size_t i = 0; i < 2; i++)
      if (!(text[i] = json_string_value(json_array_get(merge, i)))) return false;
    return true;
  }
  const char *both = json_string_value(merge), *space = both ? strchr(both, ' ') : NULL;
  if (!space || strchr(space + 1, ' ')) return false;
  text[0] = arena_strndup(arena, both, (size_t)(space - both));
  text[1] = space + 1;
  return true;
}

/* Neither is empty: an empty text would make a border of what lies beyond it. */
static void add_border(Arena *arena, Bpe *bpe, const char *left, const char *right) {
  uint32_t last, first;
  size_t n = strlen(left), n_right = strlen(right);
  if (strstr(left, mark)) left = show_nuls(arena, left, &n);
  if (strstr(right, mark)) right = show_nuls(arena, right, &n_right);
  utf8_read(left + utf8_before(left, n), &last);
  utf8_read(right, &first);
  bpe_add_border(bpe, last, first);
}

static bool read_merges(TokJson *j, const json_t *model, Why *why) {
  const json_t *merges = json_object_get(model, "merges"), *vocab = json_object_get(model, "vocab"), *merge;
  Arena *arena = arena_open();
  Text joined = {0};
  uint32_t rank = 0;
  size_t i;
  bool ok = true;
  json_array_foreach(merges, i, merge) {
    const char *text[2] = {0}, *comment = json_string_value(merge);
    if (comment && !strncmp(comment, "#version", 8)) continue;
    if (!(ok = merge_texts(arena, merge, text) || why_not(why, "model: merge %zu is no pair", i))) break;
    joined.n = 0;
    text_printf(&joined, "%s%s", text[0], text[1]);
    int32_t left = vocab_id(vocab, text[0]), right = vocab_id(vocab, text[1]), both = vocab_id(vocab, joined.at);
    ok = left >= 0 && right >= 0 && both >= 0 && *text[0] && *text[1];
    if (!ok) {
      why_not(why, "model: merge %zu of '%.40s' and '%.40s' is of pieces that are not in vocab", i, text[0], text[1]);
      break;
    }
    bpe_add_merge(j->bpe, left, right, rank++, both);
    if (!j->bytes) add_border(arena, j->bpe, text[0], text[1]);
  }
  text_close(&joined);
  arena_close(arena);
  return ok;
}

static bool read_model(Tokenizer *t, TokJson *j, const json_t *model, Why *why) {
  const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_token");
  j->bpe = bpe_open(t->arena, (int64_t)json_object_size(vocab), (int64_t)json_array_size(json_object_get(model, "merges")));
  if (!read_vocab(t, j, vocab, why) || !read_merges(j, model, why)) return false;
  BpeOptions o = {.bytes = j->bytes,
                  .fallback = tok_bool(model, "byte_fallback", false),
                  .ignore_merges = tok_bool(model, "ignore_merges", false),
                  .fuse_unk = tok_bool(model, "fuse_unk", false),
                  .unk = -1};
  if (json_is_string(unk) && (o.unk = vocab_id(vocab, json_string_value(unk))) < 0)
    return why_not(why, "model: unk_token '%.40s' is not in vocab", json_string_value(unk));
  for (int b = 0; b < 256; b++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", b);
    o.byte_id[b] = j->bytes ? bpe_find(j->bpe, &(char){(char)b}, 1) : vocab_id(vocab, name);
    if (j->bytes && o.fallback && o.byte_id[b] < 0)
      return why_not(why, "model: byte_fallback with a ByteLevel that lacks byte %d is not known here", b);
  }
  bpe_start(j->bpe, &o);
  return true;
}

/* --- added tokens ---------------------------------------------------------------------------------------------------------- */

/* Before the model, since there must be room for their ids. */
static bool read_tokens(Arena *arena, TokJson *j, const json_t *all, Why *why) {
  const json_t *one;
  size_t i;
  Why reason;
  json_array_foreach(all, i, one) {
    AddedToken token = {.normalized = tok_bool(one, "normalized", true),
                        .special = tok_bool(one, "special", false),
                        .single_word = tok_bool(one, "single_word", false),
                        .lstrip = tok_bool(one, "lstrip", false),
                        .rstrip = tok_bool(one, "rstrip", false)};
    if (!tok_check_keys(one, "id content single_word lstrip rstrip normalized special", &reason) ||
        !tok_text(arena, one, "content", &token.n, &reason))
      return why_not(why, "added token %zu: %s", i, reason.text);
    const json_t *content = json_object_get(one, "content"); /* as it stands in vocab, until it has its id */
    token.n = json_string_length(content);
    token.text = arena_strndup(arena, json_string_value(content), token.n);
    if (token.n) vec_push(arena, &j->tokens, token);
  }
  return true;
}

/* The id of a token: its own in vocab, or the next free one; the id in the file says the same, and the library does not heed it. */
static int32_t token_id(const AddedToken *token, const json_t *vocab, json_t *placed, int32_t *next) {
  const json_t *known = json_object_getn(vocab, token->text, token->n);
  if (!known) known = json_object_getn(placed, token->text, token->n);
  if (known) return (int32_t)json_integer_value(known);
  CHECK(!json_object_setn_new_nocheck(placed, token->text, token->n, json_integer(*next)));
  return (*next)++;
}

static bool place_tokens(Tokenizer *t, TokJson *j, const json_t *vocab, Why *why) {
  int32_t next = (int32_t)json_object_size(vocab);
  RegexWork *w = regex_work_open();
  Text scratch[2] = {0}, *normal = NULL;
  bool ok = true;
  json_t *placed = json_object();
  for (int i = 0; i < j->tokens.n; i++) j->tokens.at[i].id = token_id(&j->tokens.at[i], vocab, placed, &next);
  json_decref(placed);
  for (int i = 0; ok && i < j->tokens.n; i++) {
    AddedToken *token = &j->tokens.at[i];
    token->content = token->text = show_nuls(t->arena, token->text, &token->n);
    token->content_n = token->n;
    if (token->normalized && j->normals.n) {
      Why reason;
      ok = normals_apply(&j->normals, w, token->text, token->n, scratch, &normal, &reason) ||
           why_not(why, "normalizer: added token '%.40s': %s", token->text, reason.text);
      if (ok) token->text = arena_strndup(t->arena, normal->at, token->n = normal->n);
    }
    j->spelling[token->id] = (Spelling){token->text, (uint32_t)token->n, token->special};
  }
  for (int i = 0; i < 2; i++) text_close(&scratch[i]);
  regex_work_close(w);
  while (t->vocab && !j->spelling[t->vocab - 1].at) t->vocab--;
  return ok && try_added_open(t->arena, j->tokens.at, j->tokens.n, false, &j->plain, why) &&
         try_added_open(t->arena, j->tokens.at, j->tokens.n, true, &j->normalized, why);
}

/* An added token goes by its content; its spelling may be a normalizer's. */
static int32_t find_token(const Tokenizer *t, const TokJson *j, const char *text) {
  size_t n = strlen(text);
  for (int i = 0; i < j->tokens.n; i++)
    if (j->tokens.at[i].content_n == n && !memcmp(j->tokens.at[i].content, text, n)) return j->tokens.at[i].id;
  for (int32_t id = 0; id < t->vocab; id++)
    if (j->spelling[id].at && j->spelling[id].n == n && !memcmp(j->spelling[id].at, text, n)) return id;
  return -1;
}

/* --- roles ---------------------------------------------------------------------------------------------------- */

/* Where no file beside tells: names by which roles usually go, the likelier first. */
static const char *const usual[TOKENIZER_ROLES][8] = {
    [TOKENIZER_BOS] = {"<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>"},
    [TOKENIZER_EOS] = {"<|end_of_text|>", "</s>", "<|endoftext|>", "<eos>"},
    [TOKENIZER_UNK] = {"<unk>", "[UNK]"},
    [TOKENIZER_PAD] = {"<pad>", "[PAD]", "<|finetune_right_pad_id|>"},
};

/* A file beside the tokenizer's, or NULL; one that is damaged tells nothing. */
static json_t *read_beside(const Tokenizer *t, const char *name) {
  const char *slash = strrchr(t->path, '/');
  return json_parse_file(arena_printf(t->arena, "%.*s%s", slash ? (int)(slash + 1 - t->path) : 0, t->path, name), NULL);
}

static bool set_role(Tokenizer *t, const TokJson *j, int role, const char *text) {
  t->special[role] = find_token(t, j, text);
  if (t->special[role] >= 0) t->special_text[role] = arena_strdup(t->arena, text);
  return t->special[role] >= 0;
}

static void find_roles(Tokenizer *t, const TokJson *j) {
  json_t *files[] = {read_beside(t, "tokenizer_config.json"), read_beside(t, "special_tokens_map.json")};
  for (int role = 0; role < TOKENIZER_ROLES; role++) {
    const json_t *told = NULL;
    for (int f = 0; !told && f < 2; f++) told = json_object_get(files[f], tokenizer_role_key(role));
    const char *text = json_string_value(json_is_object(told) ? json_object_get(told, "content") : told);
    if (text) set_role(t, j, role, text);
    for (int i = 0; !told && usual[role][i] && !set_role(t, j, role, usual[role][i]);) i++;
  }
  for (int f = 0; f < 2; f++) json_decref(files[f]);
}

/* --- the whole ------------------------------------------------------------------------------------------------------------- */

static bool build(Tokenizer *t, TokJson *j, const json_t *root, Why *why) {
  Why reason;
  const json_t *model = json_object_get(root, "model");
  if (!tok_check_keys(root, "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model",
                      &reason))
    return why_not(why, "tokenizer.json: %s", reason.text);
  const char *version = json_string_value(json_object_get(root, "version"));
  if (version && strcmp(version, "1.0")) return why_not(why, "version '%.20s' is not known here; 1.0 is", version);
  return check_model(model, why) && try_normals_open(t->arena, json_object_get(root, "normalizer"), &j->normals, why) &&
         try_splits_open(t->arena, json_object_get(root, "pre_tokenizer"), &j->splits, &j->bytes, why) &&
         try_decodes_open(t->arena, json_object_get(root, "decoder"), &j->decodes, why) &&
         read_tokens(t->arena, j, json_object_get(root, "added_tokens"), why) && read_model(t, j, model, why) &&
         place_tokens(t, j, json_object_get(model, "vocab"), why) &&
         try_template_open(t, json_object_get(root, "post_processor"), why);
}

static bool open_json(Tokenizer *t, char *bytes, size_t n, const char *pattern, Why *why) {
  if (pattern) return why_not(why, "a tokenizer.json holds its own pattern\nhelp: leave the pattern out");
  Text hidden = {0};
  hide_nuls(bytes, n, &hidden);
  json_t *root = json_parse(hidden.at, hidden.n, t->path, why);
  text_close(&hidden);
  if (!root) return false;
  TokJson *j = t->self = arena_new(t->arena, TokJson);
  bool ok = build(t, j, root, why);
  json_decref(root);
  if (ok) find_roles(t, j);
  return ok;
}

static void close_json(void *self) {
  TokJson *j = self;
  normals_close(&j->normals);
  splits_close(&j->splits);
  decodes_close(&j->decodes);
  added_close(j->plain);
  added_close(j->normalized);
}

static void *open_work(const Tokenizer *t) {
  JsonWork *w = xmalloc(sizeof *w);
  *w = (JsonWork){.j = t->self, .regex = regex_work_open(), .bpe = bpe_work_open()};
  size_t stages = (size_t)w->j->splits.n + 1;
  w->scratch = xmalloc(sizeof *w->scratch * stages);
  for (size_t i = 0; i < stages; i++) w->scratch[i] = (Text){0};
  return w;
}

static void close_work(void *work) {
  JsonWork *w = work;
  for (int i = 0; i < w->j->splits.n; i++) text_close(&w->scratch[i]);
  for (int i = 0; i < 2; i++) text_close(&w->normal[i]);
  text_close(&w->escaped);
  text_close(&w->word);
  free(w->scratch);
  regex_work_close(w->regex);
  bpe_work_close(w->bpe);
  free(w);
}

static bool visit_word(void *self, const char *word, size_t n, Why *why) {
  JsonWork *w = self;
  if (w->is_escaped && w->j->bytes) {
    w->word.n = 0;
    utf8_unescape(word, n, &w->word);
    word = w->word.at;
    n = w->word.n;
  }
  return bpe_word(w->j->bpe, w->bpe, word, n, w->ids, why);
}

static bool visit_normalized(void *self, int32_t id, const char *text, size_t n, bool first) {
  JsonWork *w = self;
  if (id < 0) return splits_walk(&w->j->splits, w->regex, w->scratch, text, n, first && w->is_first, visit_word, w, &w->why);
  ids_add(w->ids, &id, 1);
  return true;
}

static bool visit_plain(void *self, int32_t id, const char *text, size_t n, bool first) {
  JsonWork *w = self;
  w->is_first = first;
  if (id >= 0) return visit_normalized(self, id, text, n, first);
  Text *normal = NULL;
  if (!normals_apply(&w->j->normals, w->regex, text, n, w->normal, &normal, &w->why)) return false;
  if (normal) text = normal->at, n = normal->n;
  return added_walk(w->j->normalized, w->regex, text, n, visit_normalized, w);
}

static bool encode(const Tokenizer *t, void *work, const char *text, size_t n, Ids *ids, Why *why) {
  JsonWork *w = work;
  w->ids = ids;
  w->is_escaped = utf8_valid(text, n) < n;
  if (w->is_escaped) {
    w->escaped.n = 0;
    utf8_escape(text, n, &w->escaped);
    text = w->escaped.at;
    n = w->escaped.n;
  }
  return added_walk(w->j->plain, w->regex, text, n, visit_plain, w) ||
         why_not(why, "%s: a text of %zu bytes: %s\nhelp: shorter documents", t->path, n, w->why.text);
}

static bool has(const Tokenizer *t, int32_t id) { return ((const TokJson *)t->self)->spelling[id].at; }

static bool silent(const Tokenizer *t, int32_t id) {
  const Spelling *s = &((const TokJson *)t->self)->spelling[id];
  return s->special && fallback_byte(s->at, s->n) < 0; /* some files mark bytes so */
}

static bool decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why) {
  const TokJson *j = t->self;
  Text spelling = {0};
  size_t *ends = xmalloc(sizeof *ends * (size_t)(n + 1));
  int64_t count = 0;
  text_add(&spelling, "", 0);
  for (int64_t i = 0; i < n; i++) {
    if (!tokenizer_has(t, ids[i])) continue;
    text_add(&spelling, j->spelling[ids[i]].at, j->spelling[ids[i]].n);
    ends[count++] = spelling.n;
  }
  bool ok = try_decodes_apply(&j->decodes, spelling.at, ends, count, raw, text, why);
  free(ends);
  text_close(&spelling);
  return ok;
}

static const char *piece(const Tokenizer *t, int32_t id, size_t *n) {
  const Spelling *s = &((const TokJson *)t->self)->spelling[id];
  return *n = s->n, s->at;
}

const TokFormat tok_json = {"tokenizer.json", "tokenizer.json", open_json, close_json, open_work, close_work,
                            encode,           decode,           has,       silent,     piece};
