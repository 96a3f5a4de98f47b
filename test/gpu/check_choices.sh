#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Choices and errors on GPUs: test/gpu/check_choices.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   run.tune measures, records, and a resume keeps its bits; gpu.attention; device.kind: auto
#   too many ranks, no GPU, no memory: told, with what to do
# The sequences are 200 long, so that attention's gradient is padded where cuDNN wants it.
. "$(dirname "$0")/gpu_case.sh"

judge_error() { # NAME PATTERN COMMAND…: fails, and says so; what it says is shown
  "${@:3}" > out 2>&1
  local status=$?
  [ $status -ne 0 ] && grep -q -e "$2" out
  verdict $? "$1"
  sed -n '/^error/,/^help/s/^/    | /p' out | head -n 12
}

make_tokens 4000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: gpu, folder: gpu}
model: {vocab_size: 256, hidden_size: 512, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,
        intermediate_size: 1408}
data: {train: tokens.bin, tokenizer: bytes}
train: {seq_len: 200, duration: 20 steps, global_batch_size: 16 sequences, micro_batch_size: 4, lr: 1e-3, schedule: cosine, warmup: 5 steps}
precision: {compute: bf16}
checkpoint: {every: 10 steps}
END
train() { timeout 200 "$hpctrain" run.yaml "$@"; }

judge "device.kind: auto takes a GPU" train
judge "... and says so" grep -q '^note  device.kind: auto is cuda: ' gpu/log.txt
judge "... and run.yaml does" grep -qE '^  kind: cuda +# auto' gpu/run.yaml
CUDA_VISIBLE_DEVICES= judge "auto without a GPU is a CPU" train run.folder=cpu train.stop_after=1steps
judge "... and says so" grep -q '^note  device.kind: auto is cpu: CUDA: no CUDA-capable device' cpu/log.txt

judge "the memory in use is told" grep -qE '^memory   allocated: .* in use on GPU [0-9]+ .* by context, NCCL, libraries' gpu/log.txt
judge "... at each step" grep -qE '"type":"step".*"beside_gib":0\.[0-9]' gpu/metrics.jsonl
judge "... and at the end, beside the plan" grep -qE '^memory +at the peak [0-9.]+ GiB on rank 0 \([0-9.]+ planned, [+-]0 MiB; [0-9.]+ of context' gpu/log.txt

judge "run.tune measures" train run.folder=tuned run.tune=true
judge "... and records products and attention" eval \
  '[ $(grep -c "^gpu .* matmul .* cublaslt:algo" tuned/attempts/1/choices.txt) -gt 3 ] && grep -q " attention_grad .* cudnn:engine" tuned/attempts/1/choices.txt'
sed 's/^\(gpu [^ ]* [a-z_]*\) .* \([^ ]*\)$/    | \1 \2/' tuned/attempts/1/choices.txt | sort | uniq -c
judge "losses with measured choices are those of the fixed rule" close tuned gpu 2e-2 20
judge "a measured run begins" train run.folder=again run.tune=true train.stop_after=10steps
judge "... and goes on by its record" train run.folder=again
judge "... which is the same" cmp again/attempts/1/choices.txt again/attempts/2/choices.txt
judge "losses of a resumed and a straight run by one record agree" close again tuned 2e-2 20

for attention in cudnn cudnn-fast plain; do
  judge "gpu.attention: $attention" train run.folder=$attention gpu.attention=$attention
  judge "... whose losses are those of auto" close $attention gpu 2e-2 20
done
judge "gpu.attention: cudnn is what auto takes here" cmp <(losses cudnn) <(losses gpu)
judge_error "cuDNN's attention in float32 is refused" 'takes bf16 and f16' train run.folder=x gpu.attention=cudnn precision.compute=fp32
judge "run.debug: sync" train run.folder=sync run.debug=[sync]
judge "... changes nothing" cmp <(losses sync) <(losses gpu)

CUDA_VISIBLE_DEVICES= judge_error "no GPU to be seen" '^help: run on a node' train run.folder=x device.kind=cuda
judge_error "more ranks than GPUs" "$((gpus + 1)) ranks on node" timeout 100 mpirun --oversubscribe -np $((gpus + 1)) "$hpctrain" run.yaml \
  run.folder=x train.global_batch_size="$((4 * (gpus + 1))) sequences" device.kind=cuda
timeout 100 "$hpctrain" run.yaml run.folder=holder train.duration=100000steps checkpoint.every=100000steps > holder.log 2>&1 &
holder=$!
for _ in $(seq 50); do grep -q '^step' holder.log && break || sleep 0.5; done
judge_error "no memory, with who else holds some" 'GiB free of [0-9.]* on GPU' train run.folder=x train.global_batch_size="65536 sequences" \
  train.micro_batch_size=65536
cp out said
judge "... and who would hold what here" grep -qE '^ +[0-9.]+ GiB  (activations|gathered|workspace) ' said
judge "... and what to do" grep -q '^help: .*memory.recompute: block' said
kill $holder
wait $holder 2> /dev/null
exit $failed
