# SPDX-License-Identifier: Apache-2.0
"""Ids and texts of hpctrain beside those of Hugging Face tokenizers and SentencePiece, on random texts of many scripts.

compare_tokenizers.py HPCTRAIN GOLDEN_FOLDER ROUNDS SEED: small tokenizers of many kinds are trained here, so that each normalizer,
pre-tokenizer, decoder and flag of an added token comes up; ROUNDS texts go through each.  Prints what differs; ends with 1 then, with
77 where a library is missing."""
import json
import random
import re
import subprocess
import sys

try:
    import sentencepiece
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as missing:
    print(f"note  no {missing.name} in this Python: tokenizers are not compared")
    sys.exit(77)

hpctrain, golden, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)

WORDS = """the harbour was quiet when nobody came to look at the boats and it's they've don't I'll HOUSE House 12 1,000 3.14159 2024
naïve café Ångström ﬁancé straße İstanbul ĳ ½ ² № Привет мир что это שלום עולם العربية مرحبا हिन्दी नमस्ते ไทย สวัสดี 日本語 テキスト 中文 你好 한국어
안녕 Ελλάδα Ὀδυσσεύς Հայերեն ქართული አማርኛ བོད་ 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 def f(x): return x**2 != y; <s> </s> <mask> <|endoftext|> [INST] ▁ Ġ""".split()
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u200b", "\u180e", "\x0b", "\x1c", "\x85", ""]
BLOCKS = [(0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF),
          (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F),
          (0x2150, 0x218F), (0x2460, 0x24FF), (0x3040, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F),
          (0xFF00, 0xFFEF), (0x10400, 0x1044F), (0x1D400, 0x1D4FF), (0x1F300, 0x1F6FF), (0, 0x1F), (0xE000, 0xE010), (0x2F800, 0x2F81F)]


def text():
    out = []
    for _ in range(rng.randint(0, 12)):
        kind = rng.random()
        if kind < 0.6:
            out.append(rng.choice(WORDS))
        elif kind < 0.8:
            low, high = rng.choice(BLOCKS)
            out.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
        elif kind < 0.9:
            out.append(str(rng.randint(0, 10**9)))
        else:
            out.append(rng.choice("aA é_-'.,!?\"#") * rng.randint(1, 50))
        out.append(rng.choice(SPACES))
    return "".join(out)


def run(command, path, lines, *more):
    done = subprocess.run([hpctrain, command, "--tokenizer", path, *more], input="".join(json.dumps(x) + "\n" for x in lines),
                          capture_output=True, text=True)
    if done.returncode:
        print(f"{path}: {command}: {done.stderr}")
        sys.exit(1)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


wrong = compared = 0


def compare(name, path, encode, decode, more=(), tie=lambda a, b: False):
    """encode: texts to lists of ids; decode: lists of ids to texts; tie: whether the library might as well have said b."""
    global wrong, compared
    compared += 1
    texts = [text() for _ in range(rounds)]
    theirs = encode(texts)
    ours = run("tokenize", path, texts, "--print", *more)
    for x, a, b in zip(texts, theirs, ours):
        if a != b and not tie(a, b):
            print(f"{name}: {x!r}\n  theirs {a}\n  ours   {b}")
            wrong += 1
            break
    known = sorted({i for ids in theirs for i in ids})
    lists = theirs[: rounds // 2] + [[rng.choice(known) for _ in range(rng.randint(0, 9))] for _ in range(rounds // 4)]
    pattern = more if "--pattern" in more else ()
    for ids, a, b in zip(lists, decode(lists), run("detokenize", path, lists, *pattern)):
        if a != b:
            print(f"{name}: {ids}\n  theirs {a!r}\n  ours   {b!r}")
            wrong += 1
            break


def compare_hf(name, tokenizer):
    path = f"{name}.json"
    tokenizer.save(path)
    tokenizer = Tokenizer.from_file(path)
    compare(name, path, lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)],
            lambda lists: tokenizer.decode_batch(lists, skip_special_tokens=False))
    return tokenizer, path


CORPUS = [text() for _ in range(400)] + [" ".join(rng.choices(WORDS, k=20)) for _ in range(200)]


def train(pre, normal=None, decoder=None, special=("<s>", "</s>"), alphabet=(), vocab=600, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normal:
        tokenizer.normalizer = normal
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=list(special), initial_alphabet=list(alphabet), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
BYTES = pre_tokenizers.ByteLevel.alphabet()
SPELLED = [f"<0x{b:02X}>" for b in range(256)]


def byte_level(*before, **flags):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(**flags)])


def llama(normal, pre=None):
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return train(pre, normal, decoder, special=["<unk>", "<s>", "</s>", *SPELLED], vocab=900, unk_token="<unk>", byte_fallback=True,
                 fuse_unk=True)


def added(tokenizer, **flags):
    tokenizer.add_tokens([AddedToken("<mask>", **flags), AddedToken("House", **flags), AddedToken("é", **flags)])
    tokenizer.add_special_tokens([AddedToken("[INST]", **flags)])
    return tokenizer


space = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
kinds = {
    "gpt2": lambda: train(byte_level(add_prefix_space=False), decoder=decoders.ByteLevel(), alphabet=BYTES),
    "prefix": lambda: train(byte_level(add_prefix_space=True), decoder=decoders.ByteLevel(), alphabet=BYTES),
    "llama3": lambda: train(byte_level(pre_tokenizers.Split(Regex(LLAMA3), "isolated"), add_prefix_space=False, use_regex=False),
                            decoder=decoders.ByteLevel(), alphabet=BYTES, ignore_merges=True),
    "qwen": lambda: train(byte_level(pre_tokenizers.Split(Regex(QWEN), "isolated"), add_prefix_space=False, use_regex=False),
                          normalizers.NFC(), decoders.ByteLevel(), alphabet=BYTES),
    "digits": lambda: train(byte_level(pre_tokenizers.Digits(True), add_prefix_space=False), decoder=decoders.ByteLevel(), alphabet=BYTES),
    "contiguous": lambda: train(byte_level(pre_tokenizers.Digits(False), pre_tokenizers.Punctuation("contiguous"), add_prefix_space=False),
                                decoder=decoders.ByteLevel(), alphabet=BYTES),
    "classes": lambda: train(byte_level(pre_tokenizers.Split(Regex(r"\p{Han}+|[[:alpha:]]+|\w+|[[:punct:]]"), "isolated"),
                                        add_prefix_space=False, use_regex=False), decoder=decoders.ByteLevel(), alphabet=BYTES),
    "llama2": lambda: llama(space),
    "legacy": lambda: llama(None, pre_tokenizers.Metaspace("▁", "first", False)),
    "nfkc": lambda: llama(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), space])),
    "nfd": lambda: train(pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFD(), normalizers.Strip()]), unk_token="<s>"),
    "nfkd": lambda: train(pre_tokenizers.WhitespaceSplit(), normalizers.NFKD(), unk_token="<s>", fuse_unk=True),
    "no_unk": lambda: train(pre_tokenizers.CharDelimiterSplit("a")),
    "added": lambda: added(train(byte_level(add_prefix_space=False), decoder=decoders.ByteLevel(), alphabet=BYTES)),
    "single": lambda: added(train(byte_level(add_prefix_space=False), decoder=decoders.ByteLevel(), alphabet=BYTES), single_word=True),
    "strips": lambda: added(llama(space), lstrip=True, rstrip=True),
    "plain": lambda: added(llama(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), space])), normalized=False),
    "normalized": lambda: added(llama(normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])), normalized=True, lstrip=True),
}
for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
    for invert in (False, True):
        kinds[f"split_{behavior}_{invert}"] = lambda behavior=behavior, invert=invert: train(
            byte_level(pre_tokenizers.Split(Regex(r"[aeiou]| |\d+"), behavior, invert), add_prefix_space=False, use_regex=False),
            decoder=decoders.ByteLevel(), alphabet=BYTES)
for scheme in ("always", "first", "never"):
    for split in (True, False):
        kinds[f"meta_{scheme}_{split}"] = lambda scheme=scheme, split=split: added(train(
            pre_tokenizers.Metaspace("▁", scheme, split), decoder=decoders.Metaspace("▁", scheme, split), unk_token="<s>"))

for name, make in kinds.items():
    tokenizer, path = compare_hf(name, make())
    if name == "llama3":
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
        tokenizer.save("template.json")
        compare("template", "template.json", lambda texts: [e.ids for e in tokenizer.encode_batch(texts)],
                lambda lists: tokenizer.decode_batch(lists, skip_special_tokens=False), ["--add-special-tokens"])
for name in ("gpt2-style", "llama3-style", "llama2-style"):
    tokenizer = Tokenizer.from_file(f"{golden}/{name}.json")
    compare(name, f"{golden}/{name}.json", lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)],
            lambda lists: tokenizer.decode_batch(lists, skip_special_tokens=False))
for name in ("sp-bpe", "sp-unigram"):
    model = sentencepiece.SentencePieceProcessor(f"{golden}/{name}.model")
    # Releases of the library break ties of a unigram's cuts otherwise: then the sum of scores is the same.
    score = lambda ids: sum(model.get_score(i) for i in ids)  # noqa: E731
    compare(name, f"{golden}/{name}.model", model.encode, model.decode,
            tie=lambda a, b: "unigram" in name and model.decode(a) == model.decode(b) and abs(score(a) - score(b)) < 1e-3)
try:
    import base64

    import tiktoken
    from tiktoken_ext import openai_public
except ImportError:
    print("note  no tiktoken in this Python")
else:
    byte_of = {char: byte for byte, char in zip([*range(33, 127), *range(161, 173), *range(174, 256)], map(chr, [*range(33, 127), *range(161, 173), *range(174, 256)]))}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if chr(b) not in byte_of)})
    vocab = json.load(open(f"{golden}/gpt2-style.json"))["model"]["vocab"]
    ranks = {bytes(byte_of[c] for c in piece): i for piece, i in vocab.items() if i}
    with open("x.tiktoken", "wb") as out:
        out.writelines(base64.b64encode(piece) + b" %d\n" % i for piece, i in ranks.items())
    # The patterns as the library has them; it would fetch the ranks, so only the texts are taken from its source.
    source = open(openai_public.__file__).read()
    families = {"gpt2": re.search(r"r50k_pat_str = \(\s*r\"\"\"(.*?)\"\"\"", source, re.S)[1],
                "cl100k_base": re.search(r"def cl100k_base.*?r\"\"\"(.*?)\"\"\"", source, re.S)[1],
                "o200k_base": "|".join(re.findall(r"r\"\"\"(.*?)\"\"\"", source[source.index("def o200k_base"):])[:7]),
                "llama3": LLAMA3, "qwen": QWEN, "[a-z]+|[^a-z]": "[a-z]+|[^a-z]"}
    for name, pattern in families.items():
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        compare(name, "x.tiktoken", lambda texts: [encoding.encode_ordinary(x) for x in texts],
                lambda lists: [encoding.decode(ids) for ids in lists], ["--pattern", name])

print(f"{compared} tokenizers, {rounds} texts each: {wrong} differ" if wrong else f"ok: {compared} tokenizers, {rounds} texts each")
sys.exit(wrong > 0)
