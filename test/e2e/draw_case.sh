# SPDX-License-Identifier: Apache-2.0
# Runs that are drawn: at each leg other parameters are trained, on other ranks, by another strategy, offloaded or not, updated by the
# host or not; beside them the same legs on one rank without any of that.  Sourced after test/check.sh.
. "$srcdir/test/cli/train_case.sh"

pick() { # WORD…: one of them, in $picked
  shift $((RANDOM % $#))
  picked=$1
}

# What is trained, in $groups.
draw_groups() {
  pick '' '{match: "*mlp*", trainable: false}' '{match: "*attn*", trainable: false}, {match: "*norm*", weight_decay: 0.5, lr_factor: 3}' \
    '{match: ["*embed*", lm_head.weight], trainable: false}' '{match: "*layers.0.*", trainable: false}' '{match: "*", lr_factor: 0.5}'
  groups="train.groups=[$picked]"
}

# On what, in $ranks and $words; with bf16 the host may update.
draw_way() {
  pick 1 2 2 3 4 && ranks=$picked
  pick no_shard shard_opt shard_grad_op full_shard full_shard hybrid_shard && words=("parallel.strategy=$picked")
  case $picked in
    hybrid_shard)
      pick 1 "$ranks" $((ranks == 4 ? 2 : 1)) && words+=("parallel.shard_degree=$picked")
      pick shard replicate && words+=("parallel.hybrid_optimizer=$picked")
      ;;
    full_shard) pick whole shard && words+=("parallel.accumulate=$picked") ;;
  esac
  [ "${words[0]}" = parallel.strategy=no_shard ] || { pick '' '*norm*' '*.1.*' && words+=(${picked:+"parallel.ignore=$picked"}); }
  pick none cheap block && words+=("memory.recompute=$picked")
  pick 1 2 && words+=("train.micro_batch_size=$picked")
  if [ "$1" = bf16 ]; then
    pick none moments all host host host
  else
    pick none moments gradients
  fi
  case $picked in
    all) words+=('memory.offload=[moments,masters,gradients,inputs]') ;;
    host) words+=('memory.offload=[moments,masters,gradients]' memory.optimizer=host) ;;
    moments | gradients) words+=("memory.offload=[$picked]") ;;
  esac
  pick cpu cpu apart && words+=("device.kind=$picked")
  case "${words[*]}" in *=host* | *apart*) picked=cc ;; *) pick none cc ;; esac
  words+=("cpu.compiler=$picked")
}

# drawn SEED: three legs of three steps; losses are those of one rank.
drawn() {
  RANDOM=$1
  local leg precision tolerance groups ranks words
  pick fp32 bf16 bf16 && precision=$picked
  tolerance=$([ "$precision" = fp32 ] && echo 2e-5 || echo 1e-2)
  write_run
  sed -i 's/10 steps/9 steps/; s/12 sequences/24 sequences/' t.yaml # which all numbers of ranks divide
  for leg in 3 6 9; do
    draw_groups
    draw_way "$precision"
    echo "seed $1, to step $leg: $ranks ranks, $precision, $groups ${words[*]}" >&2
    train "$ranks" run.folder=drawn precision.compute="$precision" train.stop_after=${leg}steps checkpoint.every=3steps "$groups" "${words[@]}"
    train 1 run.folder=plain precision.compute="$precision" train.stop_after=${leg}steps checkpoint.every=3steps "$groups" cpu.compiler=none
  done
  expect_close plain drawn "$tolerance"
}
