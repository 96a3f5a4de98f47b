#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain plan: what it tells is what a run does; what is wrong is told before a job starts.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

plan() { expect_run "$1" "$hpctrain" plan t.yaml "${@:2}"; }

test_a_plan_tells_all() {
  write_run
  plan 0 --ranks 2
  expect_equal "$(sed -n 's/^\([a-z][a-z]*\) .*/\1/p' out | tr '\n' ' ')" 'device model params batch fits time moves disk data '
  expect_out '^batch  12 x 16 = 192 tokens = 2 ranks x 6 x 1 pass$'
  expect_out '^data .*; 10 steps, [0-9.]+ epochs$'
  expect_run 0 "$hpctrain" plan
  expect_out '^model  demo '
}

# Both in bytes: the plan's parts, which are rounded, and what the run says of its arena.
test_memory_is_what_the_run_allocates() {
  local strategy planned allocated
  write_run
  for strategy in no_shard full_shard; do
    plan 0 --ranks=2 parallel.strategy=$strategy train.micro_batch_size=2
    planned=$(sed -n 's/^fits   \([0-9.]*\) MiB.*/\1/p' out)
    train 2 run.folder=$strategy parallel.strategy=$strategy train.micro_batch_size=2 train.stop_after=1steps run.debug=[mem]
    allocated=$(sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' out)
    expect_equal "$planned" "$(awk -v n="$allocated" 'BEGIN { printf "%.1f", n / 1048576 + 8 }')" # and the process itself
  done
}

# In PyTorch's format; its segment is what the run would allocate.
test_a_picture_of_memory_needs_no_run() {
  write_run
  plan 0 --ranks 2 parallel.strategy=full_shard train.micro_batch_size=2 --memory-snapshot picture.pickle
  expect_out '^wrote  picture\.pickle: [0-9]+ steps '
  expect_run 2 "$hpctrain" plan t.yaml --memory-snapshot=
  command -v python3 > /dev/null || { echo "note  skipped: no python3" >&2; return 0; }
  read -r _ _ total < <(python3 "$srcdir/test/cli/snapshot.py" picture.pickle)
  train 2 parallel.strategy=full_shard train.micro_batch_size=2 train.stop_after=1steps run.debug=[mem]
  expect_equal "$total" "$(sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' out)"
}

test_checkpoints_have_the_planned_size() {
  local planned
  write_run
  plan 0
  planned=$(sed -n 's/^disk   checkpoint \([^;]*\);.*/\1/p' out)
  train 1 train.stop_after=1steps
  expect_out "^ckpt +1  $planned in "
}

test_full_shard_divides_the_states() {
  write_run
  cat > 7b.yaml << 'END'
hpctrain: 1
run: {name: 7b}
model: {preset: llama2-7b}
data: {train: data.bin}
train: {seq_len: 128, duration: 1000 steps, global_batch_size: 64 sequences, lr: 3e-4, schedule: constant}
END
  expect_run 0 "$hpctrain" plan 7b.yaml parallel.strategy=full_shard --ranks 64
  expect_out '^       activations .* parameters 0.4, moments 0.8, other 0.0$'
  expect_out '^moves  gathers 5[0-9.]* GB, reductions 26[0-9.]* GB a step and rank$'
  expect_run 0 "$hpctrain" plan 7b.yaml parallel.strategy=full_shard precision.moments=bf16 --ranks 64
  expect_out '^       activations .*, parameters 0.4, moments 0.4, other 0.0$'
}

# The run file of jobs/, on the node that a user may have and on few and many.
test_the_large_run_file_is_accepted() {
  local data ranks
  "$hpctrain" tokenize data.bin "$srcdir/LICENSE" > /dev/null
  data="data.train=data.bin data.val=data.bin run.folder=runs/llama7b"
  for ranks in 1 8 64 256; do
    # shellcheck disable=SC2086
    expect_run 0 "$hpctrain" plan "$srcdir/jobs/llama7b.yaml" --ranks $ranks $data
    expect_out '^model  llama2-7b 6.74B parameters'
    expect_out "^batch  1024 x 4096 = 4.19M tokens = $ranks rank"
    expect_out '; 476837 steps, '
  done
  expect_run 2 "$hpctrain" plan "$srcdir/jobs/llama7b.yaml" --ranks 8 # without data the rest is told
  expect_out '^(fits|short|memory) '
}

test_presets_have_the_size_of_their_name() {
  local preset count
  write_run
  sed -i '/^model/d' t.yaml
  while read -r preset count; do
    plan 0 model.preset="$preset"
    expect_out "^model  $preset ${count}M parameters"
    "$hpctrain" help preset | grep -q " $preset[,]*" || { echo "help does not name $preset" >&2; return 1; }
  done << 'END'
llama-5m 5.0[0-9]
llama-10m 10.8
llama-124m 124
END
}

test_mpi_is_not_started() {
  write_run
  export OMPI_MCA_pml=none
  plan 0 --ranks 4
}

test_what_is_wrong_is_told_before_a_job_starts() {
  write_run
  plan 2 --ranks 5
  expect_err 'global_batch_size does not split'
  plan 0 train.schedule=wsd train.decay=8steps
  plan 2 train.schedule=wsd train.decay=9steps
  expect_err "^error: a warmup of 2 and a decay of 9 steps are more than the run's 10$"
  plan 2 data.train=none.bin
  expect_err 'none.bin'
  expect_out '^fits ' # the rest is told all the same
  truncate -s -1 data.bin
  plan 2
  expect_err 'data.bin'
  plan 2 --ranks 0
  expect_err '^error: --ranks wants a number'
  plan 2 --ranks
}

test_weights_unlike_the_config_are_told() {
  write_run
  cp -r "$srcdir/test/golden/llama2" a
  chmod -R u+w a
  sed -i '/^model/d' t.yaml
  plan 0 model.from=a
  plan 2 model.from=a train.seq_len=4096
  expect_err '^error: seq_len is 4096, the model is made for at most'
  cp "$srcdir/test/golden/llama-headdim/model.safetensors" a
  plan 2 model.from=a
  expect_err '^error: a/model.safetensors: .* is .*, the model.s config wants '
}

# --- on GPUs that are not there -----------------------------------------------------------------------------------------------

write_7b() {
  write_run
  cat > t.yaml << 'END'
hpctrain: 1
run: {name: 7b}
model: {preset: llama2-7b}
data: {train: data.bin}
train: {seq_len: 4096, duration: 1000 steps, global_batch_size: 64 sequences, micro_batch_size: 8, lr: 3e-4, schedule: constant}
precision: {compute: bf16}
END
}

# As large in fewer blocks, which takes less time to plan.
write_wide() {
  write_7b
  sed -i -e '/^train/s/, micro_batch_size: 8//' -e 's/^model.*/model: {vocab_size: 32000, hidden_size: 8192, num_hidden_layers: 6, num_attention_heads: 64, num_key_value_heads: 8, intermediate_size: 28672}/' t.yaml
}

test_time_and_cost_on_a_gpu() {
  write_7b
  plan 0 --gpu h200 --ranks 8 train.micro_batch_size=2
  expect_equal "$(sed -n 's/^\([a-z][a-z]*\) .*/\1/p' out | tr '\n' ' ')" 'model params batch fits time moves run disk data '
  expect_out '^fits   [0-9.]+ of 140.4 GiB, peak in backward of layers.31, '
  expect_out '^time   [0-9.]+ s/step, [0-9.]+k tok/s/GPU \(within 15 %\), MFU [0-9.]+ % causal, [0-9.]+ % full$'
  expect_out '^       products [0-9.]+, attention [0-9.]+, .*exposed gathers '
  expect_out '^moves .* a step and rank, [0-9]+ % hidden$'
  expect_out '^run    [^,]*, [0-9.]+ GPU-hours, done 20[-0-9]+ '
  plan 0 device.kind=cuda # of no known kind
  expect_out '^memory [0-9.]+ GiB a rank, peak in '
  expect_out '^time   -: '
  plan 0 --gpu=cpu --ranks 8 model.preset=llama-5m train.seq_len=64
  expect_out '^time   -: CPUs differ'
}

# What is unknown is named.
test_times_that_nobody_knows_are_told_as_such() {
  local all='memory.offload=[moments,masters,gradients]'
  write_wide
  plan 0 --gpu h200 --ranks 8 train.micro_batch_size=1 precision.compute=fp32
  expect_out '^time   -: attention of 32 bits'
  plan 0 --gpu h200 --ranks 8 train.micro_batch_size=1 "$all" memory.offload_folder=.
  expect_out '^time   -: how fast files are'
  plan 0 --gpu h200 --ranks 8 train.micro_batch_size=1 "$all" memory.optimizer=host
  expect_out '^time   -: how fast the host updates'
  ! grep -qE '^run |tok/s' out
}

# suggestions_hold WORD…: the plan of a run that does not fit; each suggestion that is taken, keys left out as it says, makes it fit with
# the bytes that it promised.
suggestions_hold() {
  local line word words without less
  plan 0 "$@"
  expect_out '^short  '
  sed -nE '/^help /,/^[a-z]/ { s/^(help  |      ) ([^ ].* GiB less.*)$/\2/p }' out > suggestions
  [ -s suggestions ]
  planned=$(planned_gib)
  while read -r line; do
    read -ra words <<< "$(sed -E 's/ +[0-9.]+ GiB less.*//' <<< "$line")"
    without=$(sed -n 's/.*, without //p' <<< "$line")
    less=$(sed -E 's/.* ([0-9.]+) GiB less.*/\1/' <<< "$line")
    for word in "$@"; do
      case " ${words[*]} $without " in *" ${word%%=*}="* | *" ${word%%=*} "*) ;; *) words+=("$word") ;; esac
    done
    plan 0 "${words[@]}"
    expect_out '^fits '
    awk -v planned="$planned" -v now="$(planned_gib)" -v less="$less" -v what="$line" 'BEGIN {
      off = planned - now - less
      if (off > 0.16 || off < -0.16) { print what ": planned " planned ", then " now; exit 1 } }' >&2
  done < suggestions
}
# Of the newest plan, the driver's part included.
planned_gib() {
  sed -nE 's/^(fits  |short  .*:) ([0-9.]+) of .*/\2 0/p; s/^short  .*: ([0-9.]+) GiB planned.*/\1 1/p; s/.* driver and libraries ([0-9.]+),.*/\1/p' out |
    awk 'NF == 2 { planned = $1; beside = $2 } NF == 1 { planned += beside * $1 } END { print planned }'
}

test_suggestions_hold() {
  write_wide
  suggestions_hold --gpu h100 --ranks=4 train.micro_batch_size=8
  expect_equal "$(grep -cE '%|as fast' suggestions)" "$(wc -l < suggestions)"
  # what auto comes to, of as many bytes as there are and of fewer
  suggestions_hold --gpu h100 --ranks=2 memory.recompute=auto train.micro_batch_size=1 parallel.strategy=no_shard
  suggestions_hold --gpu h200 --ranks=2 'memory.recompute={auto: 40GiB}' train.micro_batch_size=2
  # keys that another strategy has no use for
  suggestions_hold --gpu h100 --ranks=8 --gpus-per-node=2 parallel.strategy=hybrid_shard parallel.hybrid_optimizer=replicate parallel.shard_degree=2 \
    train.micro_batch_size=4
  grep -q '^parallel\.strategy=full_shard .*, without parallel\.shard_degree parallel\.hybrid_optimizer$' suggestions
}

# What is offloaded stays so; only bf16 has masters.
test_suggestions_add_to_what_is_offloaded() {
  write_wide
  plan 0 --gpu h100 --ranks 1 train.micro_batch_size=2 'memory.offload=[inputs]' memory.recompute=block
  expect_out '^(help|    ) .*memory\.offload=\[moments,masters,inputs\] '
  ! grep -qE 'memory\.offload=[^ ]*(moments|gradients|masters)\] ' out
  plan 0 --gpu h100 --ranks 1 train.micro_batch_size=1 precision.compute=fp32 memory.recompute=block
  expect_out '^(help|    ) .*memory\.offload=\[moments,gradients\] '
  ! grep -q masters out
}

# A gradient of attention with the same bits in every run keeps something for each pair of positions.
test_long_sequences_are_told_what_their_gradient_takes() {
  write_7b
  sed -i -e 's/^model.*/model: {preset: llama3.1-8b}/' -e 's/^data.*/data: {train: data.bin, dtype: uint16}/' t.yaml
  head -c 300000 /dev/zero > data.bin
  suggestions_hold --gpu h200 --ranks=64 parallel.strategy=full_shard memory.recompute=block train.seq_len=131072 train.micro_batch_size=1 \
    'train.global_batch_size=64 sequences'
  grep -qE '^gpu\.attention=cudnn-fast .*, other bits in every run$' suggestions
}

# Where no change is enough, several together are.
test_changes_are_combined() {
  write_wide
  plan 0 --gpu a100 --ranks 1 train.micro_batch_size=16
  expect_out '^help   [a-z_.]+=[^ ]* [a-z_.]+=[^ ]* .* GiB less, [0-9.]+ % slower$'
  plan 0 --gpu a100 --ranks 1 train.micro_batch_size=1 memory.recompute=block
  expect_out '^short '
}

test_a_sweep_marks_the_fastest_that_fits() {
  write_wide
  plan 0 --gpu h100 --ranks 8 --sweep
  expect_out '^  full_shard .*k$'  # it fits, whoever is faster
  expect_equal "$(grep -c ' best$' out)" 1
  expect_out '^  no_shard .* short$'
  # the table's first row is the best, and what does not fit comes last
  sed -n '/^  strategy/,/^[a-z]/p' out | sed '1d;$d' | awk '/short$/ { short = 1; next } short || /GiB .*k.*best$/ && NR > 1 { exit 1 }'
  sed -i '/^model/d' t.yaml
  plan 0 --sweep run.name=x model.preset=llama-5m train.seq_len=64
  ! grep -q ' best$' out # nobody knows how fast
}

# By the seconds that processors were busy: the machine may be, too.
test_the_largest_model_is_planned_at_once() {
  local TIMEFORMAT='%U %S'
  write_7b
  { time plan 0 --gpu h100 --ranks 16384 model.preset=llama3.1-405b train.seq_len=8192 train.global_batch_size=16384sequences \
    train.micro_batch_size=1 2> said; } 2> spent
  expect_out '^model  llama3.1-405b 406B parameters'
  expect_out '^short '
  expect_out '^help   memory.recompute=auto .* slower$'
  awk -v most=$((10 * slowdown)) '{ print "note  " $1 + $2 " s"; exit !($1 + $2 < most) }' spent >&2
}

test_recompute_auto_that_cannot_fit_is_planned_all_the_same() {
  write_wide
  plan 0 --gpu h100 --ranks 1 memory.recompute=auto
  expect_err '^warn   memory.recompute: auto: .* short, .*; planned as block$'
  expect_out '^short '
  expect_out '^help '
  plan 0 --gpu h100 --ranks 8 memory.recompute=auto
  expect_out '^       memory.recompute: auto is '
  expect_out '^fits '
}

# One measure of what fits: where auto finds nothing, neither does the plan.
test_auto_and_the_plan_agree_on_what_fits() {
  local ranks
  write_7b
  for ranks in 16 1024; do # of one node: the more there are, the less each has
    plan 0 --gpu cpu --ranks $ranks memory.recompute=auto model.preset=llama-5m train.seq_len=64 parallel.strategy=no_shard \
      train.global_batch_size=1024sequences train.micro_batch_size=1
    expect_equal "$(grep -c '^short' out)" "$(grep -c 'planned as block' err)"
  done
  expect_out '^short '
  write_wide
  plan 0 --gpu h200 --ranks 8 train.micro_batch_size=1 'memory.recompute={auto: 5GiB}'
  expect_out '^short  [0-9.]+ GiB: [0-9.]+ GiB planned, 5\.0 GiB allowed by memory\.recompute, peak in '
  expect_err '^warn   memory.recompute: auto: .* 5\.0 GiB allowed: .* short, .*; planned as block$'
}

test_a_folder_for_files_is_looked_at() {
  write_run
  mkdir files
  plan 0 --ranks 2 memory.offload=moments memory.offload_folder=files
  expect_out '^disk   offloaded moments of a node [0-9.]+ kB; [0-9.]+ .B free for files$'
  plan 0 --ranks 2 memory.offload=moments memory.offload_folder=data.bin # which may be a folder on nodes
  expect_out '^disk   offloaded moments of a node [0-9.]+ kB; here data\.bin is no folder \(.*\): every node must have it$'
}

test_a_sweep_leaves_out_what_other_strategies_have_no_use_for() {
  write_wide
  plan 0 --gpu h100 --ranks 8 parallel.units_alive=1 --sweep
  expect_equal "$(grep -c 'without parallel\.units_alive$' out)" 9
  expect_equal "$(grep -c 'no use' out)" 0
}

test_words_about_gpus_are_checked() {
  write_7b
  plan 2 --gpu h300
  expect_err "^error: --gpu: no GPU is known by the name 'h300'$"
  expect_err '^help: h200, .*a100, b200, cpu$'
  plan 2 --gpu h200 --ranks 12 --gpus-per-node 8
  expect_err '^error: 12 ranks are no whole number of nodes with 8 GPUs$'
  plan 2 --gpu h200 device.kind=cpu
  expect_err '^error: --gpu h200 and device.kind=cpu$'
  plan 2 --gpu h200 --ranks 5
  expect_err 'global_batch_size does not split'
  plan 2 --gpus-per-node 0
  expect_err '^error: --gpus-per-node wants a number'
}

check_main "$@"
