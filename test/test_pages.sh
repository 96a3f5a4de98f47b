#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pages name files, keys, commands and flags that are there, and test/pages.sh would see it if they did not.
. "$(dirname "$0")/check.sh"

# helps: what `hpctrain help COMMAND` prints, a file a command, in ./help.
helps() {
  local name
  mkdir help
  for name in $("$hpctrain" --help | sed -nE 's/^  (before|during|after|inspect|) +([a-z]+)  .*/\2/p'); do
    "$hpctrain" help "$name" > "help/$name"
  done
  [ -s help/plan ]
}

test_what_pages_name_is_there() {
  helps
  expect_run 0 "$srcdir/test/pages.sh" "$PWD/help" "$srcdir"
}

test_run_files_of_pages_are_read() {
  { echo 'hpctrain: 1'; sed -n '/^## Parameters by name/,/^Patterns/s/^    //p' "$srcdir/README.md"; } > readme.yaml
  grep -q '^train:' readme.yaml
  expect_run 0 "$hpctrain" config readme.yaml data.train=a.bin train.seq_len=8 train.duration=1steps \
    train.global_batch_size=1sequences train.lr=1e-3 train.schedule=constant
  expect_run 0 "$hpctrain" config "$srcdir/jobs/llama7b.yaml"
  expect_run 0 "$hpctrain" config "$srcdir/jobs/quickstart.yaml"
}

# A page that is sound, and one with a line more of which the checker says so.
test_what_is_not_there_is_told() {
  helps
  mkdir -p tree/doc tree/src/base tree/io tree/kernels tree/jobs tree/test/bench tree/test/fuzz
  cp "$srcdir/doc/keys.md" tree/doc
  touch tree/test/run.sh tree/test/runner.sh tree/configure.ac
  echo '"--sweep"' > tree/src/base/a.c
  {
    echo '# A page'
    echo '`src/base/a.c` and `a.c`, `train.lr`, [here](#a-page), `hpctrain plan --sweep`, src/nowhere.c in prose, `plan.yaml`'
    echo
    echo '    mpirun -np 2 hpctrain check run.yaml train.lr=1     # nosuch.c in a comment'
  } > page
  cp page tree/README.md
  expect_run 0 "$srcdir/test/pages.sh" "$PWD/help" tree
  while IFS='|' read -r line told; do
    { cat page; echo; echo "$line"; } > tree/README.md
    expect_run 1 "$srcdir/test/pages.sh" "$PWD/help" tree
    expect_equal "$(cat out)" "README.md: $told"
  done << 'END'
`src/base/b.c`|there is no src/base/b.c
see `b.c`|no file is called b.c
[x](doc/none.md)|a link leads to doc/none.md, which is not there
[x](#b-page)|no heading for the link to #b-page
`train.lrr` is|there is no key train.lrr
    hpctrain run.yaml train.lrr=1|there is no key train.lrr
    mpirun -np 2 hpctrain trian run.yaml|there is no command trian
`hpctrain trian`|there is no command trian
END
  cp page tree/README.md
  echo '# train.lrr is' > tree/jobs/a.slurm
  expect_run 1 "$srcdir/test/pages.sh" "$PWD/help" tree
  expect_equal "$(cat out)" 'jobs/a.slurm: there is no key train.lrr'
  rm tree/jobs/a.slurm
  { cat page; echo; echo '    hpctrain plan --swep'; } > tree/README.md
  expect_run 1 "$srcdir/test/pages.sh" "$PWD/help" tree
  expect_out '^README.md: hpctrain plan knows no  *--swep$'
}

check_main "$@"
