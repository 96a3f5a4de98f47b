#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain generate and eval say of golden models what transformers does, where that is installed.
. "$(dirname "$0")/../check.sh"

test_golden_models_are_asked_alike() {
  local file
  for file in "$srcdir"/test/golden/*/model.safetensors; do
    expect_run 0 python3 "$srcdir/test/e2e/asked_hf.py" "$hpctrain" "${file%/*}"
    grep '^note' out || expect_out '^asked alike'
  done
}

check_main "$@"
