# SPDX-License-Identifier: Apache-2.0
# What tests of comparisons with PyTorch share: a peer that is played.  Sourced after test/check.sh.

# A peer that runs out of memory with micro-batches of 4.
play_python() {
  cat > python << 'END'
#!/bin/bash
[ "$1" = -c ] && { echo 2.11.0; exit; }
echo "$*" >> "$PLAY/calls"
case "$*" in *"--batch 4 "*) echo 'torch.OutOfMemoryError: CUDA out of "memory"' >&2; exit 1 ;; esac
echo "a warning"
echo 'PEER {"system": "torch", "step_ms": 10.0, "tok_s_gpu": 100, "first_step_s": 1.25, "peak_gib": 0.5, "loss": 1.0}'
END
  chmod +x python
  touch peer.py
}
