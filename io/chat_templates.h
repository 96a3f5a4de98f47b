/* SPDX-License-Identifier: Apache-2.0 */
/* What templates are made of; for chat.c. */
#ifndef IO_CHAT_TEMPLATES_H
#define IO_CHAT_TEMPLATES_H

#include <stdbool.h>

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES } ChatRole;

typedef enum ChatPieceKind {
  CHAT_END,
  CHAT_TEXT,
  CHAT_TOKEN, /* a special token, by how it is spelled */
  CHAT_BOS,
  CHAT_EOS,
  CHAT_CONTENT
} ChatPieceKind;

typedef struct ChatPiece {
  ChatPieceKind kind;
  const char *text;
} ChatPiece;

enum { CHAT_PIECES = 8 };

typedef struct ChatTemplate {
  const char *name;
  ChatPiece begin[2];
  ChatPiece role[CHAT_ROLES][CHAT_PIECES];
  bool trim[CHAT_ROLES]; /* white space around contents goes */
  bool alternate;        /* user and assistant take turns, the user first */
  const char *fold[2];   /* the system's text, between these, begins the first user's content; NULL: it is a message of its own */
  const char *system;    /* what is put first where the conversation has none; NULL: nothing */
} ChatTemplate;

extern const ChatTemplate chat_templates[];
extern const int chat_ntemplates;

/* What conversations call roles. */
extern const struct ChatRoleName {
  const char *name;
  ChatRole role;
} chat_roles[];
extern const int chat_nroles;

#endif
