/* SPDX-License-Identifier: Apache-2.0 */
/* libsentencepiece behind a table of C functions.  C++ since the library is. */
#include "io/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <stdio.h>

#include <exception>
#include <string>
#include <vector>

using sentencepiece::SentencePieceProcessor;

static const SentencePieceProcessor *of(const void *model) { return static_cast<const SentencePieceProcessor *>(model); }

static bool tell(const char *text, char *why, size_t n) {
  snprintf(why, n, "%s", text);
  return false;
}

static void *open_model(const char *bytes, size_t n, char *why, size_t why_n) {
  try {
    SentencePieceProcessor *model = new SentencePieceProcessor;
    const auto status = model->LoadFromSerializedProto(std::string_view(bytes, n));
    if (status.ok()) return model;
    tell(status.ToString().c_str(), why, why_n);
    delete model;
  } catch (const std::exception &e) {
    tell(e.what(), why, why_n);
  }
  return nullptr;
}

static void close_model(void *model) { delete static_cast<SentencePieceProcessor *>(model); }
static int pieces(const void *model) { return of(model)->GetPieceSize(); }

static void special(const void *model, int ids[4]) {
  ids[0] = of(model)->bos_id();
  ids[1] = of(model)->eos_id();
  ids[2] = of(model)->unk_id();
  ids[3] = of(model)->pad_id();
}

static SpKind kind(const void *model, int id) {
  const SentencePieceProcessor *m = of(model);
  if (m->IsUnknown(id)) return SP_UNKNOWN;
  if (m->IsControl(id)) return SP_CONTROL;
  if (m->IsUnused(id)) return SP_UNUSED;
  return m->IsByte(id) ? SP_BYTE : SP_NORMAL;
}

static const char *piece(const void *model, int id, size_t *n) {
  const std::string &text = of(model)->IdToPiece(id);
  *n = text.size();
  return text.data();
}

static bool encode(const void *model, const char *text, size_t n, SpIds *put, void *self, char *why, size_t why_n) {
  try {
    std::vector<int> ids;
    const auto status = of(model)->Encode(std::string_view(text, n), &ids);
    if (!status.ok()) return tell(status.ToString().c_str(), why, why_n);
    put(self, ids.data(), ids.size());
    return true;
  } catch (const std::exception &e) {
    return tell(e.what(), why, why_n);
  }
}

static bool decode(const void *model, const int *ids, size_t n, SpText *put, void *self, char *why, size_t why_n) {
  try {
    std::string text;
    const auto status = of(model)->Decode(std::vector<int>(ids, ids + n), &text);
    if (!status.ok()) return tell(status.ToString().c_str(), why, why_n);
    put(self, text.data(), text.size());
    return true;
  } catch (const std::exception &e) {
    return tell(e.what(), why, why_n);
  }
}

const SpModule hpctrain_sentencepiece = {sizeof(SpModule), open_model, close_model, pieces, special, kind, piece, encode, decode};
