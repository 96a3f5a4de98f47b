# SPDX-License-Identifier: Apache-2.0
# export_hf.py FOLDER REFERENCE.safetensors: loads the model with transformers and compares its logits with the reference's.
import sys

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"note  {missing.name} is not installed: nobody but hpctrain has read the export")
    sys.exit(0)

folder, path = sys.argv[1:]
reference = load_file(path)
model, info = AutoModelForCausalLM.from_pretrained(
    folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
)
wrong = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]]
if wrong:
    sys.exit(f"{folder}: {wrong[0]}: {sorted(map(str, info[wrong[0]]))[:3]}")
with torch.no_grad():
    logits = model(reference["input_ids"]).logits.double()
want = reference["logits"].double().reshape(logits.shape)
off = float((logits - want).norm() / want.norm())
if not off <= 2e-5:
    sys.exit(f"{folder}: logits are {off:.2e} off, more than 2e-5")
print(f"logits {off:.2e}")
