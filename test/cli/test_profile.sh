#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# profile.steps and hpctrain profile from the command line.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

test_a_profile_changes_no_bits() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b profile.steps=3-5
  expect_out '^note  steps 3-5 are recorded: hpctrain profile b; traces of ranks in b/profile$'
  expect_same a b
  [ ! -e a/profile ]
}

# Kinds, programs and items are three ways to cut the same time.
test_tables_add_up_to_the_step() {
  write_run
  train 2 profile.steps=3-5 train.micro_batch_size=2
  expect_run 0 "$hpctrain" profile run --rank 1 --rows 1000
  expect_out '^profile  3 steps, 3 to 5; 2 ranks; '
  expect_out '^  products +'
  expect_out '^rank 1, by item$'
  expect_out ' products: matmul '
  awk '
    /^rank/ { part = $NF }
    part == "" && $1 == "step" { step = $4; ranks = $3 }
    part == "" && / [0-9.]+ +[0-9.]+ +[0-9.]+ +[01] +[0-9.]+$/ && $1 != "step" { kinds += $(NF - 3) }
    part == "program" && $1 != "ms/step" && NF > 2 && $1 != "rank" { programs += $2; n++ }
    part == "item" && $1 + 0 > 0 { items += $1 }
    function off(a, b) { return a > b + 0.02 ? (a - b) / a : b > a + 0.02 ? (b - a) / b : 0 } # rows are rounded to 0.001
    END {
      if (off(kinds, ranks) > 0.01 || off(items, programs) > 0.01 || items > 1.01 * step + 0.02 || n < 3) {
        print "avg " ranks ", kinds " kinds, programs " programs ", items " items" > "/dev/stderr"
        exit 1
      }
    }' out
}

test_traces_are_json_with_every_step() {
  write_run
  train 2 profile.steps=3-5 eval.every=4steps checkpoint.every=4steps
  command -v python3 > /dev/null || { echo "note  skipped: no python3" >&2; return 0; }
  python3 - run/profile << 'END'
import json, sys
for rank in range(2):
    with open(f"{sys.argv[1]}/rank-{rank:05}.json") as f:
        trace = json.load(f)
    assert trace["distributedInfo"] == {"backend": "mpi", "rank": rank, "world_size": 2}
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert all(e["pid"] == rank and e["dur"] >= 0 for e in events)
    names = {e["name"] for e in events}
    for name in ("ProfilerStep#3", "ProfilerStep#5", "data", "metrics", "checkpoint", "eval"):
        assert name in names, name
    steps = {e["name"]: e for e in events if e["name"].startswith("ProfilerStep#")}
    assert sorted(steps) == [f"ProfilerStep#{n}" for n in (3, 4, 5)]
    items = [e for e in events if "step" in e["args"]]
    assert len({(e["args"]["program"], e["args"]["step"]) for e in items if e["args"]["program"] != "eval"}) * 3 == sum(
        e["args"]["program"] != "eval" for e in items)
    inside = [s for s in steps.values() for e in items if s["ts"] <= e["ts"] + 0.01 and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 0.01]
    assert len(inside) == sum(e["args"]["program"] != "eval" for e in items)
END
}

# Trace, snapshot and table are three pictures of one plan.
test_memory_is_pictured() {
  local most total
  write_run
  train 2 profile.steps=3-4 train.micro_batch_size=2 parallel.strategy=full_shard run.debug=[mem]
  command -v python3 > /dev/null || { echo "note  skipped: no python3" >&2; return 0; }
  read -r _ most total < <(python3 "$srcdir/test/cli/snapshot.py" run/profile/memory.pickle)
  expect_equal "$total" "$(sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' out)"
  for rank in 0 1; do
    expect_equal "$most" "$(python3 -c '
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "C"]
print(max(sum(e["args"].values()) for e in events))' run/profile/rank-0000$rank.json)"
  done
  expect_run 0 "$hpctrain" profile run
  expect_out "^rank 0, memory: $(awk -v n="$total" 'BEGIN { printf "%.3f", n / 1048576 }') MiB planned, most of it in use in .*, in micro"
  expect_out '^ +[0-9.]+  moments      2 of m/layers\.\* '
}

test_one_step_and_a_resumed_run() {
  write_run
  train 1 train.stop_after=5steps profile.steps=2
  "$hpctrain" profile run > out
  expect_out '^profile  1 step, 2 to 2; 1 rank; '
  train 1 profile.steps=2
  expect_out '^note  profile.steps: 2 and those before are done, none is recorded$'
  train 1 run.folder=other train.stop_after=3steps profile.steps=3-6
  "$hpctrain" profile other > out
  expect_out '^profile  1 step, 3 to 3; '
}

test_what_cannot_be_is_refused() {
  write_run
  local bad
  for bad in 3-11 11; do
    fails 2 1 profile.steps=$bad
    expect_err 'the run ends with step 10'
    expect_run 2 "$hpctrain" plan t.yaml profile.steps=$bad
    expect_err 'the run ends with step 10'
  done
  expect_run 2 "$hpctrain" plan t.yaml train.duration=1000steps profile.steps=1-101
  expect_err 'at most 100 steps are recorded'
  for bad in 5-3 0 0-3 a 1- -3 1.5 3-4-5 3,4; do expect_run 2 "$hpctrain" config t.yaml profile.steps=$bad; done
  expect_run 0 "$hpctrain" config t.yaml profile.steps=7
  expect_out '^  steps: 7 '
  expect_run 0 "$hpctrain" config t.yaml "profile.steps=3 - 4"
  expect_out '^  steps: 3-4 '
  expect_run 2 "$hpctrain" profile
  expect_run 2 "$hpctrain" profile nowhere
  expect_err 'profile.steps=10-12 records steps of a run'
  train 2 profile.steps=2
  expect_run 2 "$hpctrain" profile run --rank 2
  expect_run 2 "$hpctrain" profile run --rows none
  sed -i 's/^steps.*/steps	1	2	2/' run/profile/rank-00001.tsv
  expect_run 2 "$hpctrain" profile run
  expect_err 'record the profile again'
}

check_main "$@"
