#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Folders of other programs on GPUs: test/gpu/check_folders.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   golden models imported, trained and exported: losses are a CPU's, and what comes out has the loss of the run that it came from
. "$(dirname "$0")/gpu_case.sh"

make_tokens 3000
steps=8
eval_loss() { sed -nE 's/.*"type":"eval".*"loss":([^,}]+).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
same_loss() { # A B: of evaluations
  awk -v a="$(eval_loss "$1")" -v b="$(eval_loss "$2")" 'BEGIN { d = a - b; printf "told : %s, %s\n", a, b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-6 * a) }'
}
rest=data.val_fraction=0.05
for model in $models; do
  judge "$model is imported" "$hpctrain" import "$golden/$model" "$model"
  write_run "from: $model" 64 $steps 16 4 "checkpoint: {every: $steps steps}" "eval: {every: $steps steps}"
  judge "$model on a CPU" run_on 1 $rest device.kind=cpu run.folder="$model-cpu"
  for np in $each; do
    judge "$model on $np GPUs" run_on "$np" $rest run.folder="$model-$np"
    judge "$model on $np GPUs: losses are a CPU's" close "$model-cpu" "$model-$np" 1e-4 $steps
  done
  judge "$model, trained by GPUs, is exported" "$hpctrain" export "$model-$most" "$model.hf"
  judge "$model: a run from that" run_on 1 $rest model.from="$model.hf" train.lr=1e-12 train.duration=1steps train.warmup=0steps \
    eval.every=1steps run.folder="$model-back"
  judge "$model: it has the loss of the one before" same_loss "$model-$most" "$model-back"
done
exit $failed
