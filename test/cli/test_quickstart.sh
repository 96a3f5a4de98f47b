#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# jobs/quickstart.sh with few steps: five lines with seconds, text at the end; run again, a run goes on or makes way.
. "$(dirname "$0")/../check.sh"

quickstart() { BUILD=$builddir STEPS=$1 expect_run 0 "$srcdir/jobs/quickstart.sh" quickstart; }

test_five_steps_end_in_text() {
  quickstart 4
  expect_equal "$(grep -cE '^\[[1-5]/5\]' out)" 5
  expect_equal "$(grep -cE '^(\[[1235]/5\]| .* below order-0).* [0-9]+\.[0-9] s$' out)" 5
  expect_out 'kB of English, order-0 entropy [0-9.]+ bits/byte'
  expect_out '^ +step +4 '
  expect_out '^ +[0-9.]+ bits/byte on text it has not seen, -?[0-9]+ % below order-0 '
  expect_out '^      And the king said'
  expect_out '^next '
}

test_run_again_it_goes_on_or_begins_anew() {
  mkdir quickstart
  "$hpctrain" tokenize quickstart/english.bin <(bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //') > /dev/null
  (cd quickstart && mpi 2 "$hpctrain" "$srcdir/jobs/quickstart.yaml" train.duration=3steps train.stop_after=2steps > /dev/null)
  quickstart 3
  expect_out '^      resume .*step-00000002'
  quickstart 3
  expect_out 'the run that was there is complete and makes way'
  expect_out '^ +step +1 '
}

check_main "$@"
