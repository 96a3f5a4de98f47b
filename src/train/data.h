/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens a rank computes on.  Row `row` of pass `pass` of step s on data-parallel rank d is number
 *   s·sequences + (pass·D + d)·micro + row
 * of an endless stream of samples; so the sequences of a step are the same for any number of ranks, any micro-batch and after any
 * resume.  The stream takes from its sources by their weights (mixture.h); within each, epoch follows epoch, each in its own order.
 * With data.buckets a step's rows stand by length (by_length.h): then `number` is a row's place among them.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include "io/tokenizer.h"
#include "io/tokens.h"
#include "src/config/config.h"
#include "src/model/model.h"
#include "src/train/by_length.h"

typedef struct Data Data;

/* Labels that do not count: as PyTorch has it; and of a position that holds nothing. */
enum { DATA_IGNORED = -100, DATA_PADDING = MODEL_PADDING };

/* Maps the files and splits them; ids must lie below vocab.  Input errors name the file.  made: token files of data.format: chat
 * (chat.h); NULL: those of the run file are. */
struct ChatFiles;
Data *data_open(Arena *arena, const Config *c, const struct ChatFiles *made, int64_t vocab);
void data_close(Data *data);
/* Before rows are taken: the id with which the tokenizer ends documents, -1 if it has none; data.document_end goes before.  With
 * data.packing it is an input error if nothing tells where they end. */
void data_set_end(Data *data, const Config *c, int64_t vocab, int64_t end);
int64_t data_tokens(const Data *data);          /* in the training files */
int64_t data_epoch_sequences(const Data *data); /* samples of an epoch; of a mixture, of all its sources */
uint64_t data_hash(const Data *data);           /* of all sizes, shares and notes: equal where files and weights are */
/* Of a mixture, else nothing: what it comes to, for a checkpoint; and for people, a line a source. */
void data_mixture(const Data *data, Text *out);
void data_sources(const Data *data, int64_t steps, int64_t sequences, Text *out);
int data_vals(const Data *data); /* validation sets */
const char *data_val_name(const Data *data, int val);
int64_t data_val_sequences(const Data *data, int val);
int64_t data_val_scored(const Data *data, int val); /* of them, the first: eval.tokens, or all where there are fewer */

/* What a thread makes rows in; and, if somebody asks, where its seconds go. */
typedef struct DataRoom {
  int32_t *ids, *starts; /* S+1 */
  uint8_t *marks;        /* S+1 */
  ByLength *sorted;      /* with data.buckets; else NULL */
  struct DataSpent *spent;
} DataRoom;
typedef struct DataSpent {
  double order, rows;
} DataSpent;
DataRoom data_room(const Data *data, Arena *arena);

/* The file that row `number` of the stream begins in. */
const char *data_train_file(const Data *data, const DataRoom *room, int64_t number);

/* ids and labels (micro·seq_len each) of the `micro` rows from stream number `first` on.  With data.packing also starts: where in
 * its row each position's document begins; a label that would be the next document's first id is ignored, as are those whose mark
 * says so.  Threads with a room each may call at once.  False: an input error. */
bool try_data_train(const Data *data, const DataRoom *room, int64_t first, int64_t micro, int32_t *ids, int32_t *labels,
                    int32_t *starts, Why *why);
/* With data.buckets: of the n rows from stream number `first` on, all of one step.  All ranks know the lengths of all rows, and so
 * which programs the others run.  Without: as if all rows were full.  Of a validation set: of those before `end`.
 * room: NULL for the job's thread. */
RowLengths data_lengths(const Data *data, const DataRoom *room, int64_t first, int64_t n);
RowLengths data_val_lengths(const Data *data, int val, int64_t first, int64_t end);
/* Row `row` becomes padding. */
void data_blank(const Data *data, int64_t row, int32_t *ids, int32_t *labels);
/* Which sample of its source's files has this stream number: it begins seq_len times as many tokens from their start; with
 * data.format: chat, which row of its documents.  *source: its pattern, of a mixture; else NULL. */
int64_t data_sample(const Data *data, int64_t number, const char **source);
/* Rows of a validation set, in the order of its file, or with data.buckets by length; those from `end` on are padding. */
void data_val(const Data *data, int val, int64_t first, int64_t end, int64_t micro, int32_t *ids, int32_t *labels, int32_t *starts);

/* data.tokenizer, or NULL for none; the caller's.  Input errors name the key: it cannot be read, has more ids than the model, or
 * is another than the one that made the files.  What auto finds and cannot be used is a warning.  For one rank: nothing of a step
 * needs it. */
Tokenizer *data_tokenizer(const Data *data, const Config *c, int64_t vocab, Text *warnings);
/* The same without files to hold it against. */
Tokenizer *data_open_tokenizer(const Config *c, int64_t vocab, Text *warnings);

/* How the stream begins, for the banner: as text, or without a tokenizer its numbers. */
void data_first(const Data *data, const Tokenizer *t, Text *out);
/* Bytes of text of the labels of a validation set's first n rows; bytes: of each id (tokenizer_bytes). */
int64_t data_val_bytes(const Data *data, int val, int64_t n, const int32_t *bytes);
/* For people, a line each: files with marks, documents as rows; "" where there is nothing to say. */
void data_marks(const Data *data, Text *out);

/* The training files as checkpoints know them, a line each; for one rank.  same: whether those of such a list are still there with
 * the same bytes, as far as samples tell (io/file_sample.h); false: told says which file is not.  is: data_list's, of now. */
void data_list(const Data *data, Text *out);
bool data_list_same(const Data *data, const char *was, const char *is, Text *told);
/* Which conversations a training file was made of for this run; NULL: of none. */
const char *data_made_of(const Data *data, const char *path);

/* For data_text.c.  The first row's ids, the caller's, and their number; the files of all sets, training and validation. */
int64_t data_peek(const Data *data, int32_t **ids);
int data_sets(const Data *data);
int data_trains(const Data *data); /* of them, the first */
const Tokens *data_files(const Data *data, int set);

#endif
