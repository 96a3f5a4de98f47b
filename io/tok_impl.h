/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the tokenizer share: the table of formats, and the stages of a tokenizer.json. */
#ifndef IO_TOK_IMPL_H
#define IO_TOK_IMPL_H

#include "io/json.h"
#include "io/tok_bpe.h"
#include "io/tok_regex.h"
#include "io/tokenizer.h"
#include "src/base/vec.h"

/* --- formats --------------------------------------------------------------------------------------------------------------- */

typedef struct TokFormat {
  const char *name, *file; /* file: how it is called in a model's folder */
  /* Fills vocab, special, before, after and self from n bytes of the file at t->path, which it may change; ends with why where they
   * are none. */
  bool (*open)(Tokenizer *t, char *bytes, size_t n, const char *pattern, Why *why);
  void (*close)(void *self); /* NULL: all is in the arena */
  void *(*work_open)(const Tokenizer *t);
  void (*work_close)(void *work);
  bool (*encode)(const Tokenizer *t, void *work, const char *text, size_t n, Ids *ids, Why *why);
  bool (*decode)(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why);
  bool (*has)(const Tokenizer *t, int32_t id);
  bool (*silent)(const Tokenizer *t, int32_t id); /* special: stands for no text */
  const char *(*piece)(const Tokenizer *t, int32_t id, size_t *n);
} TokFormat;

struct Tokenizer {
  const TokFormat *format;
  Arena *arena;
  const char *path;
  char hash[65];
  int64_t vocab;
  int32_t special[TOKENIZER_ROLES];
  const char *special_text[TOKENIZER_ROLES]; /* as it stands in the file; NULL: none, or not looked for by text */
  Ids before, after;
  void *self;
};

extern const TokFormat tok_bytes, tok_json, tok_sentencepiece, tok_tiktoken;

/* Whether a SentencePiece model is safe for its library. */
bool try_sp_check(const char *bytes, size_t n, Why *why);

enum { TOK_IDS_MOST = 1 << 24 }; /* of files: an id above is a damaged file */

/* --- added tokens: texts that are found before anything else looks --------------------------------------------------------- */

typedef struct AddedToken {
  const char *text; /* as it is searched for */
  size_t n;
  const char *content; /* as the file has it */
  size_t content_n;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} AddedToken;

typedef struct Added Added;

/* Of tokens, those with .normalized as said; they are kept, not copied. */
bool try_added_open(Arena *arena, const AddedToken *tokens, int n, bool normalized, Added **added, Why *why);
void added_close(Added *a);

/* A walk over a text: calls it either way for each part in order, with a token's id, or with -1 and text between. */
typedef bool AddedVisit(void *self, int32_t id, const char *text, size_t n, bool first);
bool added_walk(const Added *a, RegexWork *w, const char *text, size_t n, AddedVisit *visit, void *self);

/* --- stages of a tokenizer.json -------------------------------------------------------------------------------------------- */

typedef struct StageType {
  const char *type, *keys; /* its name, and the members that it may have beside, with spaces between */
} StageType;

/* Normalizers, pre_tokenizers, decoders, post_processors. */
typedef struct StageKind {
  const char *what, *members; /* "normalizer"; where a Sequence has its stages: "normalizers" */
  int n;
  StageType (*type)(int i);
  bool (*open)(void *self, int i, const json_t *json, Why *why);    /* a stage of type i is the next */
  bool (*may_follow)(const void *self, const char *type, Why *why); /* NULL: whatever was there before */
} StageKind;

/* From JSON; a type, member or value that is not known is an error that names it, and so are more than 64 stages.  null is none. */
bool try_stages_open(const StageKind *kind, const json_t *json, void *self, Why *why);

typedef struct Normal Normal;
typedef struct Split Split;
typedef struct Decode Decode;
typedef VEC(Normal) Normals;
typedef VEC(Split) Splits;
typedef VEC(Decode) Decodes;

struct Normal {
  const struct NormalRow *row;
  Regex *regex;
  const char *text;
  size_t n;
  bool left, right;
};

typedef enum SplitBehaviour {
  SPLIT_REMOVED,
  SPLIT_ISOLATED,
  SPLIT_WITH_PREVIOUS,
  SPLIT_WITH_NEXT,
  SPLIT_CONTIGUOUS
} SplitBehaviour;
typedef enum SplitPrepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } SplitPrepend;

/* One stage: spaces become another text, something is put before, and a pattern cuts. */
struct Split {
  const char *space; /* instead of each space; NULL: they stay */
  const char *prefix;
  SplitPrepend prepend; /* prefix, unless the text begins with it */
  Regex *regex;         /* NULL: nothing is cut */
  SplitBehaviour behaviour;
  bool invert;
};

struct Decode {
  const struct DecodeRow *row;
  Regex *regex;
  const char *text; /* what is put there, or looked for */
  size_t n;
  int64_t start, stop;
  bool keep_first; /* Metaspace that prepends nothing */
};

/* Bytes that stages may make of a text of n bytes: more is no tokenizer's work, but a file's that fills memory with replacements of
 * replacements. */
static inline size_t tok_most(size_t n) { return ((size_t)1 << 20) + 1024 * n; }

/* Why a stage ended with false. */
bool tok_gave_up(Why *why);  /* a pattern */
bool tok_too_long(Why *why); /* a text */

bool try_normals_open(Arena *arena, const json_t *json, Normals *normals, Why *why);
void normals_close(Normals *normals);
/* The normalised text, in scratch; NULL: there are no normalizers.  False: a pattern gave up, or a text became too long. */
bool normals_apply(const Normals *normals, RegexWork *w, const char *text, size_t n, Text scratch[2], Text **out, Why *why);

/* bytes: a ByteLevel was there: words are made of bytes. */
bool try_splits_open(Arena *arena, const json_t *json, Splits *splits, bool *bytes, Why *why);
void splits_close(Splits *splits);
typedef bool SplitVisit(void *self, const char *word, size_t n, Why *why);
/* False: the same, or as the visit said. */
bool splits_walk(const Splits *splits, RegexWork *w, Text *scratch, const char *text, size_t n, bool first, SplitVisit *visit,
                 void *self, Why *why);

bool try_decodes_open(Arena *arena, const json_t *json, Decodes *decodes, Why *why);
void decodes_close(Decodes *decodes);
/* Appends the text of tokens, whose spellings lie in a row: token i ends at ends[i].  False: a pattern gave up, or a text became
 * too long; out is as it was. */
bool try_decodes_apply(const Decodes *decodes, const char *spelling, const size_t *ends, int64_t n, bool raw, Text *out, Why *why);

/* What comes before and behind a text; the vocabulary is known. */
bool try_template_open(Tokenizer *t, const json_t *json, Why *why);

/* The byte of a piece <0x0A>, or -1. */
int fallback_byte(const char *at, size_t n);
/* The byte that a character of ByteLevel's alphabet stands for, or -1; and the character of a byte. */
int byte_of_char(uint32_t c);
uint32_t char_of_byte(unsigned char byte);

/* --- reading JSON ---------------------------------------------------------------------------------------------------------- */

/* {"type": …} of a component; keys lists its other fields, "a b c".  False: another field is there. */
bool tok_check_keys(const json_t *json, const char *keys, Why *why);
bool tok_bool(const json_t *json, const char *key, bool fallback);
/* {"String": …} or {"Regex": …} at "pattern". */
bool tok_pattern(Arena *arena, const json_t *json, Regex **regex, Why *why);
/* A component's text at key, kept by the arena; NULL and why: not there. */
const char *tok_text(Arena *arena, const json_t *json, const char *key, size_t *n, Why *why);

#endif
