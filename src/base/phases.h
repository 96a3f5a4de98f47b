/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a start took, one behind the other. */
#ifndef BASE_PHASES_H
#define BASE_PHASES_H

enum { PHASES_MOST = 24 };

typedef struct Phases {
  double since; /* the last one's end */
  int n;
  struct {
    const char *name; /* kept, not copied */
    double seconds;
  } at[PHASES_MOST];
} Phases;

Phases phases_begin(void);
double phase_end(Phases *phases, const char *name); /* gives its seconds */
/* Those that somebody else has told, in the place of the time since the last end. */
void phases_add(Phases *phases, const Phases *more);

#endif
