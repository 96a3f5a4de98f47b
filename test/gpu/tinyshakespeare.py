#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains llama-10m on the bytes of a text in plain PyTorch, float32, as hpctrain does with the same numbers: the same initial
weights, the same sequences in the same order, AdamW, warm-up and cosine.  Prints one line: PEER {json}.

  tinyshakespeare.py TEXT --steps N --batch B --seq S --lr X --min-lr Y --warmup N --val-fraction V --seed N"""
import argparse, hashlib, json, math, struct, time

import torch
import torch.nn.functional as F

HIDDEN, MLP, LAYERS, HEADS, VOCAB, EPS, THETA, STD = 384, 1024, 6, 6, 256, 1e-5, 10000, 0.02
INIT, DATA_ORDER = 1, 2  # purposes of random numbers
LOW = 0xFFFFFFFF


def random_key(seed, purpose, name):
    """Of a stream of random numbers: a hash of what they are for."""
    digest = hashlib.sha256(struct.pack("<QQ", seed, purpose) + name.encode() + b"\0").digest()
    return struct.unpack(">II", digest[:8])[::-1]


def philox(key, counter):
    """Philox4x32-10 on integers or on int64 tensors, which wrap around as wanted."""
    (a, b, c, d), (k0, k1) = counter, key
    for _ in range(10):
        x, y = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = ((y >> 32) & LOW) ^ b ^ k0, y & LOW, ((x >> 32) & LOW) ^ d ^ k1, x & LOW
        k0, k1 = (k0 + 0x9E3779B9) & LOW, (k1 + 0xBB67AE85) & LOW
    return a, b, c, d


def initial(seed, name, *shape):
    """Four normals a block of random words (Box and Muller)."""
    n = math.prod(shape)
    block = torch.arange((n + 3) // 4)
    zero = torch.zeros_like(block)
    w = [x.double() for x in philox(random_key(seed, INIT, name), (block, zero, zero, zero))]
    values = []
    for i in (0, 2):
        radius, angle = torch.sqrt(-2 * torch.log((w[i] + 1) * 2.0**-32)), 2 * math.pi * 2.0**-32 * w[i + 1]
        values += [radius * torch.cos(angle), radius * torch.sin(angle)]
    return (STD * torch.stack(values, 1).flatten()[:n]).float().reshape(shape)


def permute(key, epoch, n, i):
    """Where place i of an epoch's order comes from: four Feistel rounds, again while the result is not below n."""
    half = 1
    while n > 1 << 2 * half:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for turn in range(4):
            x = right << 2 | turn
            w = philox(key, (x & LOW, x >> 32, epoch & LOW, epoch >> 32))
            left, right = right, left ^ ((w[1] << 32 | w[0]) & mask)
        i = left << half | right
        if i < n:
            return i


def weights(seed):
    w = {"model.embed_tokens.weight": initial(seed, "model.embed_tokens.weight", VOCAB, HIDDEN)}
    shapes = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN), "self_attn.v_proj": (HIDDEN, HIDDEN),
              "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (MLP, HIDDEN), "mlp.up_proj": (MLP, HIDDEN),
              "mlp.down_proj": (HIDDEN, MLP)}
    for layer in range(LAYERS):
        for part, shape in shapes.items():
            name = f"model.layers.{layer}.{part}.weight"
            w[name] = initial(seed, name, *shape)
        for part in ("input_layernorm", "post_attention_layernorm"):
            w[f"model.layers.{layer}.{part}.weight"] = torch.ones(HIDDEN)
    w["model.norm.weight"] = torch.ones(HIDDEN)
    w["lm_head.weight"] = initial(seed, "lm_head.weight", VOCAB, HIDDEN)
    return w


def loss_of(w, ids, labels, cos, sin):
    """Mean over all labels, in nats."""
    B, S = ids.shape

    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def heads(x):
        return x.view(B, S, HEADS, -1).transpose(1, 2)

    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        h = F.rms_norm(x, (HIDDEN,), w[at + "input_layernorm.weight"], EPS)
        q, k, v = (heads(F.linear(h, w[f"{at}self_attn.{p}_proj.weight"])) for p in "qkv")
        o = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + F.linear(o.transpose(1, 2).reshape(B, S, HIDDEN), w[at + "self_attn.o_proj.weight"])
        h = F.rms_norm(x, (HIDDEN,), w[at + "post_attention_layernorm.weight"], EPS)
        gate, up = F.linear(h, w[at + "mlp.gate_proj.weight"]), F.linear(h, w[at + "mlp.up_proj.weight"])
        x = x + F.linear(F.silu(gate) * up, w[at + "mlp.down_proj.weight"])
    logits = F.linear(F.rms_norm(x, (HIDDEN,), w["model.norm.weight"], EPS), w["lm_head.weight"])
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("text")
    for name, kind in (("steps", int), ("batch", int), ("seq", int), ("warmup", int), ("seed", int), ("lr", float),
                       ("min-lr", float), ("val-fraction", float)):
        p.add_argument("--" + name, type=kind, required=True)
    a = p.parse_args()
    begin = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    text = torch.tensor(list(open(a.text, "rb").read()))
    sequences = (len(text) - 1) // a.seq
    held = math.floor(sequences * a.val_fraction + 0.5)
    train = sequences - held
    key = random_key(a.seed, DATA_ORDER, "")

    def batch(samples):
        rows = torch.stack([text[i * a.seq : i * a.seq + a.seq + 1] for i in samples]).to(device)
        return rows[:, :-1], rows[:, 1:]

    half = HIDDEN // HEADS // 2
    angle = torch.outer(torch.arange(a.seq).double(), THETA ** (-torch.arange(half).double() / half))
    cos, sin = angle.cos().float().to(device), angle.sin().float().to(device)
    w = {name: x.to(device).requires_grad_() for name, x in weights(a.seed).items()}
    opt = torch.optim.AdamW([{"params": [x for x in w.values() if x.ndim == 2], "weight_decay": 0.1},
                             {"params": [x for x in w.values() if x.ndim == 1], "weight_decay": 0.0}],
                            betas=(0.9, 0.95), eps=1e-8, lr=a.lr)
    losses = []
    for step in range(a.steps):
        share = 0.5 * (1 + math.cos(math.pi * (step - a.warmup) / (a.steps - a.warmup)))
        lr = a.lr * (step + 1) / a.warmup if step < a.warmup else a.min_lr + (a.lr - a.min_lr) * share
        for group in opt.param_groups:
            group["lr"] = lr
        places = range(step * a.batch, (step + 1) * a.batch)
        loss = loss_of(w, *batch(permute(key, i // train, train, i % train) for i in places), cos, sin)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        opt.step()
        losses.append(loss.detach())
    total = 0.0
    with torch.no_grad():
        for i in range(train, sequences, 32):
            samples = range(i, min(i + 32, sequences))
            total += loss_of(w, *batch(samples), cos, sin).item() * len(samples)
    print("PEER " + json.dumps({"system": "torch " + torch.__version__, "device": device, "seconds": round(time.time() - begin, 1),
                                "first_loss": losses[0].item(), "loss": losses[-1].item(), "val_loss": total / held}), flush=True)


main()
