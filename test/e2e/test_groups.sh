#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Parameters by name: frozen, at their own learning rate or decay, kept whole; and weights from files whose names or shapes differ.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/../cli/train_case.sh"

# sums FOLDER STEP KIND PATTERN: name and checksum of each tensor in /KIND that the pattern (of grep -E) fits, by name.
sums() {
  states "$1" "$2" | sed -nE "s|^\"/$3/([^\"]*)\".*\"crc32c\":\"([0-9a-f]*)\".*|\1 \2|p" | grep -E -e "$4" | sort
}
states() { tr -d ' \n' < "$1/checkpoints/step-$(printf %08d "$2")/manifest.json" | grep -oE '"/(model|optim|state)/[^{]*\{[^}]*\}'; }

# moved FOLDER A B PATTERN: how many parameters that the pattern fits have changed between two steps, of how many.
moved() {
  join <(sums "$1" "$2" model "$4") <(sums "$1" "$3" model "$4") | awk '{ n++; moved += $2 != $3 } END { print moved + 0 " of " n + 0 }'
}

# In a model's folder m: the golden model, whose tensors have other names of the same length.
write_renamed() {
  cp -r "$srcdir/test/golden/llama2" m
  chmod -R u+w m
  LC_ALL=C sed -i 's/"model\./"tower./g; s/"lm_head\./"my_head./' m/model.safetensors
  sed -i '/^model/d' t.yaml
}
# The interpreter starts faster than a compiler.
plain=cpu.compiler=none
renamed='model.rename=[{from: "tower.*", to: "model.*"}, {from: my_head.weight, to: lm_head.weight}]'

test_frozen_parameters_keep_their_bits_and_have_no_moments() {
  local compute
  write_run
  for compute in fp32 bf16; do
    train 2 run.folder=$compute precision.compute=$compute checkpoint.every=5steps \
      'train.groups=[{match: ["*mlp*", model.embed_tokens.weight], trainable: false}]'
    expect_out '^params +[0-9.]+k: trained [0-9.]+k, frozen [0-9.]+k$'
    expect_out '^group +7 tensors, [0-9.]+k: \*mlp\* model\.embed_tokens\.weight; frozen$'
    expect_equal "$(moved $compute 5 10 'mlp|embed')" '0 of 7'
    expect_equal "$(moved $compute 5 10 'attn|norm|head')" '14 of 14'
    expect_equal "$(sums $compute 10 optim/m . | wc -l) $(sums $compute 10 optim/v 'mlp|embed' | wc -l)" '14 0'
  done
}

test_groups_give_the_same_losses_on_any_ranks() {
  local n groups='train.groups=[{match: "*norm*", weight_decay: 0.5, lr_factor: 3}, {match: "*layers.0*", trainable: false}]'
  write_run
  for n in 1 2 3; do train $n run.folder=$n $plain parallel.ignore='*norm*' "$groups"; done
  train 2 run.folder=no parallel.strategy=no_shard "$groups"
  train 2 run.folder=passes $plain train.micro_batch_size=2 "$groups"
  train 2 run.folder=block $plain memory.recompute=block "$groups"
  for n in 2 3 no passes block; do expect_close 1 $n; done
  train 1 run.folder=without $plain
  ! expect_close 1 without 2> other
}

test_half_the_learning_rate_of_all_is_half_the_learning_rate() {
  write_run
  train 2 $plain run.folder=a 'train.groups=[{match: "*", lr_factor: 0.5}]'
  train 2 $plain run.folder=b train.lr=5e-3
  expect_equal "$(numbers a)" "$(numbers b)"
  expect_equal "$(states a 10)" "$(states b 10)"
}

test_a_decay_of_all_is_that_of_the_run() {
  write_run
  train 2 $plain run.folder=a 'train.groups=[{match: "*", weight_decay: 0}]'
  train 2 $plain run.folder=b train.weight_decay=0
  expect_equal "$(states a 10)" "$(states b 10)"
  train 2 $plain run.folder=c 'train.groups=[{match: "*norm*", weight_decay: 0}, {match: "*", weight_decay: 2}]'
  train 2 $plain run.folder=d train.weight_decay=2
  expect_close c d # the run's is on matrices alone
  ! expect_close b d 2> other
}

test_parameters_kept_whole_change_no_losses() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b 'parallel.ignore=[model.embed_tokens.weight, "*.0.*norm*"]'
  expect_out '^params +[0-9.]+k: trained all, whole on every rank 8\.26k$'
  expect_close a b
}

test_groups_may_change_in_a_run() {
  write_run
  train 2 $plain train.stop_after=4steps 'train.groups=[{match: "*mlp*", trainable: false}]'
  train 3 $plain train.stop_after=8steps 'train.groups=[{match: "*attn*", trainable: false}]'
  expect_out '^note  trained from here on, with zero moments: model\.layers\.0\.mlp\.gate_proj\.weight, .* and 3 more$'
  expect_out '^note  frozen from here on: model\.layers\.0\.self_attn\.q_proj\.weight, .* and 5 more$'
  expect_equal "$(moved run 4 8 attn) $(moved run 4 8 mlp)" '0 of 8 6 of 6'
  train 1 $plain
  expect_out '^note  trained from here on, with zero moments: model\.layers\.0\.self_attn'
  expect_equal "$(moved run 8 10 .)" '21 of 21'
}

test_what_is_renamed_is_the_same() {
  write_run
  write_renamed
  train 2 $plain run.folder=a model.from="$srcdir/test/golden/llama2"
  expect_out '^weights +.*/llama2: 21 tensors$'
  train 2 $plain run.folder=b model.from=m "$renamed"
  expect_out '^weights +m: 21 tensors, 21 renamed$'
  expect_equal "$(states a 10)" "$(states b 10)"
  train 3 $plain run.folder=c model.from=m "$renamed" train.stop_after=5steps
  rm -r m/model.safetensors
  train 1 $plain run.folder=c model.from=m "$renamed" # a run that goes on reads no weights
  expect_close a c
}

test_what_is_fresh_or_skipped() {
  local frozen='train.groups=[{match: lm_head.weight, trainable: false}]'
  write_run
  write_renamed
  train 2 $plain run.folder=a model.from=m 'model.rename=[{from: "tower.*", to: "model.*"}]' model.skip='my_*' model.fresh=lm_head.weight "$frozen"
  expect_out '^weights +m: 20 tensors, 20 renamed, 1 skipped; fresh: lm_head\.weight$'
  train 3 $plain run.folder=b model.config=m "$frozen"
  expect_equal "$(sums a 10 model head)" "$(sums b 10 model head)"
  sed -i 's/"vocab_size": 320/"vocab_size": 336/' m/config.json
  train 2 $plain run.folder=c model.from=m "$renamed" 'model.fresh=[lm_head.weight, "*embed*"]'
  expect_out '^weights +m: 19 tensors, 21 renamed; fresh: model\.embed_tokens\.weight, lm_head\.weight$'
}

test_a_plan_tells_what_a_run_tells() {
  write_run
  write_renamed
  local words=(model.from=m "$renamed" 'parallel.ignore=*norm*'
    'train.groups=[{match: "*mlp*", trainable: false}, {match: "*up*"}, {match: "*norm*", weight_decay: 0}]')
  expect_run 0 "$hpctrain" plan t.yaml --ranks 2 "${words[@]}"
  expect_err "^warn   train\.groups: all that '\*up\*' names \(argument [0-9]\) is of groups before it$"
  grep -E '^(params|group|loads)' out | sed -E 's/^[a-z]+ +//' > planned
  train 2 $plain "${words[@]}"
  expect_err "^warn   train\.groups: all that '\*up\*' names \(argument [0-9]\) is of groups before it$"
  grep -E '^(params|group|weights)' out | sed -E 's/^[a-z]+ +//' | diff planned -
}

# refused PATTERN HELP WORD…: by the plan and by a run alike, before there is an attempt.
refused() {
  expect_run 2 "$hpctrain" plan t.yaml model.from=m "${@:3}"
  expect_err "$1"
  fails 2 2 $plain model.from=m "${@:3}"
  expect_err "$1"
  expect_err "^help: $2"
  [ ! -e run/attempts/1 ]
}

test_what_names_nothing_or_two_things_is_refused() {
  write_run
  write_renamed
  local keys='.*for model\.rename, model\.fresh and model\.skip$'
  refused "^error: train\.groups: '\*nrom\*' fits no parameter of the model$" "did you mean 'norm'" 'train.groups=[{match: "*nrom*"}]'
  refused "^error: parallel\.ignore: 'x\*y' fits no parameter" 'such are model' 'parallel.ignore=x*y'
  refused '^error: all parameters are frozen' 'trainable: true' 'train.groups=[{match: "*", trainable: false}]'
  refused "^error: m/model\.safetensors: the model has no tensor 'my_head\.weight' \(nor 20 more\)$" "$keys"
  refused "^error: m has no tensor 'model\.norm\.weight', which the model needs$" "$keys" "$renamed" 'model.skip=tower.norm.weight'
  refused "^error: model\.skip: 'twoer\.\*' fits no tensor of m$" "did you mean 'tower'" "$renamed" 'model.skip=twoer.*'
  refused "^error: model\.rename: 'model\.\*' fits no tensor of m$" '' 'model.rename=[{from: "model.*", to: "x.*"}]'
  refused "^error: model\.fresh: 'my_head\*' fits no parameter of the model$" '' "$renamed" 'model.fresh=my_head*'
  refused "^error: model\.rename: 'my_head\.weight' and 'tower\.norm\.weight' both come to be 'model\.norm\.weight'$" 'another pattern' \
    'model.rename=[{from: "tower.*", to: "model.*"}, {from: my_head.weight, to: model.norm.weight}]'
  sed -i 's/"vocab_size": 320/"vocab_size": 336/' m/config.json
  refused "^error: m/model\.safetensors: 'tower\.embed_tokens\.weight' is 320x64, the model's config wants 336x64$" "$keys" "$renamed"
}

check_main "$@"
