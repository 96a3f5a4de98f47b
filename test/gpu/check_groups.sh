#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Parameters by name on GPUs: test/gpu/check_groups.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   in fp32 and bf16: losses are a CPU's, on one GPU and on all, with some parameters whole; frozen ones keep their bits
. "$(dirname "$0")/gpu_case.sh"

make_tokens 2000
write_run 'preset: llama-5m' 64 8 16 2 'checkpoint: {every: 4 steps}'
groups='train.groups=[{match: "*norm*", weight_decay: 0.5, lr_factor: 3}, {match: ["*layers.0.*", "*down*", "*embed*"], trainable: false}]'

# Name and checksum of each frozen parameter: FOLDER STEP.
frozen() {
  tr -d ' \n' < "$1/checkpoints/step-0000000$2/manifest.json" | grep -oE '"/model/[^{]*\{[^}]*\}' |
    sed -nE 's|^"/model/([^"]*)".*"crc32c":"([0-9a-f]*)".*|\1 \2|p' | grep -E 'layers\.0\..*proj|down|embed'
}

judge "on a CPU" run_on 1 "$groups" device.kind=cpu run.folder=cpu
for precision in fp32 bf16; do
  tolerance=$([ $precision = fp32 ] && echo 1e-4 || echo 2e-2)
  judge "$precision on a GPU" run_on 1 "$groups" precision.compute=$precision run.folder=$precision
  judge "$precision: losses are a CPU's" close cpu $precision "$tolerance" 8
  judge "$precision: frozen parameters keep their bits" cmp <(frozen $precision 4) <(frozen $precision 8)
  judge "$precision: there are frozen parameters" test "$(frozen $precision 8 | wc -l)" -gt 8
  judge "$precision on $most, some whole" run_on "$most" "$groups" precision.compute=$precision run.folder=many-$precision 'parallel.ignore=["*norm*", lm_head.weight]'
  judge "$precision: losses are one's" close $precision many-$precision "$tolerance" 8
done
exit $failed
