/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys.  A row is all there is to a key: its type, range, default, help and its names in other programs
 * (Megatron, torchtitan, nanoGPT, Axolotl, Composer, Hugging Face).  A key is in here only if the program uses it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/config/table.h"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define KEY(s, n, t) .section = #s, .name = #n, .offset = offsetof(Config, s.n), .type = t

enum {
  STEPS = 1 << UNIT_STEPS,
  TOKENS = 1 << UNIT_TOKENS,
  SEQUENCES = 1 << UNIT_SEQUENCES,
  EPOCHS = 1 << UNIT_EPOCHS,
  SECONDS = 1 << UNIT_SECONDS,
  PERCENT = 1 << UNIT_PERCENT
};

/* Bounds that are there to catch slips, not to limit anyone. */
#define MANY 1e15
#define DIM_MAX 16777216.0

const Section sections[] = {
    {"run", "what the run is called, where it writes, its randomness", NULL},
    {"model", "one of preset, config, from, or the shape itself (vocab_size and so on)", "architecture, network"},
    {"data", "token files and conversations", "dataset, datasets, dataloader"},
    {"train", "length, batch, learning rate, optimiser", "training, trainer, optim, optimizer, lr_scheduler, scheduler"},
    {"parallel", "how the work is split over ranks", "parallelism, fsdp, fsdp_config, distributed"},
    {"precision", "number formats", "mixed_precision"},
    {"memory", "memory for time", "activation_checkpoint"},
    {"checkpoint", "saving and resuming", "checkpointing, ckpt, save"},
    {"eval", "validation loss", "evaluation, validation, validate"},
    {"device", "where the arithmetic runs", NULL},
    {"cpu", "kernels on a CPU", NULL},
    {"gpu", "kernels on a GPU", NULL},
    {"health", "what to do when ranks hang or numbers go bad", NULL},
    {"log", "progress lines", "logging, metrics"},
    {"profile", "where the time of some steps goes", "profiling, profiler"},
    {"export", "the trained model for other programs", NULL},
};
const int nsections = sizeof sections / sizeof *sections;

#define FIELD(S, n, t) .section = "", .name = #n, .offset = offsetof(S, n), .type = t

/* In the order of GROUP_… in config.h. */
static const Key group_fields[] = {
    {FIELD(Group, match, KEY_PATTERNS), .required = true, .help = "a pattern of parameter names (* ? [...]), or a list of them",
     .elsewhere = "params, pattern, patterns, name, names, regex"},
    {FIELD(Group, trainable, KEY_BOOL), .fallback = "true", .help = "false: they keep their values, without gradient and moments",
     .elsewhere = "requires_grad, freeze, frozen, train"},
    {FIELD(Group, lr_factor, KEY_NUMBER), .fallback = "1", .min = 0, .max = 1000, .open = OPEN_MIN, .help = "times train.lr",
     .elsewhere = "lr, lr_scale, lr_mult, learning_rate"},
    {FIELD(Group, weight_decay, KEY_NUMBER), .derived = "train.weight_decay, on matrices only", .min = 0, .max = 10,
     .help = "AdamW's, on all their elements", .elsewhere = "wd, decay"},
    {.name = NULL},
};

static const Key rename_fields[] = {
    {FIELD(Rename, from, KEY_PATTERN), .required = true, .help = "a pattern of names in the files"},
    {FIELD(Rename, to, KEY_PATTERN), .required = true, .help = "the model's name; each * is what the same * of from stands for"},
    {.name = NULL},
};

#define PATH_FIELD                                                                                                                 \
  {                                                                                                                                \
    FIELD(DataSet, path, KEY_PATTERN), .required = true, .help = "token files, by pattern (* ? [...])",                            \
                                       .elsewhere = "file, files, data"                                                            \
  }

static const Key train_fields[] = {
    PATH_FIELD,
    {FIELD(DataSet, weight, KEY_NUMBER), .derived = "none: all files are one stream", .min = 0, .max = MANY, .open = OPEN_MIN,
     .help = "share of the tokens, beside the weights of the others; all have one, or none",
     .elsewhere = "ratio, proportion, prob"},
    {.name = NULL},
};

static const Key val_fields[] = {PATH_FIELD, {.name = NULL}};

const Key keys[] = {
    {.section = "",
     .name = "hpctrain",
     .type = KEY_INT,
     .offset = offsetof(Config, schema),
     .required = true,
     .min = 1,
     .max = CONFIG_SCHEMA,
     .example = "1",
     .help = "version of the run file's format"},

    {KEY(run, name, KEY_TEXT), .derived = "the run file's name", .example = "llama7b", .help = "what the run is called",
     .elsewhere = "run_name, exp_name, wandb_run_name"},
    {KEY(run, folder, KEY_TEXT), .derived = "runs/ and the name", .example = "runs/llama7b", .help = "where everything is written",
     .elsewhere = "out_dir, output_dir, dump_folder, save_folder"},
    {KEY(run, seed, KEY_INT), .fixed = true, .fallback = "1", .min = 0, .max = 9e15, .help = "of initial weights and data order",
     .elsewhere = "random_seed, rng_seed"},
    {KEY(run, debug, KEY_SET), .fallback = "[]", .choices = LIST("ir", "fuse", "mem", "comm", "sync", "determinism"),
     .example = "[ir, mem]",
     .help =
         "stages that print themselves; sync: each step on a GPU is waited for, and named if it fails; determinism: each step of "
         "training is computed twice and compared"},
    {KEY(run, tune, KEY_BOOL), .fallback = "false", .help = "choose kernels by measurement, not by the fixed rule"},

    {KEY(model, preset, KEY_TEXT), .fixed = true, .example = "llama2-7b", .help = "a model known by name, fresh weights",
     .elsewhere = "flavor, model_name, init_from"},
    {KEY(model, config, KEY_TEXT), .fixed = true, .example = "llama/config.json",
     .help = "a Hugging Face config.json, fresh weights", .elsewhere = "config_name, model_config"},
    {KEY(model, from, KEY_TEXT), .fixed = true, .example = "models/Llama-3.1-8B",
     .help = "a Hugging Face folder: its config and weights",
     .elsewhere = "base_model, model_name_or_path, pretrained_model_name_or_path, initial_load_path"},
    {KEY(model, vocab_size, KEY_INT), .required = true, .shape = true, .min = 2, .max = DIM_MAX, .example = "32000",
     .help = "rows of the embedding", .elsewhere = "padded_vocab_size, n_vocab"},
    {KEY(model, hidden_size, KEY_INT), .required = true, .shape = true, .min = 1, .max = DIM_MAX, .example = "4096",
     .help = "width of the residual stream", .elsewhere = "n_embd, d_model, dim"},
    {KEY(model, num_hidden_layers, KEY_INT), .required = true, .shape = true, .min = 1, .max = 10000, .example = "32",
     .help = "transformer blocks", .elsewhere = "num_layers, n_layer, n_layers"},
    {KEY(model, num_attention_heads, KEY_INT), .required = true, .shape = true, .min = 1, .max = DIM_MAX, .example = "32",
     .help = "query heads", .elsewhere = "n_head, n_heads, num_heads"},
    {KEY(model, num_key_value_heads, KEY_INT), .shape = true, .min = 1, .max = DIM_MAX, .derived = "num_attention_heads",
     .example = "8", .help = "key and value heads, shared by query heads", .elsewhere = "num_query_groups, n_kv_heads, n_kv_head"},
    {KEY(model, head_dim, KEY_INT), .shape = true, .min = 2, .max = DIM_MAX, .derived = "hidden_size / num_attention_heads",
     .example = "128", .help = "width of a head, even", .elsewhere = "kv_channels"},
    {KEY(model, intermediate_size, KEY_INT), .required = true, .shape = true, .min = 1, .max = DIM_MAX, .example = "11008",
     .help = "width of the MLP", .elsewhere = "ffn_hidden_size, hidden_dim, d_ff"},
    {KEY(model, rms_norm_eps, KEY_NUMBER), .shape = true, .fallback = "1e-5", .min = 0, .max = 0.1, .open = OPEN_MIN,
     .help = "added to the mean square", .elsewhere = "norm_eps, layernorm_epsilon"},
    {KEY(model, rope_theta, KEY_NUMBER), .shape = true, .fallback = "10000", .min = 1, .max = 1e12,
     .help = "base of the rotary angles", .elsewhere = "rotary_base, rope_base"},
    {KEY(model, tie_word_embeddings, KEY_BOOL), .shape = true, .fallback = "false", .help = "one matrix for embedding and head",
     .elsewhere = "weight_tying, tie_embeddings"},
    {KEY(model, max_position_embeddings, KEY_INT), .shape = true, .min = 1, .max = 1e9, .derived = "train.seq_len",
     .example = "4096", .help = "longest sequence the model is meant for", .elsewhere = "max_seq_len, n_positions, block_size"},
    {KEY(model, initializer_range, KEY_NUMBER), .shape = true, .fallback = "0.02", .min = 0, .max = 10, .open = OPEN_MIN,
     .help = "standard deviation of fresh weights", .elsewhere = "init_method_std, init_std"},
    {KEY(model, rename, KEY_ITEMS), .fields = rename_fields, .size = sizeof(Rename), .derived = "files have the model's names",
     .example = "[{from: \"transformer.*\", to: \"model.*\"}]",
     .help = "tensors of the files of model.from, by pattern; the first that fits counts", .elsewhere = "key_mapping, weight_map"},
    {KEY(model, fresh, KEY_PATTERNS), .derived = "none: all parameters are in the files", .example = "[lm_head.weight]",
     .help = "parameters that start anew where the files of model.from lack them or have another shape",
     .elsewhere = "ignore_mismatched_sizes, strict"},
    {KEY(model, skip, KEY_PATTERNS), .derived = "none: all tensors are the model's", .example = "[\"vision_model.*\"]",
     .help = "tensors of the files of model.from that are not wanted",
     .elsewhere = "exclude_keys, _keys_to_ignore_on_load_unexpected"},

    {KEY(data, train, KEY_DATA), .fields = train_fields, .size = sizeof(DataSet), .fixed = true, .required = true,
     .example = "data/train.bin",
     .help = "token files to train on, or JSON lines of conversations: a pattern, or a list of {path: ..., weight: ...}",
     .elsewhere = "data_path, dataset_path, train_data, train_file, datasets"},
    {KEY(data, val, KEY_DATA), .fields = val_fields, .size = sizeof(DataSet), .example = "data/val.bin",
     .help = "token files to evaluate on: a pattern, or {name: pattern, ...}",
     .elsewhere = "valid_data_path, val_data, validation_file, eval_data, test_datasets"},
    {KEY(data, format, KEY_CHOICE), .fixed = true, .fallback = "tokens", .choices = LIST("tokens", "chat"),
     .help =
         "tokens: files are one text, cut into sequences; chat: conversations, as JSON lines or as hpctrain tokenize --chat made "
         "of them, each whole in a sequence, with packing several"},
    {KEY(data, chat_template, KEY_TEXT), .fixed = true, .derived = "of JSON lines it must be given", .example = "llama3",
     .help = "how a conversation is written for the model; hpctrain tokenize --chat list names all",
     .elsewhere = "conversation, conversation_template, prompt_template, template"},
    {KEY(data, train_on_inputs, KEY_BOOL), .fixed = true, .derived = "of JSON lines it must be given", .example = "false",
     .help = "false: only answers and the tokens that end them count; true: all tokens do",
     .elsewhere = "mask_inputs, assistant_only_loss"},
    {KEY(data, too_long, KEY_CHOICE), .fixed = true, .fallback = "cut", .choices = LIST("cut", "drop", "refuse"),
     .help = "conversations longer than train.seq_len: their beginning stays, they are left out, or it is an error; how many there "
             "are is told",
     .elsewhere = "excess_length_strategy, truncation, overlong"},
    {KEY(data, hdf5_dataset, KEY_TEXT), .fixed = true, .fallback = "tokens", .example = "train/tokens",
     .help = "of HDF5 files: the name of the dataset of tokens, integers in one piece", .elsewhere = "dataset_name, hdf5_key"},
    {KEY(data, dtype, KEY_CHOICE), .fixed = true, .fallback = "auto", .choices = LIST("auto", "uint16", "uint32"),
     .help = "of tokens; auto: from the file's header"},
    {KEY(data, tokenizer, KEY_TEXT), .fallback = "auto", .example = "tok/llama2.model, tokenizer.json, a folder, bytes, none",
     .help = "turns tokens into text; none: shown as numbers; auto: that of model.from, if it has one",
     .elsewhere = "tokenizer_type, tokenizer_path, tokenizer_model"},
    {KEY(data, tokenizer_pattern, KEY_TEXT), .derived = "known by the file's number of ranks", .example = "cl100k_base",
     .help = "of a *.tiktoken file: a family's name, or a regular expression"},
    {KEY(data, val_fraction, KEY_NUMBER), .fixed = true, .fallback = "0", .min = 0, .max = 1, .open = OPEN_MAX, .example = "0.02",
     .help = "share of data.train kept back to evaluate on", .elsewhere = "val_set_size, validation_split, split"},
    {KEY(data, packing, KEY_BOOL), .fixed = true, .fallback = "false",
     .help = "keep documents of one sequence apart: attention stops where one ends, positions begin anew, and no label crosses; "
             "false: a sequence is one text, as is usual in pre-training",
     .elsewhere = "sample_packing, reset_attention_mask, reset_position_ids, intra_document_masking"},
    {KEY(data, document_end, KEY_INT), .fixed = true, .fallback = "-1", .min = -1, .max = 2147483647.0, .example = "50256",
     .help =
         "the token behind each document, for packing; -1: the tokenizer's; a Megatron index and marks beside a file tell ends, "
         "too",
     .elsewhere = "eod, eos_token_id, eot_token"},
    {KEY(data, buckets, KEY_LENGTHS), .fallback = "none", .word = "none", .automatic = true, .min = 1, .max = 1e9,
     .example = "[256, 512, 1024]",
     .help =
         "conversations shorter than train.seq_len cost less: a step's rows are sorted by length, and a pass computes as many "
         "positions as the shortest of these lengths (or seq_len) that holds its longest row; it wants several passes a step (a "
         "small train.micro_batch_size); kernels of each length are compiled, so a first start takes as many times as long; "
         "auto: an eighth, a quarter and half of seq_len, rounded up to multiples of 8, or of 128 where seq_len is 1024 or "
         "more; not what is below 64",
     .elsewhere = "group_by_length, length_grouped_sampler, bucket_boundaries"},

    {KEY(train, seq_len, KEY_INT), .fixed = true, .required = true, .min = 1, .max = 1e9, .example = "2048",
     .help = "tokens a sequence", .elsewhere = "seq_length, sequence_len, max_seq_len, block_size, sequence_length"},
    {KEY(train, duration, KEY_AMOUNT), .units = STEPS | TOKENS | EPOCHS, .required = true, .min = 0, .max = MANY, .open = OPEN_MIN,
     .example = "2T tokens, 5000 steps, 3 epochs", .help = "length of the run; shapes the schedule",
     .elsewhere = "max_steps, train_iters, max_iters, steps, max_duration, num_train_epochs, num_epochs, train_samples"},
    {KEY(train, global_batch_size, KEY_AMOUNT), .fixed = true, .units = TOKENS | SEQUENCES, .required = true, .min = 1, .max = MANY,
     .example = "4Mi tokens, 1024 sequences", .help = "a step's batch, all ranks together",
     .elsewhere = "batch_size, total_batch_size"},
    {KEY(train, micro_batch_size, KEY_INT), .fallback = "auto", .word = "auto", .min = 1, .max = 1e9, .example = "4",
     .help = "sequences a rank and pass; more need memory",
     .elsewhere = "local_batch_size, per_device_train_batch_size, device_train_microbatch_size"},
    {KEY(train, lr, KEY_NUMBER), .required = true, .min = 0, .max = 1, .open = OPEN_MIN, .example = "3e-4",
     .help = "peak learning rate", .elsewhere = "learning_rate, max_lr, peak_lr"},
    {KEY(train, min_lr, KEY_NUMBER), .fallback = "0", .min = 0, .max = 1, .example = "3e-5", .help = "where the schedule ends",
     .elsewhere = "min_learning_rate, lr_min, end_lr"},
    {KEY(train, schedule, KEY_CHOICE), .required = true, .choices = LIST("constant", "linear", "cosine", "wsd"),
     .example = "cosine", .help = "of the learning rate, after warmup",
     .elsewhere = "lr_scheduler, lr_scheduler_type, lr_decay_style, decay_type"},
    {KEY(train, warmup, KEY_AMOUNT), .units = STEPS | TOKENS | PERCENT, .fallback = "0 steps", .min = 0, .max = MANY,
     .example = "2000 steps, 1B tokens, 3%", .help = "linear rise to lr",
     .elsewhere = "warmup_steps, warmup_iters, lr_warmup_iters, warmup_ratio, t_warmup"},
    {KEY(train, decay, KEY_AMOUNT), .units = STEPS | TOKENS | PERCENT, .derived = "required for schedule: wsd, no use otherwise",
     .min = 0, .max = MANY, .open = OPEN_MIN, .example = "10%, 5000 steps", .help = "last part of schedule: wsd, down to min_lr",
     .elsewhere = "decay_ratio, lr_wsd_decay_iters, decay_steps, cooldown"},
    {KEY(train, weight_decay, KEY_NUMBER), .fallback = "0.1", .min = 0, .max = 10, .help = "AdamW's, on matrices only",
     .elsewhere = "wd, adam_wd"},
    {KEY(train, beta1, KEY_NUMBER), .fallback = "0.9", .min = 0, .max = 1, .open = OPEN_MAX, .help = "AdamW's memory of gradients",
     .elsewhere = "adam_beta1"},
    {KEY(train, beta2, KEY_NUMBER), .fallback = "0.95", .min = 0, .max = 1, .open = OPEN_MAX, .help = "AdamW's memory of squares",
     .elsewhere = "adam_beta2"},
    {KEY(train, eps, KEY_NUMBER), .fallback = "1e-8", .min = 0, .max = 1, .open = OPEN_MIN, .help = "AdamW's, added to the root",
     .elsewhere = "adam_eps, adam_epsilon"},
    {KEY(train, grad_clip, KEY_NUMBER), .fallback = "1", .word = "none", .min = 0, .max = 1e9, .open = OPEN_MIN,
     .help = "longest gradient, Euclidean norm", .elsewhere = "clip_grad, max_norm, max_grad_norm, gradient_clipping"},
    {KEY(train, z_loss, KEY_NUMBER), .fallback = "0", .min = 0, .max = 1, .example = "1e-4",
     .help = "times the mean square of log sum exp(logits), added to the loss: keeps logits from drifting",
     .elsewhere = "z_loss_coefficient, z_loss_weight, z_loss_multiplier, lm_head_z_loss"},
    {KEY(train, router_aux_loss, KEY_NUMBER),
     .derived = "router_aux_loss_coef of the model's config.json, if that has output_router_logits: true; else 0", .min = 0,
     .max = 100, .example = "0.02",
     .help = "of experts: times how unevenly a micro-batch's tokens are spread over them (all blocks together; the number of "
             "experts a token where even)",
     .elsewhere = "router_aux_loss_coef, moe_aux_loss_coeff, aux_loss_coef, load_balancing_loss_coef"},
    {KEY(train, router_z_loss, KEY_NUMBER), .fallback = "0", .min = 0, .max = 1, .example = "1e-3",
     .help = "of experts: times the mean square of log sum exp(a router's logits) over a micro-batch's tokens and all blocks",
     .elsewhere = "moe_z_loss_coeff, router_z_loss_coef"},
    {KEY(train, dropout, KEY_NUMBER), .derived = "as the model's config.json has it", .min = 0, .max = 1, .open = OPEN_MAX,
     .example = "0.1", .help = "share of the embedded tokens, and of what each part of a block adds, that is dropped in training",
     .elsewhere = "hidden_dropout, resid_pdrop, embd_pdrop, residual_dropout, dropout_p"},
    {KEY(train, attention_dropout, KEY_NUMBER), .derived = "as the model's config.json has it", .min = 0, .max = 1,
     .open = OPEN_MAX, .example = "0", .help = "the same within attention: must be 0, since no attention here drops anything",
     .elsewhere = "attn_pdrop, attn_dropout"},
    {KEY(train, stop_after, KEY_AMOUNT), .units = STEPS | TOKENS, .fallback = "none", .word = "none", .min = 0, .max = MANY,
     .open = OPEN_MIN, .example = "100 steps", .help = "save and end early; the schedule stays",
     .elsewhere = "exit_interval, stop_step"},
    {KEY(train, time_limit, KEY_AMOUNT), .units = SECONDS, .fallback = "auto", .word = "none", .automatic = true, .min = 0,
     .max = MANY, .open = OPEN_MIN, .example = "24h, 90min, 600s",
     .help = "of a job, from its start: saves and ends in time, to be started again; auto: until Slurm ends it",
     .elsewhere = "exit_duration_in_mins, max_time"},
    {KEY(train, groups, KEY_ITEMS), .fields = group_fields, .size = sizeof(Group), .derived = "all parameters are trained alike",
     .example = "[{match: \"*norm*\", weight_decay: 0}]",
     .help = "settings of single parameters by name; a parameter is of the first group that names it, others have the run's",
     .elsewhere = "param_groups, unfrozen_parameters, freeze, no_weight_decay, lr_groups"},

    {KEY(parallel, strategy, KEY_CHOICE), .fallback = "full_shard",
     .choices = LIST("no_shard", "shard_opt", "shard_grad_op", "full_shard", "hybrid_shard"),
     .help = "no_shard: a whole copy a rank (DDP); shard_opt: moments and masters in shares (ZeRO-1); shard_grad_op: gradients too "
             "(ZeRO-2); full_shard: a share of everything (FSDP, ZeRO-3); hybrid_shard: full_shard within groups, copies across",
     .elsewhere = "sharding_strategy, fsdp_sharding_strategy, zero_stage, data_parallel_sharding_strategy"},
    {KEY(parallel, shard_degree, KEY_INT), .fallback = "auto", .word = "auto", .min = 1, .max = 1000000,
     .help = "ranks of a group that shares a copy (hybrid_shard); auto: a node's",
     .elsewhere = "data_parallel_shard_degree, fsdp_size, dp_shard"},
    {KEY(parallel, hybrid_optimizer, KEY_CHOICE), .fallback = "replicate", .choices = LIST("replicate", "shard"),
     .help = "hybrid_shard: moments and masters in every group, or in shares across the groups"},
    {KEY(parallel, accumulate, KEY_CHOICE), .choices = LIST("whole", "shard"),
     .derived = "whole for no_shard and shard_opt, else shard",
     .help = "gradients between passes; whole: more memory, less traffic"},
    {KEY(parallel, units_alive, KEY_INT), .fallback = "2", .min = 1, .max = 10000,
     .help = "gathered blocks at a time (full_shard, hybrid_shard)", .elsewhere = "limit_all_gathers, prefetch_factor"},
    {KEY(parallel, ignore, KEY_PATTERNS), .derived = "none", .example = "[\"*norm*\"]",
     .help = "parameters that every rank holds whole", .elsewhere = "ignored_modules, ignored_states, ignored_params"},

    {KEY(precision, compute, KEY_CHOICE), .fallback = "fp32", .choices = LIST("fp32", "bf16", "fp16"),
     .help = "of matrix products, attention and kept activations; sums, norms and softmax stay fp32",
     .elsewhere = "dtype, param_dtype, mixed_precision_param"},
    {KEY(precision, master, KEY_CHOICE), .fallback = "fp32", .choices = LIST("fp32"), .help = "of the weights that are updated"},
    {KEY(precision, moments, KEY_CHOICE), .fallback = "fp32", .choices = LIST("fp32", "bf16"),
     .help = "AdamW's m and v in memory; bf16: 4 bytes a parameter less, rounded by chance",
     .elsewhere = "exp_avg_dtype, exp_avg_sq_dtype"},
    {KEY(precision, reduce, KEY_CHOICE), .fallback = "fp32", .choices = LIST("fp32", "bf16"), .help = "of gradients between ranks",
     .elsewhere = "reduce_dtype, mixed_precision_reduce, grad_reduce_in_fp32"},

    {KEY(memory, recompute, KEY_FIT), .fallback = "none", .choices = LIST("none", "cheap", "block", "auto"),
     .example = "{auto: 60GiB}",
     .help = "cheap: norms, activations and rotations again; block: all but a block's input; auto: the least that fits the device, "
             "or so many bytes",
     .elsewhere = "activation_checkpointing, gradient_checkpointing, recompute_granularity, ac_mode"},

    {KEY(memory, offload, KEY_SET), .fallback = "[]", .choices = LIST("moments", "masters", "gradients", "inputs"),
     .example = "[moments, gradients]",
     .help = "what lies in the host's memory; masters: what bf16 leaves of the parameters; gradients: between passes; inputs: of "
             "blocks",
     .elsewhere = "cpu_offload, offload_optimizer, offload_param, fsdp_offload_params"},

    {KEY(memory, offload_folder, KEY_TEXT), .example = "/nvme/scratch",
     .help = "moments go to files there instead, one a rank, which have no name and are gone with the run",
     .elsewhere = "nvme_path"},

    {KEY(memory, optimizer, KEY_CHOICE), .fallback = "device", .choices = LIST("device", "host"),
     .help = "who updates; host: its cores, on what offload: [moments, masters, gradients] leaves there",
     .elsewhere = "optimizer_cpu_offload, use_cpu_adam"},

    {KEY(checkpoint, every, KEY_AMOUNT), .units = STEPS, .fallback = "1000 steps", .word = "none", .min = 1, .max = MANY,
     .example = "1000 steps", .help = "between saves; the end of a run saves too; none: only when asked (touch SAVE)",
     .elsewhere = "save_interval, save_steps, save_every, interval"},
    {KEY(checkpoint, keep, KEY_INT), .fallback = "3", .min = 1, .max = 1000000,
     .help = "newest checkpoints that stay, besides those made read-only (chmod -R a-w)",
     .elsewhere = "save_total_limit, keep_latest_k, save_num_checkpoints_to_keep"},
    {KEY(checkpoint, keep_every, KEY_AMOUNT), .units = STEPS, .fallback = "none", .word = "none", .min = 1, .max = MANY,
     .example = "50000 steps", .help = "steps that are saved and stay for good, besides the newest",
     .elsewhere = "keep_period, save_retain_interval"},
    {KEY(checkpoint, resume, KEY_TEXT), .fallback = "auto", .example = "runs/llama7b",
     .help = "auto: from run.folder's newest; never; or a run or step folder",
     .elsewhere = "resume_from_checkpoint, load, load_path, load_step, autoresume"},

    {KEY(checkpoint, async, KEY_CHOICE), .fallback = "auto", .choices = LIST("auto", "true", "false"),
     .help = "saves beside the training, from a copy in the host's memory; auto: on GPUs, where there is room for it",
     .elsewhere = "async_save, async_checkpoint, async_mode, use_async"},
    {KEY(checkpoint, files, KEY_INT), .fallback = "1", .word = "node", .min = 1, .max = 256, .example = "8",
     .help = "HDF5 files of a checkpoint, for file systems of many servers; tensors are dealt to them whole; node: one a node",
     .elsewhere = "num_files, single_file_per_rank"},

    {KEY(eval, every, KEY_AMOUNT), .units = STEPS, .derived = "1000 steps where there is validation data", .min = 1, .max = MANY,
     .example = "1000 steps", .help = "between evaluations", .elsewhere = "eval_interval, eval_steps, freq"},
    {KEY(eval, tokens, KEY_AMOUNT), .units = TOKENS, .fallback = "1M tokens", .min = 1, .max = MANY, .example = "10M tokens",
     .help = "an evaluation; all where there are fewer", .elsewhere = "eval_iters, max_eval_samples"},

    {KEY(device, kind, KEY_CHOICE), .fallback = "auto", .choices = LIST("auto", "cpu", "cuda", "apart"),
     .help = "where the arithmetic runs; auto: on GPUs where all ranks see one; each rank takes a GPU near its cores; apart: a cpu "
             "taken for a GPU, for tests",
     .elsewhere = "accelerator, device_type"},

    {KEY(cpu, compiler, KEY_TEXT), .fallback = "cc", .example = "gcc-12", .help = "C compiler; none: the interpreter, slow"},
    {KEY(cpu, matmul, KEY_CHOICE), .fallback = "auto", .choices = LIST("auto", "onednn", "cblas", "own"),
     .help = "who multiplies matrices"},
    {KEY(cpu, fuse, KEY_BOOL), .fallback = "true", .help = "false: every node a kernel of its own, to find faults"},
    {KEY(cpu, threads, KEY_INT), .fallback = "auto", .word = "auto", .min = 1, .max = 4096,
     .help = "a rank; auto: its share of the cores", .elsewhere = "omp_num_threads, num_threads"},

    {KEY(gpu, attention, KEY_CHOICE), .fallback = "auto", .choices = LIST("auto", "cudnn", "cudnn-fast", "plain"),
     .help = "auto: the same bits in every run; cudnn-fast: a gradient 10 to 15 % faster, whose bits differ between runs"},
    {KEY(gpu, gathers, KEY_CHOICE), .fallback = "copy", .choices = LIST("copy", "nccl"),
     .help = "between GPUs of a node: by copy engines, which leave the GPU's cores alone, or by NCCL"},
    {KEY(gpu, reductions, KEY_CHOICE), .fallback = "copy", .choices = LIST("copy", "nccl"),
     .help = "of gradients to shares, between GPUs of a node: parts sent by copy engines and added by each in fp32, or by NCCL"},
    {KEY(gpu, graph, KEY_BOOL), .fallback = "true", .help = "programs as CUDA graphs; false: kernel by kernel, to find faults"},

    {KEY(health, timeout, KEY_AMOUNT), .units = SECONDS, .fallback = "120 seconds", .word = "none", .min = 0.5, .max = 1e7,
     .example = "120s", .help = "a collective that is waited for longer is a hang: the job ends and names who did not come",
     .elsewhere = "timeout, init_timeout_seconds, train_timeout_seconds, distributed_timeout_minutes, ddp_timeout"},
    {KEY(health, straggler_every, KEY_AMOUNT), .units = STEPS, .fallback = "50 steps", .word = "none", .min = 1, .max = MANY,
     .example = "100 steps", .help = "ranks compare how long they compute without waiting; a warning names who is slow, once",
     .elsewhere = "log_straggler, straggler_report_time_interval, report_time_interval"},
    {KEY(health, straggler_percent, KEY_NUMBER), .fallback = "10", .min = 1, .max = 1000,
     .help = "who takes so much longer than the median is slow", .elsewhere = "gpu_relative_perf_threshold"},
    {KEY(health, nonfinite, KEY_CHOICE), .fallback = "skip", .choices = LIST("skip", "stop", "back"),
     .help =
         "a step whose loss or gradient is inf or nan (in fp16, once the loss scale has come down to 1) changes nothing; back: to "
         "the newest checkpoint, and on from there past the data since",
     .elsewhere = "check_for_nan_in_loss_and_grad"},
    {KEY(health, spike, KEY_NUMBER), .fallback = "none", .word = "none", .min = 1, .max = 1000, .example = "6",
     .help =
         "so many deviations above the median of the last 128 steps, a loss or a gradient norm is a spike; told from the 65th on",
     .elsewhere = "sigma_factor, loss_spike_factor, detect_loss_spikes"},
    {KEY(health, on_spike, KEY_CHOICE), .fallback = "skip", .choices = LIST("skip", "stop", "back"),
     .help = "as nonfinite, of a step with such a loss or norm"},
    {KEY(health, replicas_every, KEY_AMOUNT), .units = STEPS, .fallback = "500 steps", .word = "none", .min = 1, .max = MANY,
     .example = "500 steps", .help = "ranks that hold the same states compare hashes of them, so often and before each save",
     .elsewhere = "check_weight_hash_across_dp_replicas_interval"},
    {KEY(health, replicas, KEY_CHOICE), .fallback = "stop", .choices = LIST("stop", "back"),
     .help = "when they differ; the rank and the tensor are named"},
    {KEY(health, backs, KEY_INT), .fallback = "3", .min = 1, .max = 1000,
     .help = "times in a row that a run goes back to the same checkpoint before it stops"},

    {KEY(log, every, KEY_AMOUNT), .units = STEPS, .fallback = "1 step", .min = 1, .max = MANY, .example = "10 steps",
     .help = "between progress lines", .elsewhere = "log_interval, logging_steps, log_freq"},

    {KEY(profile, steps, KEY_RANGE), .fallback = "none", .word = "none", .min = 1, .max = MANY, .example = "10-12, 10",
     .help = "recorded by every rank in run.folder/profile; hpctrain profile prints them",
     .elsewhere = "profile_step_start, profile_step_end, profile_freq"},

    {KEY(export, at_end, KEY_TEXT), .example = "runs/chat/hf",
     .help = "a Hugging Face folder, as hpctrain export makes it, when the run is done; must not be there before",
     .elsewhere = "output_dir, save_model, last_save_in_hf"},
};
const int nkeys = sizeof keys / sizeof *keys;
