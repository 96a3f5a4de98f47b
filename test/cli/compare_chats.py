# SPDX-License-Identifier: Apache-2.0
"""Conversations as hpctrain tokenize --chat writes them beside apply_chat_template of transformers: ids, and which of them are an
answer's.

compare_chats.py HPCTRAIN GOLDEN_FOLDER ROUNDS SEED: small tokenizers get the special tokens of all templates; ROUNDS conversations of
random contents go through each template.  Prints what differs; ends with 1 then, with 77 where a library is missing."""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast
except ImportError as missing:
    print(f"note  no {missing.name} in this Python: chat templates are not compared")
    sys.exit(77)

hpctrain, golden, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)

# Our own wording, in the library's language, of what each model's template renders.
FOLDED = """{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else none -%}
{%- for m in messages -%}{%- if m['role'] != 'system' -%}
{%- set text = before + system + after + m['content'] if loop.index0 == 1 and system is not none else m['content'] -%}
BODY{%- endif -%}{%- endfor -%}"""
LLAMA2 = "{%- set before = '<<SYS>>\\n' -%}{%- set after = '\\n<</SYS>>\\n\\n' -%}" + FOLDED.replace("BODY", """
{%- if m['role'] == 'user' -%}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
{%- else -%}{{ ' ' }}{%- generation -%}{{ text.strip() + ' ' + eos_token }}{%- endgeneration -%}{%- endif -%}""")
MISTRAL = "{%- set before = '' -%}{%- set after = '\\n\\n' -%}{{ bos_token }}" + FOLDED.replace("BODY", """
{%- if m['role'] == 'user' -%}{{ ' [INST] ' + text + ' [/INST]' }}
{%- else -%}{{ ' ' }}{%- generation -%}{{ text + eos_token }}{%- endgeneration -%}{%- endif -%}""")
MISTRAL_V3 = "{%- set before = '' -%}{%- set after = '\\n\\n' -%}{{ bos_token }}" + FOLDED.replace("BODY", """
{%- if m['role'] == 'user' -%}{{ '[INST] ' + text + '[/INST]' }}
{%- else -%}{{ ' ' }}{%- generation -%}{{ text.strip() + eos_token }}{%- endgeneration -%}{%- endif -%}""")
LLAMA3 = """{{ bos_token }}{%- for m in messages -%}
{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}
{%- if m['role'] == 'assistant' -%}{%- generation -%}{{ m['content'].strip() + '<|eot_id|>' }}{%- endgeneration -%}
{%- else -%}{{ m['content'].strip() + '<|eot_id|>' }}{%- endif -%}{%- endfor -%}"""
CHATML = """{%- if messages[0]['role'] != 'system' and system -%}
{{ '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}{%- endif -%}
{%- for m in messages -%}{{ '<|im_start|>' + m['role'] + '\\n' }}
{%- if m['role'] == 'assistant' -%}{%- generation -%}{{ m['content'] + '<|im_end|>' }}{%- endgeneration -%}{{ '\\n' }}
{%- else -%}{{ m['content'] + '<|im_end|>\\n' }}{%- endif -%}{%- endfor -%}"""
QWEN2 = "{%- set system = 'You are a helpful assistant.' -%}"
QWEN25 = "{%- set system = 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' -%}"
TEMPLATES = {"llama2": LLAMA2, "llama3": LLAMA3, "mistral": MISTRAL, "mistral_v3": MISTRAL_V3, "chatml": CHATML, "qwen2": QWEN2 + CHATML,
             "qwen2.5": QWEN25 + CHATML}
SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<|eot_id|>",
            "<|start_header_id|>", "<|end_header_id|>"]
ENDS = {"llama3-style": ("<|begin_of_text|>", "<|end_of_text|>"), "llama2-style": ("<s>", "</s>")}
WORDS = ["The", "harbour", "was", "quiet", "it's", "12345", "3.14", "naïve", "日本語", "Привет", "👍🏽", "def f(x):", "\n", "\n\n", "\t", "  ", " ",
         "\u00a0", "\u3000", "-", "...", "</s>", "<|eot_id|>", "\r\n", "   \n  ", "(a)", "\\", '"']


def content():
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", " "]) for _ in range(rng.randint(0, 7)))


def conversation():
    turns = [{"role": "system", "content": content()}] if rng.random() < 0.4 else []
    for _ in range(rng.randint(1, 4)):
        turns += [{"role": "user", "content": content()}, {"role": "assistant", "content": content()}]
    return turns


def ours(folder, name, talks):
    with open(f"{folder}/talks.jsonl", "w") as out:
        out.writelines(json.dumps({"messages": talk}, ensure_ascii=rng.random() < 0.5) + "\n" for talk in talks)
    for old in ("talks.bin", "talks.mask"):
        if os.path.exists(f"{folder}/{old}"):
            os.remove(f"{folder}/{old}")
    subprocess.run([hpctrain, "tokenize", "--tokenizer", folder, f"{folder}/talks.jsonl", "--out", f"{folder}/talks.bin", "--chat", name],
                   check=True, stdout=subprocess.DEVNULL)
    ids = numpy.fromfile(f"{folder}/talks.bin", numpy.uint16, offset=1024).tolist()
    marks = numpy.fromfile(f"{folder}/talks.mask", numpy.uint8).tolist()
    begins = [i for i, mark in enumerate(marks) if mark & 2] + [len(ids)]
    return [(ids[a:b], [mark & 1 for mark in marks[a:b]]) for a, b in zip(begins, begins[1:])]


def theirs(tokenizer, template, talk):
    got = tokenizer.apply_chat_template(talk, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    return got["input_ids"], got["assistant_masks"]


def compare(style):
    """The library counts an id that lies in front of the answer and in it where its first character's place says so; so a first id of
    an answer may count for one of us alone.  Ids must be the same."""
    bos, eos = ENDS[style]
    base = Tokenizer.from_file(f"{golden}/{style}.json")
    base.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        base.save(f"{folder}/tokenizer.json")
        with open(f"{folder}/tokenizer_config.json", "w") as out:
            json.dump({"bos_token": bos, "eos_token": eos}, out)
        library = PreTrainedTokenizerFast(tokenizer_object=base, bos_token=bos, eos_token=eos)
        for name, template in TEMPLATES.items():
            talks = [conversation() for _ in range(rounds)]
            for talk, (ids, marks) in zip(talks, ours(folder, name, talks)):
                want, counts = theirs(library, template, talk)
                if ids != want:
                    bad += 1
                    print(f"{style} {name}: {json.dumps(talk)}\n  ids {ids}\n  not {want}")
                elif sum(a != b for a, b in zip(marks, counts)) > sum(m["role"] == "assistant" for m in talk):
                    bad += 1
                    print(f"{style} {name}: {json.dumps(talk)}\n  marks {marks}\n  not {counts}")
    return bad


differ = sum(compare(style) for style in ENDS)
print(f"{differ} of {rounds * len(TEMPLATES) * len(ENDS)} conversations differ")
sys.exit(1 if differ else 0)
