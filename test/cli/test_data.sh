#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a run makes of its data: mixtures, documents that are kept apart.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

plain=cpu.compiler=none

# Two sources, one of them so small that it comes several times.
write_mixture() {
  write_run
  head -c 600 "$srcdir/LICENSE" | tr a-z A-Z > small
  "$hpctrain" tokenize small.bin small > /dev/null
  sed -i 's/train: data.bin/train: [{path: data.bin, weight: 0.7}, {path: "sm*.bin", weight: 0.3}]/' t.yaml
}

test_a_mixture_is_the_same_for_any_ranks_micro_batch_and_resume() {
  write_mixture
  train 1 $plain run.folder=one
  train 3 $plain run.folder=three train.micro_batch_size=2
  expect_close one three
  train 1 $plain run.folder=again train.stop_after=4steps
  train 1 $plain run.folder=again
  expect_same one again
  train 1 $plain run.folder=other 'data.train=[{path: data.bin, weight: 7}, {path: small.bin, weight: 4}]'
  [ "$(numbers one)" != "$(numbers other)" ]
}

test_each_source_is_told_with_its_epochs_and_when_it_repeats() {
  write_mixture
  local small='30 % of sm\*\.bin: 600 tokens, [0-9.]+ epochs, repeats from step [0-9]+$'
  train 1 $plain
  expect_out '^data +70 % of data\.bin: 11\.4k tokens, 0\.[0-9]+ epochs$'
  expect_out "^data +$small"
  expect_out '^eval +10  val-1 '
  expect_out '^eval +10  val-2 '
  expect_run 0 "$hpctrain" plan t.yaml
  expect_out "^ +$small"
}

test_a_mixture_may_be_told_otherwise_but_not_be_another() {
  write_mixture
  train 1 $plain train.stop_after=2steps
  train 1 $plain train.stop_after=3steps 'data.train=[{path: data.bin, weight: 7}, {path: "sm*.bin", weight: 3}]'
  fails 2 1 $plain 'data.train=[{path: data.bin, weight: 7}, {path: "sm*.bin", weight: 4}]'
  expect_err '^error: the mixture cannot change in a run: the checkpoint has 7/10 of [0-9]+ sequences, 3/10 of 33 sequences, now it is 7/11 of '
  fails 2 1 $plain 'data.train=[data.bin, "sm*.bin"]'
  expect_err '^error: the (number of sequences|mixture).* cannot change in a run'
  fails 2 1 $plain 'data.train=[{path: data.bin, weight: 7}, {path: data.bin, weight: 3}]'
  expect_err '^error: the number of tokens in data.train cannot change in a run'
  train 1 $plain train.stop_after=4steps 'data.train=[{path: data.bin, weight: 7}, {path: small.bin, weight: 3}]' # the same file
}

test_what_is_wrong_with_a_source_is_told_with_its_line() {
  write_mixture
  sed -i 's/sm\*/none*/' t.yaml
  fails 2 1
  expect_err '^error: none\*\.bin: no such file$'
  expect_err '^ --> t\.yaml:4:[0-9]+$'
  fails 2 1 'data.train=[{path: data.bin, weight: 1}, {path: small.bin}]'
  expect_err "^error: 'data.train' has weights for some of its items only$"
  fails 2 1 'data.train=[{path: data.bin, weight: 1}, {path: small.bin, weight: 1e-8}]'
  expect_err '^error: its weight is less than'
  fails 2 1 'data.train=[{path: data.bin, weight: 1}, {path: small.bin, weight: 0}]'
  expect_err "^error: 'data.train' has an item whose 'weight' is out of range$"
}

test_documents_apart_are_the_same_for_any_ranks_micro_batch_and_resume() {
  write_run
  local apart='data.packing=true data.document_end=10'
  train 1 $plain run.folder=one $apart
  train 3 $plain run.folder=three $apart train.micro_batch_size=2
  expect_close one three
  train 1 $plain run.folder=again $apart train.stop_after=4steps
  train 1 $plain run.folder=again $apart
  expect_same one again
  fails 2 1 $plain run.folder=again
  expect_err '^error: data\.packing cannot change in a run: the checkpoint has true, now it is false$'
  train 1 run.folder=compiled $apart
  expect_close one compiled 1e-4
  train 1 $plain run.folder=across
  [ "$(numbers one)" != "$(numbers across)" ]
}

test_packing_wants_to_know_where_documents_end() {
  write_run
  fails 2 2 $plain data.packing=true
  expect_err '^error: nothing tells where documents end$'
  expect_run 2 "$hpctrain" plan t.yaml data.packing=true
  expect_err '^error: nothing tells where documents end$'
  fails 2 1 $plain data.packing=true data.document_end=256
  expect_err '^error: the vocabulary ends at 255$'
  fails 2 1 $plain data.document_end=10
  expect_err "^error: 'data.document_end' has no use here$"
  sed -i '/^model/d' t.yaml
  fails 2 1 $plain data.packing=true data.document_end=10 model.config="$srcdir/test/golden/gpt2"
  expect_err '^error: the positions of gpt2 count from the start of the sequence$'
}

# The first id of a document is no label of the one before.
test_an_evaluation_of_which_nothing_counts_is_told_once_and_is_no_number() {
  write_run
  local n=$((($(stat -c %s data.bin) - 1024) / 2))
  { head -c $((n * 8 / 10)) /dev/zero | tr '\0' '\1' && head -c $((n - n * 8 / 10)) /dev/zero | tr '\0' '\3'; } > data.mask
  train 2 $plain data.packing=true train.duration=2steps eval.every=1steps
  expect_equal "$(grep -c '^warn .*val: no loss, none of its 496 tokens counts$' err out | awk -F: '{ n += $2 } END { print n }')" 1
  expect_equal "$(grep -c '"eval"' run/metrics.jsonl)" 0
  expect_equal "$(grep -c 'nan' out run/metrics.jsonl | awk -F: '{ n += $2 } END { print n }')" 0
}

check_main "$@"
