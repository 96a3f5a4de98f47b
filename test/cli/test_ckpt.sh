#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain ckpt: what a run has saved, told, checked, compared and copied without MPI.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# Steps 2 and 4 of two ranks in ./run: trained once, for all tests.
make_run() {
  write_run
  [ -d "$XDG_CACHE_HOME/run" ] || train 2 run.folder="$XDG_CACHE_HOME/run" train.stop_after=4steps checkpoint.every=2steps
  cp -r "$XDG_CACHE_HOME/run" run
}

ckpt() { expect_run 0 "$hpctrain" ckpt "$@"; }

test_ls_tells_every_step() {
  make_run
  ckpt ls run
  expect_equal "$(wc -l < out)" 2
  expect_out '^step-00000002    384 tokens  [0-9. ]+ kB  loss [0-9]\.[0-9]{3}$'
  expect_out '^step-00000004    768 tokens  [0-9. ]+ kB  loss [0-9]\.[0-9]{3}  newest$'
  truncate -s -1 run/checkpoints/step-00000002/model.h5
  : > run/checkpoints/step-00000004/manifest.json
  ckpt ls run/checkpoints
  expect_out '^step-00000002  damaged: .*model\.h5: [0-9]+ bytes, manifest [0-9]+$'
  expect_out '^step-00000004  damaged: .*manifest\.json'
}

test_show_tells_who_wrote_it_and_what_is_in_it() {
  make_run
  ckpt show run
  expect_equal "$(head -n 1 out)" 'step-00000004, by 2 ranks full_shard, loads on any'
  expect_out '^  model\.embed_tokens\.weight +256x32 +fp32, m fp32, v fp32$'
  expect_out '^  model\.norm\.weight +32 +fp32, m fp32, v fp32$'
  expect_out '^  /state/step +scalar +i64$'
  expect_out '^  /run/config +[0-9]+ bytes +text$'
  ckpt show run/checkpoints/step-00000002/
  expect_out '^step-00000002, by 2 ranks'
}

test_verify_names_what_is_damaged() {
  make_run
  ckpt verify run
  expect_out '^ok: [0-9]+ datasets, [0-9.]+ kB, [0-9]+\.[0-9] s$'
  local file=run/checkpoints/step-00000004/model.h5
  printf 'XXXX' | dd of=$file conv=notrunc bs=1 seek=$(($(stat -c %s $file) / 2)) status=none
  expect_run 2 "$hpctrain" ckpt verify run
  expect_out '^damaged  /[a-z]+/.*, checksum [0-9a-f]{8}, manifest [0-9a-f]{8}$'
  expect_err '^error: run/checkpoints/step-00000004: 1 of [0-9]+ datasets damaged$'
  ckpt verify run/checkpoints/step-00000002
  rm $file
  expect_run 2 "$hpctrain" ckpt verify run
  expect_err '^error: run/checkpoints/step-00000004 damaged: .*model\.h5: No such file'
}

test_diff_tells_which_tensors_and_by_how_much() {
  make_run
  ckpt diff run run/checkpoints/step-00000004
  expect_out '^same: [0-9]+ datasets, by their checksums$'
  expect_run 1 "$hpctrain" ckpt diff run/checkpoints/step-00000002 run
  expect_out '^changed   /model/model\.norm\.weight  32 of 32 elements, by [0-9.e-]+ at most, relative [0-9.e-]+$'
  expect_out '^changed   /state/step  1 of 1 elements, by 2 at most, relative 1$'
  expect_out '^[0-9]+ of [0-9]+ datasets differ$'
}

# A copy is a checkpoint: it is found as one, and a run goes on from it.
test_a_copy_goes_on_like_its_source() {
  make_run
  ckpt copy run archive
  expect_out '^copied run/checkpoints/step-00000004 to archive: [0-9]+ datasets, .* verified'
  ckpt diff run archive
  ckpt ls archive
  expect_run 3 "$hpctrain" ckpt copy run archive
  expect_err '^error: .*archive/step-00000004 is there already'
  train 1 checkpoint.resume=archive run.folder=b train.stop_after=6steps
  expect_out '^resume   archive/step-00000004, verified$'
}

test_words_that_are_none() {
  expect_run 2 "$hpctrain" ckpt
  expect_run 2 "$hpctrain" ckpt lss run
  expect_err "^help: did you mean 'ls'"
  expect_run 2 "$hpctrain" ckpt diff run
  expect_err '^error: usage: hpctrain ckpt diff FOLDER FOLDER'
  make_run
  expect_run 2 "$hpctrain" ckpt copy run ''
  expect_err '^error: ckpt copy: a folder has no name$'
  expect_run 2 "$hpctrain" ckpt copy run run/checkpoints/step-00000002
  expect_err "^error: run/checkpoints/step-00000002 is a step's folder$"
  mkdir empty
  local word
  for word in ls show verify; do
    expect_run 2 "$hpctrain" ckpt $word empty
    expect_err '^error: empty: no checkpoint there'
  done
}

check_main "$@"
