/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/config: the table's row, the parsed file, and the list of what is wrong with it. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "src/base/vec.h"
#include "src/config/config.h"

typedef enum KeyType {
  KEY_INT,      /* int64_t; suffixes K M B T Ki Mi Gi */
  KEY_NUMBER,   /* double */
  KEY_BOOL,     /* bool */
  KEY_TEXT,     /* const char * */
  KEY_CHOICE,   /* int, index into choices */
  KEY_SET,      /* int, bits by index into choices */
  KEY_AMOUNT,   /* Amount, one of units */
  KEY_RANGE,    /* Range */
  KEY_FIT,      /* Fit, of choices */
  KEY_LENGTHS,  /* Lengths */
  KEY_PATTERN,  /* Pattern */
  KEY_PATTERNS, /* Patterns: one, or a list of them */
  KEY_ITEMS,    /* a list of maps of `fields`: a struct of a pointer to the first and their number */
  KEY_DATA,     /* DataSets: a path, a list of paths and maps of `fields`, or a map from names to paths */
  KEY_TYPES
} KeyType;

enum { OPEN_MIN = 1, OPEN_MAX = 2 }; /* the bound itself is excluded */

typedef struct Key Key;
struct Key {
  const char *section, *name; /* section "" for the schema version */
  KeyType type;
  size_t offset;        /* in Config; of a field, in its item */
  bool required;        /* always to be given in a run file */
  bool shape;           /* part of a model's explicit shape: required and defaults count only there */
  bool fixed;           /* stays as it is in a run: a resume refuses another value that means something else, as of a shape */
  const char *fallback; /* default, as text; NULL: unset until check.c derives it */
  const char *word;     /* a word that stands for 0 or UNIT_NONE: auto, none */
  bool automatic;       /* of an amount or lengths: they may be "auto" */
  double min, max;      /* of numbers; both 0: any */
  int open;
  const char *const *choices; /* NULL at the end */
  unsigned units;             /* bits 1 << Unit */
  const char *derived;        /* what an unset key becomes, for the help */
  const char *example;        /* for the help and the starter file */
  const char *help;           /* half a line */
  const char *elsewhere;      /* other programs' names, separated by ", " */
  const Key *fields; /* of KEY_ITEMS and KEY_DATA, name NULL at the end.  An item starts with unsigned bits: which were given */
  size_t size;       /* of such an item */
};

typedef struct Section {
  const char *name, *help, *elsewhere;
} Section;

extern const Key keys[];
extern const int nkeys;
extern const Section sections[];
extern const int nsections;

const Key *key_find(const char *section, const char *name); /* or NULL */
const Key *key_find_path(const char *path);                 /* "train.lr" */
const char *key_path(const Key *key, char out[80]);
bool key_is_fixed(const Key *key);
bool names_hold(const char *list, const char *name);                         /* name is one of "a, b, c" */
void number_print(double value, Text *out);                                  /* the shortest that reads back: 32000, 3e-5 */
void key_range(const Key *key, Text *out);                                   /* "0 < lr <= 1"; nothing where any value goes */
void choices_print(const char *const *choices, const char *last, Text *out); /* "a, b or c" with last = "or" */
const char *const *config_presets(void);                                     /* what config_set_presets set; NULL: nothing */

/* Where a value came from. */
typedef enum Source { SOURCE_UNSET, SOURCE_FILE, SOURCE_SHELL, SOURCE_DEFAULT, SOURCE_AUTO, SOURCE_DEMO, SOURCE_FAULTY } Source;
typedef struct Place {
  int line, column, width; /* 1 at the start; line 0: not in a file */
  int key_column;          /* of the key before the value, when on the same line; else column */
  int argument;            /* number of the word on the command line; 0: none */
} Place;

typedef struct ConfigOrigin {
  Arena *arena;
  const char *name, *text; /* of the run file */
  char **argv;
  Source *source; /* by row of keys[] */
  Place *place;
} ConfigOrigin;

/* From the first of these on, values have places of their own and are read from nodes alone. */
static inline bool key_has_places(const Key *key) { return key->type >= KEY_PATTERN; }

static inline Source key_source(const Config *c, const Key *key) { return c->origin->source[key - keys]; }
static inline bool key_given(const Config *c, const Key *key) {
  Source s = key_source(c, key);
  return s == SOURCE_FILE || s == SOURCE_SHELL || s == SOURCE_DEMO;
}

/* ---- yaml.c: a file as a tree, each node with its place ---- */
typedef enum NodeKind { NODE_TEXT, NODE_MAP, NODE_LIST } NodeKind;
typedef struct Node Node;
typedef struct NodePair {
  Node *key, *value; /* key is NULL in a list */
} NodePair;
struct Node {
  NodeKind kind;
  const char *text; /* NODE_TEXT */
  bool plain;       /* not quoted */
  Place place;
  VEC(NodePair) items;
};

/* ---- problem.c: everything that is wrong, told at once ---- */
typedef struct Problem {
  Place place;
  const char *what, *label, *body, *help; /* label stands beside the caret, body lines follow; any may be NULL but what */
} Problem;
typedef struct Problems {
  Arena *arena;
  const char *name, *text;
  char **argv;
  VEC(Problem) list;
  bool *idle; /* by row of keys[]: given without use beside the others, so not read; NULL: such a key is a problem */
  bool again; /* one more was found */
} Problems;

void problem_add(Problems *p, Place place, const char *label, const char *what, ...) __attribute__((format(printf, 4, 5)));
void problem_add_full(Problems *p, Problem problem);
void problems_end(Problems *p); /* fails if there are any */
void problem_print(const Problems *p, const Problem *problem, Text *out);

/* The document as a tree, or NULL with a problem added; an empty file is an empty map. */
Node *yaml_read(Problems *p);
/* A value of the command line, which stands at `place` there; NULL with whatever is wrong with it added. */
Node *yaml_read_value(Problems *p, const char *text, Place place);

/* ---- value.c ---- */
typedef struct Fault {
  const char *what, *label; /* what follows "'train.lr' " */
} Fault;
/* Reads text as this key's value into c, a Config or the item that a field lies in; false with fault filled.  Its memory is the
 * arena's. */
bool value_parse(Arena *arena, const Key *key, const char *text, void *c, Fault *fault);
/* Fills fault and place and returns false. */
bool node_fault(Fault *fault, Place *place, const Node *node, const char *what, const char *label);
bool value_parse_node(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
bool whole_parse(Arena *arena, const Key *key, const char *text, void *at, Fault *fault); /* an int64_t */
void value_print(const Key *key, const void *c, Text *out);                               /* as YAML that reads back */
void word_print(const char *text, Text *out);                                             /* quoted where YAML wants it */

/* ---- items.c: patterns, and lists of maps; c is a Config, or the item that a field lies in ---- */
bool item_parse(Arena *arena, const Key *key, const Node *node, void *item, Fault *fault, Place *place);
void item_print(const Key *key, const void *item, Text *out);
bool items_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
bool patterns_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
bool pattern_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
void items_print(const Key *key, const void *c, Text *out);
void patterns_print(const Key *key, const void *c, Text *out);
void pattern_print(const Key *key, const void *c, Text *out);

/* ---- sets.c: data sets ---- */
bool sets_parse(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
void sets_print(const Key *key, const void *c, Text *out);

/* ---- lengths.c ---- */
bool lengths_parse(Arena *arena, const Key *key, const char *text, void *at, Fault *fault);
bool lengths_parse_node(Arena *arena, const Key *key, const Node *node, void *c, Fault *fault, Place *place);
void lengths_print(const Key *key, const Lengths *lengths, Text *out);

/* ---- check.c: what concerns several keys ---- */
void check_derive(Config *c);
void check_missing(Config *c, Problems *p);
void check_combinations(Config *c, Problems *p);

/* ---- demo.c ---- */
const char *demo_run_file(Arena *arena, int nranks);

#endif
