/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: [COMMAND] [RUN.yaml] [section.key=value ...]; without a command it trains. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/base/version.h"
#include "src/cmd/cmd.h"
#include "src/comm/comm.h"
#include "src/config/config.h"
#include "src/model/model.h"

#define RUN_WORDS "[RUN.yaml] [section.key=value ...]"

const Command commands[] = {
    {"config", "before", RUN_WORDS " | --new | --doc",
     "prints the resolved run and where each value came from; --new: a starter file; --doc: doc/keys.md", false, cmd_config},
    {"check", "before", RUN_WORDS " [--slow PERCENT]",
     "what the nodes of this job can do, in a minute: products, memory, links between ranks, files in run.folder; names who is "
     "below "
     "90 % "
     "of the median, and then exits with 3",
     true, cmd_check},
    {"help", "before", "[COMMAND|SECTION|KEY ...]", "explains", false, cmd_help},
    {"plan", "before", RUN_WORDS " [--ranks N] [--gpus-per-node M] [--gpu NAME] [--sweep] [--memory-snapshot FILE]",
     "what the run on N ranks needs and how long it takes on such GPUs (h200 h100 h100-pcie a100 b200) or on cpu; what to change "
     "where "
     "it does not fit; --sweep: other strategies and micro-batches; --memory-snapshot: for PyTorch's memory viewer; needs no ranks "
     "and no GPU",
     false, cmd_plan},
    {"tokenize", "before",
     "--tokenizer T INPUT ... --out PREFIX [--chat TEMPLATE [--train-on-inputs]] [--field NAME] [--lines] [--bos] [--no-eos] "
     "[--threads N] [--shards N] | --tokenizer T "
     "--print [--add-special-tokens] | OUT.bin TEXT ...",
     "makes token files of text files, *.jsonl files (their field NAME, by default text) and folders, each document with the "
     "tokenizer's end token behind it; goes on where it was stopped; T is a tokenizer.json, a *.model, a *.tiktoken (with "
     "--pattern "
     "FAMILY or a regular expression where it is not known), a folder with one, or bytes; --lines: a line of text is a document; "
     "--chat: JSON lines are conversations (messages of role and content, conversations of from and value, or prompt and "
     "completion; beside them system, the system's text) and written as TEMPLATE has it (--chat list names them), with marks "
     "beside that say what counts: answers, with "
     "--train-on-inputs all; a message's weight or train that says otherwise is an error, as are tools and calls of them; "
     "--print: JSON strings on standard input, one a line, become arrays of ids; OUT.bin TEXT: a token a byte, - is standard input",
     true, cmd_tokenize},
    {"detokenize", "before", "--tokenizer T", "JSON arrays of ids on standard input, one a line, become JSON strings", false,
     cmd_detokenize},
    {"import", "before", "HF_DIR CKPT",
     "makes a checkpoint (step 0) of a Hugging Face folder: model.from starts a run from it, export gives the same files again",
     true, cmd_import},
    {"train", "during", RUN_WORDS, "trains, or goes on where the run's newest checkpoint is; the default command", true, cmd_train},
    {"ckpt", "after", "ls|show|verify FOLDER | diff FOLDER FOLDER | copy FOLDER TO_FOLDER",
     "the checkpoints of a run (its newest) or a step folder: listed, described, checked against their checksums, compared tensor "
     "by "
     "tensor (exit 1: they differ), copied elsewhere and checked there",
     false, cmd_ckpt},
    {"profile", "after", "RUN_FOLDER [--rank N] [--rows N]",
     "where the time of the steps went that profile.steps has recorded, by kind, program and step", false, cmd_profile},
    {"eval", "after",
     "MODEL --text FILE [--window N] [--stride N] [--field NAME] | MODEL --choices FILE.jsonl [--add-special-tokens] "
     "[--json] [--each FILE] [section.key=value ...]",
     "what a model (a run's folder, a step's or a Hugging Face folder) thinks of a text: nats a token, bits a byte, "
     "perplexity; *.jsonl and *.ndjson: a document a line, its text in the field NAME (text); windows of N tokens (the model's "
     "positions, at most 2048) go on by half a window, or --stride; or of multiple-choice questions: acc and acc_norm (by "
     "characters; with --json also acc_bytes) as HellaSwag and ARC are scored, from those sets' own fields, where a blank always "
     "comes between, or from lines {\"context\", \"choices\", \"label\"}, where one comes if neither has one there; "
     "--each: a line of JSON a document or question; --json: the result as an object",
     true, cmd_eval},
    {"generate", "after",
     "MODEL [--prompt TEXT ...] [--prompts FILE] [--tokens N] [--temperature T] [--top-k K] [--top-p P] "
     "[--repetition-penalty R] [--no-generation-config] [--seed S] "
     "[--stop TEXT ...] [--batch N] [--json] [--add-special-tokens | --no-special-tokens] [section.key=value ...]",
     "texts that go on from prompts, in their order; MODEL is a run's folder (its newest checkpoint), a step's or a "
     "Hugging Face folder; the tokenizer is the model's (data.tokenizer=PATH, where it is elsewhere); --prompts: a prompt "
     "a line, or in a file *.jsonl or *.ndjson a line \"TEXT\" or {\"prompt\": \"TEXT\"}; before each come the "
     "tokens that the tokenizer puts before a text (<s>), if the model is a Hugging Face folder or a run that began from one; "
     "--add-special-tokens: with any model; --no-special-tokens: with none; a text ends with the tokenizer's or "
     "generation_config.json's end token, before a --stop, or after N tokens (256); beyond the model's positions it goes "
     "on from the last half of them; how tokens are drawn is as you say, else as transformers draws by generation_config.json "
     "(--no-generation-config: it does not), else at temperature 0.8 of all; --batch: prompts at a time (8); --json: an object a "
     "line",
     false, cmd_generate},
    {"export", "after", "CKPT HF_DIR [--dtype bf16|fp16|fp32] [--shard-size 5GB] [--force]",
     "makes a Hugging Face folder of a run's newest checkpoint, or of that step; --dtype: "
     "else as "
     "imported, or as the model's config.json says, or as it was computed; --force: replaces a model's folder",
     true, cmd_export},
    {"ir", "inspect", RUN_WORDS " [--after=STAGE] [--program=NAME] [--ranks N]",
     "the run's programs after a stage of the compiler: model recompute shard simplify accumulate schedule fuse", false, cmd_ir},
    {"bench", "inspect", "data " RUN_WORDS " [--seconds N]",
     "how fast the run's data come by themselves, when the first batch is there, where the time goes, and what the run takes", true,
     cmd_bench},
    {"verify", "inspect", "HF_DIR REFERENCE.safetensors [--train FILE.json] [--passes N] [--dump FILE] [section.key=value ...]",
     "a model's logits, gradients and first training steps against a reference's", true, cmd_verify},
};
const int ncommands = sizeof commands / sizeof *commands;

const Command *command_find(const char *name) {
  for (int i = 0; i < ncommands; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}

static bool is_run_word(const char *word) {
  const char *dot = strrchr(word, '.');
  return strchr(word, '=') || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

static _Noreturn void fail_word(const char *word) {
  const char *names[64];
  CHECK(ncommands <= 64);
  for (int i = 0; i < ncommands; i++) names[i] = commands[i].name;
  const char *near = config_nearest(word, names, ncommands);
  fail(FAIL_INPUT, "'%.60s' is no command, no run file (NAME.yaml) and no section.key=value\nhelp: %s%s%s", word,
       near ? "did you mean '" : "", near ? near : "hpctrain --help lists the commands", near ? "'?" : "");
}

static int run(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  if (!strcmp(word, "--version")) return printf("hpctrain %s\n", version_text) < 0;
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return cmd_help(argc - 1, argv + 1);
  const Command *command = command_find(word);
  if (command && argc == 3 && !strcmp(argv[2], "--help")) return cmd_help(2, argv);
  if (command) return command->run(argc - 1, argv + 1);
  if (*word && !is_run_word(word)) fail_word(word);
  return cmd_train(argc, argv);
}

int main(int argc, char **argv) {
  text_pin_locale();
  fail_undo_on_signals();
  comm_launch();
  config_set_presets(model_presets());
  int status = run(argc, argv);
  if (fflush(stdout) != 0 || ferror(stdout)) fail(FAIL_MACHINE, "cannot write to standard output: %s", strerror(errno));
  return status;
}
