# SPDX-License-Identifier: Apache-2.0
# A run that goes on from each of its checkpoints on other ranks, by another strategy, under another launcher.  Sourced after
# test/check.sh.
. "$srcdir/test/cli/train_case.sh"

# Launchers of N ranks.
by_mpirun() { mpi "$@"; }
alone() { shift; "$@"; }

# chain WORDS LEG…: a run of two steps a leg, in ./run; a leg is "LAUNCHER N STRATEGY" or "LAUNCHER N hybrid_shard DEGREE".  The same
# without a stop, by two ranks, is in ./straight.
chain() {
  local words="cpu.compiler=none $1" steps=0 leg launcher n strategy degree
  shift
  write_run
  sed -i "s/10 steps/$((2 * $#)) steps/" t.yaml
  train 2 $words run.folder=straight
  for leg in "$@"; do
    steps=$((steps + 2))
    read -r launcher n strategy degree <<< "$leg"
    expect_run 0 "$launcher" "$n" timeout $((120 * slowdown)) "$hpctrain" t.yaml $words train.stop_after=${steps}steps \
      parallel.strategy="$strategy" ${degree:+parallel.shard_degree="$degree"}
    [ $steps = 2 ] || expect_out "^resume   run/checkpoints/step-$(printf %08d $((steps - 2))), verified"
  done
}

expect_same_losses() {
  chain "" "$@"
  expect_close run straight
}

# At a rate that moves no weight, loss and gradient norm of a step tell which sequences it is of: no two steps have the same.
expect_same_data() {
  chain train.lr=1e-30 "$@"
  expect_close run straight 1e-6
  paste -d ' ' <(numbers run) <(numbers straight) | awk '
    function far(a, b) { return (a - b) ^ 2 > 1e-9 * b ^ 2 }
    far($3, $6) { print "step " $1 ": gradient norm " $3 ", " $6; bad = 1 }
    { for (i = 1; i < NR; i++) if (!far($2, loss[i]) && !far($3, norm[i])) { print "steps " i " and " NR " look alike"; bad = 1 } }
    { loss[NR] = $2; norm[NR] = $3 }
    END { exit bad }' >&2
}
