/* SPDX-License-Identifier: Apache-2.0 */
/* How the stages of a tokenizer.json are found: an object of some type, or a Sequence of such, in which there may be others. */
#include <string.h>

#include "io/tok_impl.h"

enum { DEEPEST = 8, MOST = 64 }; /* sequences in sequences; stages */

typedef struct Finder {
  const StageKind *kind;
  void *self;
  int n; /* stages */
} Finder;

static bool open_stage(Finder *f, const json_t *json, const char *type, Why *why) {
  const StageKind *kind = f->kind;
  for (int i = 0; i < kind->n; i++) {
    StageType known = kind->type(i);
    if (strcmp(known.type, type)) continue;
    Why reason;
    bool ok = tok_check_keys(json, known.keys, &reason) && kind->open(f->self, i, json, &reason);
    if (++f->n > MOST) return why_not(why, "%s: more than %d stages", kind->what, MOST);
    return ok || why_not(why, "%s %s: %s", kind->what, type, reason.text);
  }
  return why_not(why, "%s '%.40s' is not known here", kind->what, type);
}

static bool open_at(Finder *f, const json_t *json, int depth, Why *why) {
  const StageKind *kind = f->kind;
  if (json_is_null(json) || !json) return true;
  const char *type = json_string_value(json_object_get(json, "type"));
  if (!type) return why_not(why, "%s: has no type", kind->what);
  if (kind->may_follow && !kind->may_follow(f->self, type, why)) return false;
  if (strcmp(type, "Sequence")) return open_stage(f, json, type, why);
  const json_t *all = json_object_get(json, kind->members), *one;
  size_t i;
  if (!json_is_array(all) || depth == DEEPEST || !tok_check_keys(json, kind->members, why))
    return why_not(why, "%s: a Sequence that is not understood", kind->what);
  json_array_foreach(all, i, one) if (!open_at(f, one, depth + 1, why)) return false;
  return true;
}

bool try_stages_open(const StageKind *kind, const json_t *json, void *self, Why *why) {
  return open_at(&(Finder){kind, self, 0}, json, 0, why);
}
