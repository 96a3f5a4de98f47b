/* SPDX-License-Identifier: Apache-2.0 */
/* A key's value from text: one parser a type, in a table.  Numbers are decimal, with '.', in every locale. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/fail.h"
#include "src/config/units.h"

static const char BLANKS[] = " \t";
#define WHOLE_MAX 9007199254740992.0 /* 2^53: above it a double skips integers */

static bool fault_set(Fault *fault, const char *what, const char *label) {
  *fault = (Fault){what, label};
  return false;
}

static const char *text_in(Arena *arena, Text *text) {
  const char *copy = arena_strndup(arena, text->at ? text->at : "", text->n);
  text_close(text);
  return copy;
}

static bool in_range(Arena *arena, const Key *key, double value, Fault *fault) {
  bool any = key->min == 0 && key->max == 0;
  bool low = key->open & OPEN_MIN ? value > key->min : value >= key->min;
  bool high = key->open & OPEN_MAX ? value < key->max : value <= key->max;
  if (any || (low && high)) return true;
  Text range = {0};
  key_range(key, &range);
  return fault_set(fault, "is out of range", text_in(arena, &range));
}

/* Digits, at most one '.', an exponent if it is a whole one: "2e3" is 2000, "2epochs" is 2 and a word. */
static size_t number_length(const char *text) {
  size_t n = strspn(text, "+-") ? 1 : 0, digits = strspn(text + n, "0123456789");
  n += digits;
  if (text[n] == '.') {
    size_t more = strspn(text + n + 1, "0123456789");
    n += 1 + more;
    digits += more;
  }
  if (!digits) return 0;
  if (text[n] != 'e' && text[n] != 'E') return n;
  size_t sign = strspn(text + n + 1, "+-") ? 1 : 0, exponent = strspn(text + n + 1 + sign, "0123456789");
  return exponent ? n + 1 + sign + exponent : n;
}

/* The number that text starts with; *rest is what follows it and blanks.  False if there is none. */
static bool number_scan(const char *text, double *value, const char **rest) {
  char digits[64];
  size_t n = number_length(text);
  if (!n || n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = 0;
  *rest = text + n + strspn(text + n, BLANKS);
  return num_parse_double(digits, value);
}

/* Takes a suffix such as Mi from *rest. */
static void suffix_take(const char **rest, double *value) {
  for (const Suffix *s = suffixes; s->name; s++) {
    size_t n = strlen(s->name);
    if (strncmp(*rest, s->name, n) != 0) continue;
    double exact = *value * s->times, whole = nearbyint(exact);
    *value = fabs(exact - whole) <= 1e-15 * fabs(exact) ? whole : exact; /* 4.35K is 4350 */
    *rest += n + strspn(*rest + n, BLANKS);
    return;
  }
}

static bool is_whole(double value) { return value == floor(value) && fabs(value) <= WHOLE_MAX; }

bool whole_parse(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  double value;
  const char *rest;
  if (!number_scan(text, &value, &rest)) return fault_set(fault, "wants a whole number", NULL);
  if (*rest) suffix_take(&rest, &value);
  if (*rest) return fault_set(fault, "wants a whole number", "K M B T are 1000s, Ki Mi Gi 1024s");
  if (!is_whole(value)) return fault_set(fault, "wants a whole number", NULL);
  if (!in_range(arena, key, value, fault)) return false;
  *(int64_t *)at = (int64_t)value;
  return true;
}

static bool parse_number(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  double value;
  const char *rest;
  if (!number_scan(text, &value, &rest) || *rest) return fault_set(fault, "wants a number", "such as 0.1 or 3e-4");
  if (!in_range(arena, key, value, fault)) return false;
  *(double *)at = value;
  return true;
}

static bool parse_bool(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  (void)arena, (void)key;
  if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) return fault_set(fault, "wants a boolean", "true or false");
  *(bool *)at = *text == 't';
  return true;
}

static bool parse_text(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  (void)key;
  if (!*text) return fault_set(fault, "has no value", NULL);
  *(const char **)at = arena_strdup(arena, text);
  return true;
}

/* What other programs call a choice, in any case; for keys that have it. */
static const char *const words_elsewhere[][2] = {
    {"ddp", "no_shard"},        {"zero1", "shard_opt"},      {"zero-1", "shard_opt"},
    {"zero2", "shard_grad_op"}, {"zero-2", "shard_grad_op"}, {"zero3", "full_shard"},
    {"zero-3", "full_shard"},   {"fsdp", "full_shard"},      {"fsdp2", "full_shard"},
    {"hsdp", "hybrid_shard"},   {"bfloat16", "bf16"},        {"float16", "fp16"},
    {"half", "fp16"},           {"float32", "fp32"},         {"gpu", "cuda"},
    {"selective", "cheap"},     {"full", "block"},           {"optimizer", "moments"},
    {"activations", "inputs"},
};

static const char *word_here(const Key *key, const char *word) {
  for (int i = 0; key->choices[i]; i++) {
    if (!strcasecmp(key->choices[i], word)) return key->choices[i];
    for (size_t w = 0; w < sizeof words_elsewhere / sizeof *words_elsewhere; w++)
      if (!strcasecmp(words_elsewhere[w][0], word) && !strcmp(words_elsewhere[w][1], key->choices[i])) return key->choices[i];
  }
  return NULL;
}

static int choice_find(Arena *arena, const Key *key, const char *word, Fault *fault) {
  int n = 0;
  for (; key->choices[n]; n++)
    if (!strcmp(key->choices[n], word)) return n;
  const char *here = word_here(key, word), *nearest = here || n < 2 ? NULL : config_nearest(word, key->choices, n);
  Text label = {0};
  choices_print(key->choices, key->type == KEY_SET ? " and " : " or ", &label);
  if (here) text_printf(&label, "; called '%s' here", here);
  if (nearest) text_printf(&label, "; did you mean '%s'?", nearest);
  fault_set(fault, arena_printf(arena, "knows no '%.60s'", word), text_in(arena, &label));
  return -1;
}

static bool parse_choice(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  int i = choice_find(arena, key, text, fault);
  if (i >= 0) *(int *)at = i;
  return i >= 0;
}

/* Words between commas, with or without brackets around them. */
static bool parse_set(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  size_t n = strlen(text);
  bool brackets = n >= 2 && text[0] == '[' && text[n - 1] == ']';
  const char *words = brackets ? arena_strndup(arena, text + 1, n - 2) : text;
  int set = 0;
  for (words += strspn(words, " ,"); *words; words += strspn(words, " ,")) {
    size_t length = strcspn(words, " ,");
    int i = choice_find(arena, key, arena_strndup(arena, words, length), fault);
    if (i < 0) return false;
    set |= 1 << i;
    words += length;
  }
  *(int *)at = set;
  return true;
}

static const char *units_list(Arena *arena, const Key *key, const char *before) {
  Text out = {0};
  int left = __builtin_popcount(key->units);
  for (int u = UNIT_STEPS; u <= UNIT_PERCENT; u++) {
    if (!(key->units & 1u << u)) continue;
    left--;
    text_printf(&out, "%s%s%s%s", before, *before && u != UNIT_PERCENT ? " " : "", unit_name((Unit)u),
                left > 1 ? ", "
                : left   ? " or "
                         : "");
  }
  return text_in(arena, &out);
}

static bool amount_fits(Arena *arena, const Key *key, Amount amount, Fault *fault) {
  bool counted = amount.unit == UNIT_STEPS || amount.unit == UNIT_TOKENS || amount.unit == UNIT_SEQUENCES;
  if (counted && !is_whole(amount.value))
    return fault_set(fault, arena_printf(arena, "wants whole %s", unit_name(amount.unit)), NULL);
  if (amount.unit == UNIT_PERCENT && amount.value > 100) return fault_set(fault, "is out of range", "at most 100%");
  return in_range(arena, key, amount.value, fault);
}

static bool parse_amount(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  Amount amount = {0};
  const char *rest;
  if (!number_scan(text, &amount.value, &rest)) {
    return fault_set(fault, "wants an amount", arena_printf(arena, "a number of %s", units_list(arena, key, "")));
  }
  amount.unit = unit_take(&rest);
  if (!amount.unit) suffix_take(&rest, &amount.value);
  const char *number = arena_strndup(arena, text, (size_t)(rest - text)); /* with its suffix */
  if (!amount.unit) amount.unit = unit_take(&rest);
  if (!amount.unit && key->units & 1u << UNIT_SECONDS && time_take(&rest, &amount.value)) amount.unit = UNIT_SECONDS;
  /* A bare number of seconds might be meant as Slurm's minutes. */
  bool one_reading = (!(key->units & (key->units - 1)) && key->units != 1u << UNIT_SECONDS) || amount.value == 0;
  if (!amount.unit && !*rest && one_reading) amount.unit = (Unit)__builtin_ctz(key->units);
  if (*rest) {
    return fault_set(
        fault, arena_printf(arena, "knows no unit '%.60s'", rest),
        arena_printf(arena, "%s; %s", units_list(arena, key, ""),
                     key->units & 1u << UNIT_SECONDS ? "longer: 90min, 24h, 2d" : "K M B T are 1000s, Ki Mi Gi 1024s"));
  }
  if (!amount.unit) return fault_set(fault, "needs a unit", units_list(arena, key, number));
  if (!(key->units & 1u << amount.unit)) {
    return fault_set(fault, arena_printf(arena, "does not go in %s", unit_name(amount.unit)), units_list(arena, key, ""));
  }
  if (!amount_fits(arena, key, amount, fault)) return false;
  *(Amount *)at = amount;
  return true;
}

/* "10-12", or "10" for that one alone. */
static bool parse_range(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  double first, last;
  const char *rest;
  bool ok = number_scan(text, &first, &rest) && strspn(text, "0123456789");
  last = first;
  if (ok && *rest == '-') {
    const char *second = rest + 1 + strspn(rest + 1, BLANKS);
    ok = strspn(second, "0123456789") && number_scan(second, &last, &rest);
  }
  if (!ok || *rest || !is_whole(first) || !is_whole(last))
    return fault_set(fault, "wants FIRST-LAST or one number", "such as 10-12");
  if (!in_range(arena, key, first, fault) || !in_range(arena, key, last, fault)) return false;
  if (last < first) return fault_set(fault, "ends before it begins", NULL);
  *(Range *)at = (Range){(int64_t)first, (int64_t)last};
  return true;
}

/* "auto", "auto: 60GiB", in braces too. */
static bool parse_fit(Arena *arena, const Key *key, const char *text, void *at, Fault *fault) {
  size_t n = strlen(text);
  bool braces = n >= 2 && text[0] == '{' && text[n - 1] == '}';
  const char *words = braces ? arena_strndup(arena, text + 1, n - 2) : text;
  words += strspn(words, BLANKS);
  size_t word = strcspn(words, ":");
  Fit fit = {.choice = choice_find(arena, key, arena_strndup(arena, words, word), fault)};
  if (fit.choice < 0) return false;
  if (words[word]) {
    double value;
    const char *last = key->choices[fit.choice], *rest = words + word + 1;
    rest += strspn(rest, BLANKS);
    if (key->choices[fit.choice + 1]) return fault_set(fault, arena_printf(arena, "has nothing behind '%s'", last), NULL);
    bool any = !strcmp(rest, "fit");
    if (!any && (!number_scan(rest, &value, &rest) || !bytes_take(value, rest, &fit.nbytes)))
      return fault_set(fault, arena_printf(arena, "wants bytes behind '%s'", last), "such as 60GiB or 64GB, or fit");
  }
  *(Fit *)at = fit;
  return true;
}

bool config_parse_bytes(const char *text, int64_t *nbytes) {
  double value;
  const char *rest;
  return number_scan(text, &value, &rest) && bytes_take(value, rest + strspn(rest, " "), nbytes);
}

typedef bool ParseValue(Arena *arena, const Key *key, const char *text, void *at, Fault *fault);
static ParseValue *const parsers[] = {
    [KEY_INT] = whole_parse,     [KEY_NUMBER] = parse_number,   [KEY_BOOL] = parse_bool,     [KEY_TEXT] = parse_text,
    [KEY_CHOICE] = parse_choice, [KEY_SET] = parse_set,         [KEY_AMOUNT] = parse_amount, [KEY_RANGE] = parse_range,
    [KEY_FIT] = parse_fit,       [KEY_LENGTHS] = lengths_parse,
};

bool value_parse(Arena *arena, const Key *key, const char *text, void *c, Fault *fault) {
  void *at = (char *)c + key->offset;
  if (key->automatic && !strcmp(text, unit_name(UNIT_AUTO))) {
    if (key->type == KEY_AMOUNT) *(Amount *)at = (Amount){0, UNIT_AUTO};
    if (key->type == KEY_LENGTHS) *(Lengths *)at = (Lengths){.automatic = true};
    return true;
  }
  if (!key->word || strcmp(text, key->word) != 0) return parsers[key->type](arena, key, text, at, fault);
  if (key->type == KEY_INT) *(int64_t *)at = 0;
  if (key->type == KEY_NUMBER) *(double *)at = 0;
  if (key->type == KEY_AMOUNT) *(Amount *)at = (Amount){0};
  if (key->type == KEY_RANGE) *(Range *)at = (Range){0};
  if (key->type == KEY_LENGTHS) *(Lengths *)at = (Lengths){0};
  return true;
}
