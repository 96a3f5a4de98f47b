/* SPDX-License-Identifier: Apache-2.0 */
/* YAML by libyaml's events into a tree whose nodes know their places.  What would let a file say something other than it
 * seems to (anchors, tags, several documents, the same key twice) is an error. */
#include <string.h>
#include <yaml.h>

#include "src/base/fail.h"
#include "src/config/table.h"

enum { DEPTH_MAX = 16, ITEMS_MAX = 10000 };

typedef struct Reader {
  yaml_parser_t parser;
  Problems *problems;
  Place base;  /* of a value on the command line; else line 0 and argument 0 */
  bool broken; /* a syntax error is told; stop */
} Reader;

static const char quotes[] = "what begins with * wants quotes: \"*norm*\"";

/* Of the file, or of the word on the command line in which the text stands. */
static Place place_at(const Reader *r, const yaml_mark_t *mark) {
  int line = (int)mark->line + 1, column = (int)mark->column + 1;
  if (!r->base.argument) return (Place){.line = line, .column = column, .key_column = column};
  column += r->base.column - 1;
  return (Place){.argument = r->base.argument, .column = column, .key_column = column};
}

static Place place_of(const Reader *r, const yaml_event_t *event) {
  const yaml_mark_t *a = &event->start_mark, *b = &event->end_mark;
  Place place = place_at(r, a);
  place.width = a->line == b->line ? (int)(b->column - a->column) : 0;
  return place;
}

static bool is_tab(const Reader *r, const yaml_mark_t *mark) {
  const char *at = r->base.argument ? "" : r->problems->text;
  for (size_t line = 0; *at && line < mark->line; at++) line += *at == '\n';
  return strspn(at, " ") == mark->column && at[mark->column] == '\t';
}

/* What libyaml's words leave open, or NULL. */
static const char *syntax_label(const Reader *r) {
  const yaml_parser_t *p = &r->parser;
  if (p->context && strstr(p->context, "alias")) return quotes;
  if (is_tab(r, &p->problem_mark)) return "a tab: lines are indented by blanks alone";
  if (!p->context || r->base.argument || p->context_mark.line == p->problem_mark.line) return NULL;
  return arena_printf(r->problems->arena, "what begins on line %d has no end, or is indented otherwise",
                      (int)p->context_mark.line + 1);
}

static void told_syntax(Reader *r) {
  const yaml_parser_t *p = &r->parser;
  bool marked = p->error == YAML_SCANNER_ERROR || p->error == YAML_PARSER_ERROR;
  Place place = marked || r->base.argument ? place_at(r, &p->problem_mark) : (Place){.line = 0};
  const char *label = syntax_label(r);
  const char *problem = p->problem ? p->problem : "out of memory";
  if (!marked && p->error == YAML_READER_ERROR) {
    problem_add(r->problems, (Place){.line = 0}, NULL, "not text: libyaml says '%s' at byte %zu", problem, p->problem_offset);
  } else if (p->context) {
    problem_add(r->problems, place, label, "not YAML: libyaml says '%s %s'", problem, p->context);
  } else {
    problem_add(r->problems, place, NULL, "not YAML: libyaml says '%s'", problem);
  }
  r->broken = true;
}

static bool next(Reader *r, yaml_event_t *event) {
  if (r->broken) return false;
  if (yaml_parser_parse(&r->parser, event)) return true;
  told_syntax(r);
  return false;
}

static Node *read_node(Reader *r, yaml_event_t *event, int depth);

static void add_pair(Reader *r, Node *map, Node *key, Node *value) {
  if (key->kind != NODE_TEXT) {
    problem_add(r->problems, key->place, NULL, "a key is a word");
    return;
  }
  for (int i = 0; i < map->items.n; i++) {
    const Node *first = map->items.at[i].key;
    if (strcmp(first->text, key->text) != 0) continue;
    const char *label = first->place.line ? arena_printf(r->problems->arena, "first on line %d", first->place.line) : NULL;
    problem_add(r->problems, key->place, label, "'%s' is given twice", key->text);
    return;
  }
  if (value->place.line == key->place.line) value->place.key_column = key->place.column;
  vec_push(r->problems->arena, &map->items, (NodePair){key, value});
}

/* Reads up to and with the event that closes map or list. */
static void read_items(Reader *r, Node *node, yaml_event_type_t close, int depth) {
  yaml_event_t event;
  while (next(r, &event)) {
    if (event.type == close) {
      yaml_event_delete(&event);
      return;
    }
    if (node->items.n == ITEMS_MAX) {
      problem_add(r->problems, node->place, "a pattern, such as \"data/*.bin\", names many files", "more than %d items", ITEMS_MAX);
      r->broken = true;
    }
    Node *first = read_node(r, &event, depth + 1);
    if (node->kind == NODE_LIST) {
      if (first) vec_push(r->problems->arena, &node->items, (NodePair){NULL, first});
      continue;
    }
    if (!next(r, &event)) return;
    Node *value = read_node(r, &event, depth + 1);
    if (first && value) add_pair(r, node, first, value);
  }
}

/* The node that starts with event, which is consumed.  NULL: a problem was added. */
static Node *read_node(Reader *r, yaml_event_t *event, int depth) {
  Arena *arena = r->problems->arena;
  Node *node = arena_new(arena, Node);
  node->place = place_of(r, event);
  yaml_event_type_t type = event->type;
  bool fine = true;
  if (type == YAML_ALIAS_EVENT) {
    problem_add(r->problems, node->place, quotes, "aliases have no meaning in a run file: write the value out");
    fine = false;
  } else if (type == YAML_SCALAR_EVENT) {
    size_t n = event->data.scalar.length;
    node->text = arena_strndup(arena, (const char *)event->data.scalar.value, n);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    fine = strlen(node->text) == n && !event->data.scalar.tag;
    if (!fine) problem_add(r->problems, node->place, NULL, "tags and NUL bytes have no meaning in a run file");
  } else if (depth >= DEPTH_MAX) {
    problem_add(r->problems, node->place, NULL, "nested more than %d deep", DEPTH_MAX);
    r->broken = true;
    fine = false;
  } else {
    node->kind = type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST;
  }
  yaml_event_delete(event);
  if (fine && node->kind == NODE_MAP) read_items(r, node, YAML_MAPPING_END_EVENT, depth);
  if (fine && node->kind == NODE_LIST) read_items(r, node, YAML_SEQUENCE_END_EVENT, depth);
  return fine ? node : NULL;
}

static Node *read_stream(Reader *r) {
  Node *root = NULL;
  int documents = 0;
  yaml_event_t event;
  while (next(r, &event)) {
    yaml_event_type_t type = event.type;
    if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT) {
      yaml_event_delete(&event);
      if (type == YAML_STREAM_END_EVENT) break;
    } else if (type == YAML_DOCUMENT_START_EVENT) {
      if (++documents == 2) problem_add(r->problems, place_of(r, &event), NULL, "a run file is one YAML document");
      yaml_event_delete(&event);
    } else {
      Node *node = read_node(r, &event, 0);
      if (!root) root = node;
    }
  }
  return r->broken ? NULL : root ? root : documents ? NULL : arena_new(r->problems->arena, Node);
}

static Node *read_text(Problems *p, const char *text, Place base) {
  Reader r = {.problems = p, .base = base};
  if (!yaml_parser_initialize(&r.parser))
    fail(FAIL_MACHINE, "libyaml does not start: it has found no memory\nhelp: a higher limit (ulimit -v)");
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, strlen(text));
  Node *root = read_stream(&r);
  yaml_parser_delete(&r.parser);
  return root;
}

Node *yaml_read(Problems *p) {
  Node *root = read_text(p, p->text, (Place){.line = 0});
  if (!root) return NULL;
  if (!root->kind && !root->text) root->kind = NODE_MAP; /* the empty file */
  if (root->kind == NODE_MAP) return root;
  problem_add(p, root->place, NULL, "a run file is sections of keys, such as 'train: {lr: 3e-4}'");
  return NULL;
}

Node *yaml_read_value(Problems *p, const char *text, Place place) {
  int before = p->list.n;
  Node *root = read_text(p, text, place);
  return p->list.n == before ? root : NULL;
}
