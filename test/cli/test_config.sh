#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command line of hpctrain, config and help.
. "$(dirname "$0")/../check.sh"

test_help_lists_commands_and_exit_codes() {
  expect_run 0 "$hpctrain" --help
  expect_out '^usage: \[mpirun -np N\] hpctrain \[COMMAND\] \[RUN.yaml\] \[section.key=value ...\]$'
  expect_out '^  before +config  '
  expect_out '^exit: 0 done.* 2 your input; 3 this machine; 4 rank lost'
}

test_help_knows_sections_keys_and_names_elsewhere() {
  expect_run 0 "$hpctrain" help train
  expect_out '^\* duration +2T tokens, 5000 steps, 3 epochs'
  expect_out '^  micro_batch_size .*default: auto$'
  expect_run 0 "$hpctrain" help lr
  expect_out '^  values     0 < lr <= 1$'
  expect_run 0 "$hpctrain" help learning_rate
  expect_out '^train.lr: '
  expect_run 0 "$hpctrain" help config
  expect_out '^usage: hpctrain config '
  expect_out '^model.config: '
  expect_run 2 "$hpctrain" help shcedule
  expect_err "did you mean 'schedule'"
}

test_every_command_has_help() {
  local word
  local words
  words=$("$hpctrain" --help | sed -nE 's/^  (before|during|after|inspect|) +([a-z]+)  .*/\2/p')
  grep -qx train <<< "$words" && grep -qx config <<< "$words"
  for word in $words; do
    expect_run 0 "$hpctrain" help "$word"
    expect_out "^usage: .*hpctrain $word"
    mv out by_help
    expect_run 0 "$hpctrain" "$word" --help
    cmp out by_help
    expect_run 0 "$hpctrain" "$word" -h
    cmp out by_help
  done
}

test_a_word_without_meaning_is_an_error() {
  expect_run 2 "$hpctrain" cnofig
  expect_err "'cnofig' is no command"
  expect_err "did you mean 'config'"
  expect_run 2 "$hpctrain" config nonsense
  expect_err "argument 1: nonsense"
  expect_run 2 "$hpctrain" config --nonsense
  expect_run 2 "$hpctrain" config a.yaml b.yaml
  expect_err 'a run takes one run file'
}

test_all_ranks_tell_a_wrong_word_once() {
  local words
  for words in 'run.yml.old' 'verify one' 'config --nonsense'; do
    expect_run 2 mpi 3 "$hpctrain" $words
    expect_equal "$(grep -c '^error:' err)" 1
  done
}

test_a_missing_run_file_is_an_error() {
  expect_run 2 "$hpctrain" config missing.yaml
  expect_err 'cannot read run file missing.yaml: No such file or directory'
  mkdir hpctrain.yaml
  expect_run 2 "$hpctrain" config
  expect_err 'cannot read run file hpctrain.yaml: Is a directory'
}

test_a_model_for_the_demo_is_told_where_to_go() {
  expect_run 2 "$hpctrain" config model.from=models/mine
  expect_err "'model.from' says it too"
  expect_err '^help: the demo has a model of its own; a run file for yours: hpctrain config --new'
}

test_a_run_file_has_at_most_256_KiB() {
  truncate -s 1G large.yaml
  expect_run 2 "$hpctrain" config large.yaml
  expect_err 'run file large.yaml has 1073741824 bytes; at most 262144 are read'
  expect_err 'a pattern, such as "data/\*.bin", names many data files'
}

test_the_starter_file_works() {
  "$hpctrain" config --new > hpctrain.yaml
  expect_run 0 "$hpctrain" config train.lr=0.01
  expect_out '^  lr: 0.01 +# shell$'
  expect_out '^  schedule: cosine +# file$'
}

test_the_resolved_file_resolves_to_itself() {
  "$hpctrain" config run.folder=x > a.yaml
  expect_run 0 "$hpctrain" config a.yaml
  expect_equal "$(sed 's/ *#.*//' out)" "$(sed '1d;s/ *#.*//' a.yaml)"
}

test_errors_come_all_at_once_with_status_2() {
  printf 'hpctrain: 1\ntrain:\n  learning_rate: 3e-4\n  seq_len: many\n' > bad.yaml
  expect_run 2 "$hpctrain" config bad.yaml cpu.threads=none
  expect_err '^error: unknown key .train.learning_rate.$'
  expect_err '^ --> bad.yaml:3:3$'
  expect_err "^  \|   \^\^\^\^\^\^\^\^\^\^\^\^\^ called 'lr' here$"
  expect_err '^error: .train.seq_len. wants a whole number$'
  expect_err '^error: 5 required keys are missing$'
  expect_err '^  --> argument 2: cpu.threads=none$'
  expect_equal "$(grep -c ^error: err)" 4
}

test_what_a_misspelt_name_means_is_not_told_of_as_missing() {
  "$hpctrain" config --new > good.yaml
  for change in 's/^train:/trian:/' 's/^  seq_len:/  seqlen:/' 's/^  lr:/  learning_rate:/'; do
    sed "$change" good.yaml > bad.yaml
    expect_run 2 "$hpctrain" config bad.yaml
    expect_equal "$(grep -c ^error: err)" 1
    expect_err '^error: unknown '
  done
  sed '/^  lr:/d' good.yaml > bad.yaml
  expect_run 2 "$hpctrain" config bad.yaml train.learning_rate=1e-3
  expect_equal "$(grep -c ^error: err)" 1
}

test_words_that_other_programs_take_are_told_how_they_are_written_here() {
  "$hpctrain" config --new > good.yaml
  expect_run 2 "$hpctrain" config good.yaml --learning-rate 1 --lr 1 --train.seq_len=8
  expect_err "\^ neither a run file"
  expect_err "\^ keys have no dashes: train.lr=VALUE$"
  expect_err "\^ keys have no dashes: train.seq_len=VALUE$"
  expect_run 2 "$hpctrain" config good.yaml train.duration=5 steps
  expect_err "\^ if it belongs to the word before it: quotes around both"
}

test_the_locale_changes_nothing() {
  "$hpctrain" config train.lr=0.25 > plain
  localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 2> /dev/null || echo "note  no locale with a decimal comma on this machine" >&2
  LOCPATH=$PWD LC_ALL=de_DE.UTF-8 expect_run 0 "$hpctrain" config train.lr=0.25
  expect_equal "$(cat out)" "$(cat plain)"
}

test_the_page_of_keys_is_up_to_date() {
  "$hpctrain" config --doc > keys.md
  diff "$srcdir/doc/keys.md" keys.md || {
    echo "doc/keys.md is old: hpctrain config --doc > doc/keys.md" >&2
    return 1
  }
}

test_a_full_disk_under_the_output_is_told() {
  [ -w /dev/full ] || return 0
  local status=0
  "$hpctrain" config --doc > /dev/full 2> err || status=$?
  expect_equal "$status" 3
  expect_err 'cannot write to standard output'
}

check_main "$@"
