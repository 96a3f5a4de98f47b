#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# memory.offload on GPUs: test/gpu/check_offload.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   each kind, on one GPU and on all: the losses of the same run without, to the last bit; tokens a second beside them
#   and with all, updated by the host's cores
#   with a CUDA graph and without, and a run that goes on with what is offloaded back on the GPU, and the other way round
. "$(dirname "$0")/gpu_case.sh"

make_tokens 4000
write_run 'preset: llama-5m' 256 12 32 2 'precision: {compute: bf16}' 'memory: {recompute: block}' 'checkpoint: {every: 6 steps}'
speed() { # RUN_FOLDER: of the last step
  sed -nE 's/.*"type":"step".*"tokens_per_second":([0-9.e+]+).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}
same() { # A B: losses, to the last bit
  [ -n "$(losses "$1")" ] && cmp <(losses "$1") <(losses "$2") && echo "told : $(speed "$1") tokens/s, $(speed "$2") offloaded"
}

all=moments,masters,gradients,inputs
for ranks in $each; do
  judge "$ranks: nothing offloaded" run_on "$ranks" run.folder="$ranks"
  for what in moments masters gradients inputs $all; do
    judge "$ranks: $what" run_on "$ranks" run.folder="$ranks-$what" "memory.offload=[$what]"
    judge "$ranks: $what: the same bits" same "$ranks" "$ranks-$what"
  done
  judge "$ranks: all, kernel by kernel" run_on "$ranks" run.folder="$ranks-slow" "memory.offload=[$all]" gpu.graph=false
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-slow"
  judge "$ranks: all, updated by the host" run_on "$ranks" run.folder="$ranks-host" "memory.offload=[$all]" memory.optimizer=host
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-host"
  judge "$ranks: half a run updated by the host" run_on "$ranks" run.folder="$ranks-host2" "memory.offload=[$all]" memory.optimizer=host train.stop_after=6steps
  judge "$ranks: ... and half on the GPU" run_on "$ranks" run.folder="$ranks-host2"
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-host2"
  judge "$ranks: half a run offloaded" run_on "$ranks" run.folder="$ranks-turns" "memory.offload=[$all]" train.stop_after=6steps
  judge "$ranks: ... and half on the GPU" run_on "$ranks" run.folder="$ranks-turns"
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-turns"
  judge "$ranks: half a run on the GPU" run_on "$ranks" run.folder="$ranks-back" train.stop_after=6steps
  judge "$ranks: ... and half offloaded" run_on "$ranks" run.folder="$ranks-back" "memory.offload=[$all]"
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-back"
done
mkdir files
judge "moments in files" run_on 1 run.folder=1-files memory.offload=moments memory.offload_folder=files
judge "... the same bits" same 1 1-files
judge "moments of 16 bits" run_on 1 run.folder=brief precision.moments=bf16
judge "... updated by the host" run_on 1 run.folder=brief-host precision.moments=bf16 "memory.offload=[$all]" memory.optimizer=host
judge "... the same bits" same brief brief-host
judge "fp32, nothing recomputed" run_on 1 run.folder=fp32 precision.compute=fp32 memory.recompute=none
judge "... offloaded" run_on 1 run.folder=fp32-off precision.compute=fp32 memory.recompute=none "memory.offload=[moments,gradients,inputs]"
judge "... the same bits" same fp32 fp32-off
exit $failed
