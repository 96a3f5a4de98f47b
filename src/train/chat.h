/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_CHAT_H
#define TRAIN_CHAT_H

typedef struct ChatFiles {
  const char **train, **val; /* a pattern a set, in the run file's order */
} ChatFiles;

#endif
