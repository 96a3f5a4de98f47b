/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands, and what hpctrain help says of each: forms and words a line each, as cmd.h tells. */
#include <string.h>

#include "src/cmd/cmd.h"

#define RUN_WORDS "[RUN.yaml] [section.key=value ...]"
#define MODEL_WORDS "MODEL\ta run's folder (its newest checkpoint), one of its step folders, or a Hugging Face folder\n"
#define KEY_WORDS "data.tokenizer=PATH\twhere the model's own tokenizer is not with it\n"

const Command commands[] = {
    {"config", "before", "the run file with all defaults, and where each value came from", RUN_WORDS "\n--new\n--doc",
     "Resolves and checks a run file, without data, ranks or GPUs.\n"
     "--new\ta run file to start from\n"
     "--doc\tthe page of all keys, doc/keys.md",
     RANKS_HARMLESS, cmd_config},
    {"help", "before", "commands, sections and keys explained", "[COMMAND|SECTION|KEY ...]",
     "A key is also found by the name that another trainer has for it.", RANKS_HARMLESS, cmd_help},
    {"plan", "before", "does a run fit, how fast is it, when is it done, what to change; needs no ranks and no GPU",
     RUN_WORDS " [--ranks N] [--gpus-per-node M] [--gpu NAME] [--sweep] [--memory-snapshot FILE]",
     "What the run on N ranks needs, and how long it takes on such GPUs; what to change where it does not fit.\n"
     "--gpu NAME\th200 h100 h100-pcie a100 b200, or cpu\n"
     "--sweep\tother strategies, recomputation and micro-batches beside it\n"
     "--memory-snapshot FILE\tfor PyTorch's memory viewer",
     RANKS_REFUSED, cmd_plan},
    {"check", "before", "are the nodes of this job well? in a minute", RUN_WORDS " [--slow PERCENT]",
     "Products, memory, links between ranks, files in run.folder.  Names who is slow beside the median, or faulty, and then ends "
     "with 3.\n"
     "--slow PERCENT\tof the median, below which one is slow (90)",
     RANKS_USED, cmd_check},
    {"tokenize", "before", "token files of texts, JSON lines and conversations",
     "--tokenizer T INPUT ... --out PREFIX [--field NAME] [--lines] [--bos] [--no-eos] [--threads N] [--shards N]\n"
     "--tokenizer T INPUT ... --out PREFIX --chat TEMPLATE [--train-on-inputs] [--threads N] [--shards N]\n"
     "--tokenizer T --print [--add-special-tokens]\n"
     "OUT.bin TEXT ...",
     "Goes on where it was stopped.\n"
     "T\ta tokenizer.json, a *.model, a *.tiktoken, a folder with one, or bytes\n"
     "--pattern P\tof a *.tiktoken that is not known: a family's name or a regular expression\n"
     "INPUT\ttext files, *.jsonl files and folders; behind each document comes the tokenizer's end token\n"
     "--out PREFIX\tthe files are PREFIX-00000.bin and so on\n"
     "--field NAME\tof JSON lines (text)\n"
     "--lines\ta line of text is a document\n"
     "--bos, --no-eos\tthe token that begins a text before each document; none behind it\n"
     "--chat TEMPLATE\tJSON lines are conversations (messages of role and content, conversations of from and value, or prompt and "
     "completion; beside them system, the system's text), written as TEMPLATE has it; --chat list names all.  Marks beside say "
     "what counts: answers.  A message's weight or train that says otherwise is an error, as are tools and calls of them\n"
     "--train-on-inputs\tall of a conversation counts\n"
     "--print\tJSON strings on standard input, one a line, become arrays of ids\n"
     "OUT.bin TEXT\ta token a byte; - is standard input",
     RANKS_USED, cmd_tokenize},
    {"detokenize", "before", "ids back to text", "--tokenizer T [--pattern P]",
     "JSON arrays of ids on standard input, one a line, become JSON strings.", RANKS_REFUSED, cmd_detokenize},
    {"import", "before", "a checkpoint of a Hugging Face folder", "HF_DIR CKPT",
     "The checkpoint (step 0) starts runs by model.from, and export makes the same files of it again.  model.from takes the folder "
     "itself, too.",
     RANKS_USED, cmd_import},
    {"train", "during", "(the default) trains, or goes on where the newest checkpoint is", RUN_WORDS,
     "Without a run file hpctrain.yaml, or where there is none a built-in demo.", RANKS_USED, cmd_train},
    {"ckpt", "after", "checkpoints listed, described, verified, compared, copied",
     "ls|show|verify FOLDER\ndiff FOLDER FOLDER\ncopy FOLDER TO_FOLDER",
     "FOLDER is a run's (its newest checkpoint) or a step's.\n"
     "verify\tagainst the checksums\n"
     "diff\ttensor by tensor; ends with 1 where they differ\n"
     "copy\tand checks the copy",
     RANKS_REFUSED, cmd_ckpt},
    {"profile", "after", "where the time of recorded steps went", "RUN_FOLDER [--rank N] [--rows N]",
     "By kind, program and step, of the steps that profile.steps has recorded.", RANKS_REFUSED, cmd_profile},
    {"eval", "after", "perplexity of a text, or multiple-choice questions",
     "MODEL --text FILE [--window N] [--stride N] [--field NAME] [--json] [--each FILE] [section.key=value ...]\n"
     "MODEL --choices FILE.jsonl [--add-special-tokens] [--json] [--each FILE] [section.key=value ...]",
     MODEL_WORDS "--text FILE\tnats a token, bits a byte, perplexity; *.jsonl and *.ndjson: a document a line, its text in the "
                 "field NAME (text)\n"
                 "--window N\ttokens (the model's positions, at most 2048); windows go on by half of one, or by --stride\n"
                 "--choices FILE\tacc and acc_norm (by characters; with --json also acc_bytes) as HellaSwag and ARC are scored, "
                 "from those sets' own fields, where a blank always comes between, or from lines {\"context\", \"choices\", "
                 "\"label\"}, where one comes if neither has one there\n"
                 "--json\tthe result as an object\n"
                 "--each FILE\ta line of JSON a document or question\n" KEY_WORDS,
     RANKS_USED, cmd_eval},
    {"generate", "after", "texts that go on from prompts",
     "MODEL [--prompt TEXT ...] [--prompts FILE] [--tokens N] [--temperature T] [--top-k K] [--top-p P] [--repetition-penalty R] "
     "[--no-generation-config] [--seed S] [--stop TEXT ...] [--batch N] [--json] [--add-special-tokens | --no-special-tokens] "
     "[section.key=value ...]",
     MODEL_WORDS
     "--prompts FILE\ta prompt a line, or in a file *.jsonl or *.ndjson a line \"TEXT\" or {\"prompt\": \"TEXT\"}\n"
     "--tokens N\ta text ends after so many (256), before a --stop, or with the end token of tokenizer or generation_config.json; "
     "beyond the model's positions it goes on from the last half of them\n"
     "--temperature T ...\thow tokens are drawn; what is not said is as transformers draws by generation_config.json "
     "(--no-generation-config: not so), else a temperature of 0.8 of all\n"
     "--add-special-tokens\tbefore each prompt the tokens that the tokenizer puts before a text (<s>); so it is with a Hugging "
     "Face folder and a run that began from one, unless --no-special-tokens says otherwise\n"
     "--batch N\tprompts at a time (8)\n"
     "--json\tan object a line\n" KEY_WORDS,
     RANKS_REFUSED, cmd_generate},
    {"export", "after", "a Hugging Face folder of a checkpoint",
     "CKPT HF_DIR [--dtype bf16|fp16|fp32] [--shard-size 5GB] [--force]",
     "CKPT is a run's folder (its newest checkpoint), or a step's.\n"
     "--dtype\telse as imported, or as the model's config.json says, or as it was computed\n"
     "--force\treplaces a model's folder",
     RANKS_USED, cmd_export},
    {"ir", "inspect", "the run's programs after a stage of the compiler", RUN_WORDS " [--after=STAGE] [--program=NAME] [--ranks N]",
     "--after=STAGE\tmodel recompute precision shard simplify accumulate offload schedule fuse", RANKS_REFUSED, cmd_ir},
    {"bench", "inspect", "how fast a run's data come", "data " RUN_WORDS " [--seconds N]",
     "The data by themselves: when the first batch is there, tokens a second, where the time goes, and what the run takes.",
     RANKS_USED, cmd_bench},
    {"verify", "inspect", "logits, gradients and steps beside a reference's",
     "HF_DIR REFERENCE.safetensors [--train FILE.json] [--passes N] [--dump FILE] [section.key=value ...]",
     "test/golden has models with such references, and tells how they are made.", RANKS_USED, cmd_verify},
};
const int ncommands = sizeof commands / sizeof *commands;

const Command *command_find(const char *name) {
  for (int i = 0; i < ncommands; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}
