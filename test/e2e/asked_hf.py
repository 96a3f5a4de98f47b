# SPDX-License-Identifier: Apache-2.0
# asked_hf.py HPCTRAIN FOLDER: what hpctrain generate and eval say of a Hugging Face folder, beside transformers, on bytes as tokens.
import json
import math
import shutil
import subprocess
import sys

try:
    import torch
    from transformers import AutoModelForCausalLM, RepetitionPenaltyLogitsProcessor
except ImportError as missing:
    print(f"note  {missing.name} is not installed: nobody but hpctrain has asked the model")
    sys.exit(0)

hpctrain, folder = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
limit = model.config.max_position_embeddings


def ask(command, *words):
    words = [hpctrain, command, folder, *words, "data.tokenizer=bytes", "cpu.threads=1"]
    return [json.loads(line) for line in subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()]


def log_probabilities(ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


# Greedy: each token is the most likely of bytes behind all before it.
prompts = ["hello", "the quick brown fox", "a"]
words = [word for prompt in prompts for word in ("--prompt", prompt)]
for prompt, said in zip(prompts, ask("generate", *words, "--tokens", "30", "--temperature", "0", "--json")):
    ids = list(prompt.encode())
    for new in said["ids"]:
        want = log_probabilities(ids)[-1, :256]
        if want[new] < want.max() - 1e-4:
            sys.exit(f"{folder}: {prompt!r}: token {len(ids)} is {new}, not {int(want.argmax())}")
        ids.append(new)

# As generation_config.json has it: greedy, but what was there is less likely.
settled = "settled"
shutil.copytree(folder, settled, dirs_exist_ok=True, copy_function=shutil.copyfile)
with open(settled + "/generation_config.json", "w") as f:
    json.dump({"do_sample": False, "repetition_penalty": 1.3, "eos_token_id": [318, 319]}, f)
folder, given = settled, folder
for prompt, said in zip(prompts, ask("generate", *words, "--tokens", "30", "--json")):
    ids = list(prompt.encode())
    for new in said["ids"]:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[:, -1, :256]
        want = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([ids]), logits)[0]
        if want[new] < want.max() - 1e-4:
            sys.exit(f"{given}: {prompt!r}, penalised: token {len(ids)} is {new}, not {int(want.argmax())}")
        ids.append(new)
folder = given

# A text in windows.
text = open(sys.argv[0], "rb").read()[:500]
open("text", "wb").write(text)
window, stride, nats, done = limit // 2, limit // 8, 0.0, 1
for at in range(0, len(text), stride):
    ids = list(text[at : at + window + 1])
    if at + len(ids) <= done:
        break
    cost = log_probabilities(ids[:-1])
    nats -= sum(float(cost[i - 1, ids[i]]) for i in range(done - at, len(ids)))
    done = at + len(ids)
said = ask("eval", "--text", "text", "--window", str(window), "--stride", str(stride), "--json")[0]
if not abs(said["loss"] * said["tokens"] / nats - 1) <= 2e-5 or said["tokens"] != len(text) - 1:
    sys.exit(f"{folder}: {said['loss']} nats of {said['tokens']} tokens, not {nats / (len(text) - 1)}")
if not abs(said["bits_per_byte"] * math.log(2) / said["loss"] - 1) <= 1e-9:
    sys.exit(f"{folder}: bits per byte are {said['bits_per_byte']}")

# Choices.
questions = [("The cat sat on the", ["mat", "moon, and sang"]), ("One, two,", ["three", "four", "a"])]
with open("questions.jsonl", "w") as f:
    for context, choices in questions:
        f.write(json.dumps({"context": context, "choices": choices, "label": 0}) + "\n")
ask("eval", "--choices", "questions.jsonl", "--each", "each.jsonl", "--json")
for (context, choices), line in zip(questions, open("each.jsonl")):
    for choice, nats in zip(choices, json.loads(line)["nats"]):
        ids = list((context + " " + choice).encode())
        cost = log_probabilities(ids)
        want = -sum(float(cost[i - 1, ids[i]]) for i in range(len(context), len(ids)))
        if not abs(nats / want - 1) <= 2e-5:
            sys.exit(f"{folder}: {choice!r} costs {nats}, not {want}")
print("asked alike")
