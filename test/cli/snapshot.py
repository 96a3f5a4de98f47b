# SPDX-License-Identifier: Apache-2.0
# Judges a memory snapshot: python3 snapshot.py FILE.  Python reads it; so does PyTorch, where there is one; its opcodes are those
# that the viewer's page knows (torch/utils/viz/MemoryViz.js); and what it tells adds up.
import pickle, pickletools, sys

KNOWN = {"PROTO", "FRAME", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINUNICODE",
         "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET"}

with open(sys.argv[1], "rb") as f:
    data = f.read()
opcodes = {op.name for op, _, _ in pickletools.genops(data)}
assert opcodes <= KNOWN, opcodes - KNOWN
snapshot = pickle.loads(data)
assert set(snapshot) == {"segments", "device_traces"}
(segment,), (events,) = snapshot["segments"], snapshot["device_traces"]

live, most, before = {}, 0, 0
categories = {e["category"] for e in events}
assert "unknown" in categories and "activations" in categories, categories
for i, e in enumerate(events):
    assert e["time_us"] >= before and e["stream"] == 0 and all(set(f) == {"name", "filename", "line"} for f in e["frames"])
    before = e["time_us"]
    end = e["addr"] + e["size"]
    if e["action"] == "alloc":
        assert e["addr"] >= segment["address"] and end <= segment["address"] + segment["total_size"] and e["frames"]
        assert all(end <= a or b <= e["addr"] for a, b in live.items()), e
        live[e["addr"]] = end
        most = max(most, sum(b - a for a, b in live.items()))
    elif e["action"] == "free_completed":
        assert live.pop(e["addr"]) == end
    else:
        assert e["action"] in ("free_requested", "segment_alloc"), e
        assert e["action"] != "segment_alloc" or (i == 0 and e["size"] == segment["total_size"])
        assert e["action"] != "free_requested" or live[e["addr"]] == end

at, held = segment["address"], {}
for b in segment["blocks"]:
    assert b["address"] == at and b["size"] > 0
    if b["state"] == "active_allocated":
        held[at] = at + b["size"]
    at += b["size"]
assert at == segment["address"] + segment["total_size"]
assert held == live and segment["allocated_size"] == sum(b - a for a, b in held.items())

try:
    import torch.cuda._memory_viz as viz
except ImportError:
    print("note  no PyTorch here to read the snapshot too", file=sys.stderr)
else:
    assert "total_allocated: " in viz.segsum(snapshot)
    assert "TOTAL MEM: " in viz.trace(snapshot)
    assert "Active Memory Timeline" in viz.trace_plot(snapshot)
print(len(events), most, segment["total_size"])
