/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is asked to do: the run file, the command line and the defaults, read into one typed struct.
 * keys.c holds the one table of keys; parser, validation, defaults, help, starter file, doc/keys.md and the resolved print
 * all come from it.  Other code reads fields: c->train.lr.  Whoever finds a value unusable later (no such file, a model
 * that does not fit its data) ends with config_fail, which names the key's own line. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/text.h"

enum { CONFIG_SCHEMA = 1 }; /* `hpctrain: 1`, the run file's first line */

/* A number with a unit.  Steps, tokens and sequences are whole and exact (below 2^53). */
typedef enum Unit { UNIT_NONE, UNIT_STEPS, UNIT_TOKENS, UNIT_SEQUENCES, UNIT_EPOCHS, UNIT_SECONDS, UNIT_PERCENT, UNIT_AUTO } Unit;
typedef struct Amount {
  double value;
  Unit unit; /* UNIT_NONE: none was asked for; UNIT_AUTO: found out where it is needed */
} Amount;

/* From first to last, both of them too; 0: none was asked for. */
typedef struct Range {
  int64_t first, last;
} Range;

/* One word of a list; the last of them may have bytes with it (0: none were given). */
typedef struct Fit {
  int choice;
  int64_t nbytes;
} Fit;

/* Ascending.  None: as if there were no such key. */
enum { LENGTHS_MOST = 4 };
typedef struct Lengths {
  int64_t at[LENGTHS_MOST];
  int n;
  bool automatic; /* asked for, but not which; then n is 0 */
} Lengths;

/* A shell pattern (* ? [...]) of parameter names, or another text, and where it stands for config_fail_at. */
typedef struct Pattern {
  const char *text;
  const struct Place *place;
} Pattern;

typedef struct Patterns {
  const Pattern *at;
  int n;
} Patterns;

/* Of the parameters that any of match names. */
typedef struct Group {
  unsigned given; /* bits of what the run file says: 1 << GROUP_… */
  Patterns match;
  bool trainable;
  double lr_factor, weight_decay; /* weight_decay: of all their elements, if it is given */
} Group;
enum { GROUP_MATCH, GROUP_TRAINABLE, GROUP_LR_FACTOR, GROUP_WEIGHT_DECAY };

typedef struct Groups {
  const Group *at;
  int n;
} Groups;

/* A tensor of a file whose name fits `from`; what each * stands for takes the place of the same * in `to`. */
typedef struct Rename {
  unsigned given;
  Pattern from, to;
} Rename;

typedef struct Renames {
  const Rename *at;
  int n;
} Renames;

/* Values of the keys that are one word of a list, in the order of the lists in keys.c. */
typedef enum DataFormat { DATA_TOKENS, DATA_CHAT } DataFormat;
typedef enum DataType { DATA_AUTO, DATA_UINT16, DATA_UINT32 } DataType;
typedef enum Schedule { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_WSD } Schedule;
typedef enum Strategy {
  STRATEGY_NO_SHARD,
  STRATEGY_SHARD_OPT,
  STRATEGY_SHARD_GRAD_OP,
  STRATEGY_FULL_SHARD,
  STRATEGY_HYBRID_SHARD
} Strategy;
typedef enum HybridOptimizer { HYBRID_REPLICATE, HYBRID_SHARD } HybridOptimizer;
typedef enum Accumulate { ACCUMULATE_WHOLE, ACCUMULATE_SHARD } Accumulate;
typedef enum Precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 } Precision;
typedef enum Recompute { RECOMPUTE_NONE, RECOMPUTE_CHEAP, RECOMPUTE_BLOCK, RECOMPUTE_AUTO } Recompute;
typedef enum OptimizerPlace { OPTIMIZER_DEVICE, OPTIMIZER_HOST } OptimizerPlace;
typedef enum AsyncChoice { ASYNC_AUTO, ASYNC_TRUE, ASYNC_FALSE } AsyncChoice;
typedef enum DeviceKind { DEVICE_KIND_AUTO, DEVICE_KIND_CPU, DEVICE_KIND_CUDA, DEVICE_KIND_APART } DeviceKind;
typedef enum MatmulChoice { MATMUL_AUTO, MATMUL_ONEDNN, MATMUL_CBLAS, MATMUL_OWN } MatmulChoice;
typedef enum GpuAttention { ATTENTION_AUTO, ATTENTION_CUDNN, ATTENTION_CUDNN_FAST, ATTENTION_PLAIN } GpuAttention;
typedef enum GpuGathers { GATHERS_COPY, GATHERS_NCCL } GpuGathers;
typedef enum Remedy { REMEDY_SKIP, REMEDY_STOP, REMEDY_BACK } Remedy;
/* Bits of memory.offload. */
enum { OFFLOADED_MOMENTS = 1, OFFLOADED_MASTERS = 2, OFFLOADED_GRADIENTS = 4, OFFLOADED_INPUTS = 8 };
/* Bits of run.debug. */
enum { DEBUG_IR = 1, DEBUG_FUSE = 2, DEBUG_MEM = 4, DEBUG_COMM = 8, DEBUG_SYNC = 16, DEBUG_DETERMINISM = 32 };

typedef struct DataSet {
  unsigned given;
  const char *name; /* "train", "val", or the name given to it */
  Pattern path;
  double weight; /* share of the tokens, beside those of the others; 0: none has one, and all are read as one stream */
} DataSet;

typedef struct DataSets {
  const DataSet *at;
  int n;
} DataSets;

typedef struct Config {
  int64_t schema;
  struct {
    const char *name, *folder;
    int64_t seed;
    int debug; /* DEBUG_… bits */
    bool tune;
  } run;
  struct {                              /* one of preset, config, from, or the shape (then vocab_size > 0) */
    const char *preset, *config, *from; /* NULL when not given */
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads; /* heads are resolved */
    int64_t head_dim, intermediate_size, max_position_embeddings;                                 /* resolved */
    double rms_norm_eps, rope_theta, initializer_range;
    bool tie_word_embeddings;
    Renames rename; /* these three: of the files of `from` */
    Patterns fresh, skip;
  } model;
  struct {
    DataSets train, val;       /* val.n is 0 when there is none */
    int format, too_long;      /* DataFormat; DocumentsLong of src/train/documents.h */
    const char *chat_template; /* of io/chat.h, or NULL */
    bool train_on_inputs;
    const char *hdf5_dataset;
    int dtype;
    const char *tokenizer, *tokenizer_pattern; /* "auto", "none", or what try_tokenizer_open takes; a pattern or NULL */
    double val_fraction;                       /* share of the training data kept back; 0: none */
    bool packing;                              /* a sequence's documents are apart */
    int64_t document_end;                      /* the id behind each; -1: the tokenizer's */
    Lengths buckets;                           /* see config_buckets */
  } data;
  struct {
    int64_t seq_len;
    Amount duration;          /* steps, tokens or epochs: see config_total_steps */
    Amount global_batch_size; /* tokens or sequences: see config_check_batch */
    int64_t micro_batch_size; /* 0: auto, see config_check_batch */
    double lr, min_lr;
    int schedule;
    Amount warmup, decay; /* steps, tokens or percent of the whole run; decay is wsd's last part */
    double weight_decay, beta1, beta2, eps;
    double grad_clip;                  /* 0: none */
    double z_loss;                     /* factor; 0: none */
    double router_aux_loss;            /* the same; see config_given */
    double router_z_loss;              /* factor; 0: none */
    double dropout, attention_dropout; /* see config_given */
    Amount stop_after;                 /* steps or tokens; UNIT_NONE: not asked for */
    Amount time_limit;                 /* seconds, or UNIT_AUTO: the scheduler's */
    Groups groups;                     /* the first that names a parameter is its group */
  } train;
  struct {
    int strategy, accumulate, hybrid_optimizer;
    int64_t shard_degree; /* 0: a node's ranks */
    int64_t units_alive;
    Patterns ignore; /* parameters that every rank holds whole */
  } parallel;
  struct {
    int compute, master, moments, reduce;
  } precision;
  struct {
    Fit recompute;              /* Recompute; auto: as much as fits into so many bytes, or into what there is */
    int offload;                /* OFFLOADED_… bits */
    const char *offload_folder; /* NULL: moments go to the host's memory */
    int optimizer;              /* OptimizerPlace */
  } memory;
  struct {
    Amount every; /* steps; UNIT_NONE: only when asked */
    int64_t keep;
    Amount keep_every;  /* steps; UNIT_NONE: none */
    const char *resume; /* "auto", "never", or a run folder or step folder */
    int async;          /* AsyncChoice */
    int64_t files;      /* 0: a node each */
  } checkpoint;
  struct {
    Amount every;  /* steps; UNIT_NONE where there is no validation data */
    Amount tokens; /* tokens */
  } eval;
  struct {
    int kind;
  } device;
  struct {
    const char *compiler; /* "none" chooses the interpreter */
    int matmul;
    bool fuse;
    int64_t threads; /* a rank; 0: its share of the cores */
  } cpu;
  struct {
    int attention, gathers, reductions;
    bool graph;
  } gpu;
  struct {
    Amount timeout;         /* seconds */
    Amount straggler_every; /* steps */
    double straggler_percent;
    int nonfinite; /* Remedy */
    double spike;  /* deviations; 0: none is looked for */
    int on_spike;  /* Remedy */
    int64_t backs;
    Amount replicas_every; /* steps */
    int replicas;          /* stop, back */
  } health;
  struct {
    Amount every; /* steps */
  } log;
  struct {
    Range steps;
  } profile;
  struct {
    const char *at_end; /* NULL: nothing is exported */
  } export;

  bool demo;             /* no run file: the built-in demo */
  const char *demo_data; /* where demo_text is to be written as a token file; NULL: nowhere */
  const char *file;      /* the run file's name as given, or NULL */
  struct ConfigOrigin *origin;
} Config;

/* Reads argv[1…]: at most one RUN.yaml and any number of section.key=value.  Without a file it takes ./hpctrain.yaml,
 * without that the built-in demo, whose batch follows nranks.  All that is wrong is reported at once (FAIL_INPUT).
 * Every rank may call it: let rank 0 come back from it before the others start, so that errors are told once. */
Config *config_load(Arena *arena, int argc, char **argv, int nranks);

/* The same without keys that have no use beside the others: they are no errors, but as if they had not been given.  left_out: their
 * names with spaces between, "" where there are none. */
Config *config_load_usable(Arena *arena, int argc, char **argv, int nranks, const char **left_out);

/* The same from a text in memory, such as a checkpoint's run file; name is what errors call it. */
Config *config_parse(Arena *arena, const char *name, const char *text, int argc, char **argv);

/* Whether a word of the command line is a run file, and a data set JSON lines: by their names. */
bool config_is_run_file(const char *word);
bool config_is_json(const char *path);

/* The words that "section.key", a choice, may be; NULL at the end. */
const char *const *config_choices(const char *key);

/* "5GB", "2 GiB": bytes, as in run files. */
bool config_parse_bytes(const char *text, int64_t *nbytes);

/* Names that model.preset may have, NULL at the end.  Kept, not copied.  Unset, any name passes. */
void config_set_presets(const char *const *names);

/* Ends the job because of this key's value: the place where it was given, quoted, is added between what and help.  key is
 * "section.key"; help may be NULL.  What may end in a help of its own, as a Why's text does, which then comes first. */
_Noreturn void config_fail(const Config *c, const char *key, const char *help, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether the run file or the shell gives "section.key". */
bool config_given(const Config *c, const char *key);

/* The word that a key of words has come to: "full_shard". */
const char *config_word(const Config *c, const char *key);

/* The same because of one item of a list, at its own place. */
_Noreturn void config_fail_at(const Config *c, const struct Place *place, const char *help, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* "run.yaml:14:3" or "argument 2", for warnings; out's memory is the config's. */
const char *config_place(const Config *c, const struct Place *place);

/* The value of "section.key" is not what was asked for but what that came to be here: the resolved print says so. */
void config_mark_auto(Config *c, const char *key);

/* How the global batch splits.  Fails with the batch sizes that would work. */
typedef struct Batch {
  int64_t sequences, tokens;   /* of the global batch, all ranks together */
  int64_t micro, micro_tokens; /* sequences and tokens of one pass on one rank */
  int64_t passes;              /* micro-steps of a step */
} Batch;
Batch config_check_batch(const Config *c, int data_parallel_size);
int64_t config_batch_sequences(const Config *c); /* of the global batch alone, split or not */

/* The lengths that a pass may have: what of train.seq_len is to hold its longest row.  The last is seq_len, and the only one where
 * there are no buckets. */
Lengths config_buckets(const Config *c);
int lengths_holding(const Lengths *lengths, int64_t positions); /* which of them is the shortest that holds so many */
bool config_has_buckets(const Config *c); /* whether they are asked for; by auto there may be one length yet */

/* An amount in steps, rounded down.  epoch_sequences is what the training data holds, total_steps the run's length; each is
 * used only for the units that need it. */
int64_t config_steps(const Config *c, Amount amount, int64_t epoch_sequences, int64_t total_steps);
int64_t config_total_steps(const Config *c, int64_t epoch_sequences); /* train.duration; at least 1 or it fails */

/* Keys whose values differ, in the table's order; values as a run file has them, or "unset".  fixed: it cannot change in a run,
 * unless both mean the same. */
typedef struct ConfigChange {
  const char *key, *was, *is;
  bool fixed;
} ConfigChange;
int config_changes(Arena *arena, const Config *was, const Config *is, const ConfigChange **changes);

uint64_t config_hash(const Config *c);                /* over every resolved value: equal on all ranks */
void config_print(const Config *c, Text *out);        /* the resolved run file, each value's source as a comment; reads back */
void config_print_new(Text *out);                     /* a commented starter file */
void config_print_doc(Text *out);                     /* doc/keys.md */
bool config_print_help(const char *topic, Text *out); /* a section, a key, section.key or a name elsewhere; false: unknown */

/* The nearest of n names by spelling, or NULL if none is near. */
const char *config_nearest(const char *word, const char *const *names, int n);
const char *config_nearest_key(const char *word); /* the name of a section or key, or NULL */

extern const char demo_text[];  /* the demo's training text: bytes are its tokens */
extern const char demo_notes[]; /* two lines for stdout when c->demo */

#endif
