# SPDX-License-Identifier: Apache-2.0
"""Encodes the texts of JSON lines with Hugging Face tokenizers: bench_tokenize.py TOKENIZER.json FILE.jsonl THREADS OUT.bin.

As a user would: batches of texts, ids appended to a file of uint16.  Prints the seconds of it all but the start of Python, which
are the wall's and the processors'."""
import json
import os
import resource
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ["RAYON_NUM_THREADS"] = sys.argv[3]
try:
    from array import array

    from tokenizers import Tokenizer
except ImportError as missing:
    print(f"note  no {missing.name} in this Python", file=sys.stderr)
    sys.exit(77)

begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
tokenizer = Tokenizer.from_file(sys.argv[1])
tokens = 0
with open(sys.argv[2], encoding="utf-8") as lines, open(sys.argv[4], "wb") as out:
    while batch := [json.loads(line)["text"] for _, line in zip(range(1000), lines)]:
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            tokens += len(encoding.ids)
            out.write(array("H", encoding.ids).tobytes())
after = resource.getrusage(resource.RUSAGE_SELF)
busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(f"{time.monotonic() - begin:.3f} {busy:.3f} {tokens}")
