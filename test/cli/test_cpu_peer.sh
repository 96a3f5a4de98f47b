#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The comparison with PyTorch reads what both sides print; both are played here.
. "$(dirname "$0")/../check.sh"

# A hpctrain that is told its speeds: the first steps are slow, one of the others has none.
play_hpctrain() {
  cat > hpctrain << 'END'
#!/bin/bash
[ "$1" = --version ] && { echo "hpctrain 0.1 (abc)"; exit; }
[ "$1" = train ] && cp "$2" "$PLAY/seen.yaml"
run=$(sed -n 's/^run:.*folder: \(.*\)}/\1/p' "$2")
data=$(sed -n 's/^data: {train: \([^,]*\),.*/\1/p' "$2")
[ "$(stat -c %s "$data")" = 131072 ] || exit 9
mkdir "$run"
threads=$(sed -n 's/^cpu: {threads: \(.*\)}/\1/p' "$2")
[ -e "$XDG_CACHE_HOME" ] && start=0.4 || start=3.2
mkdir -p "$XDG_CACHE_HOME"
echo "mpi      1 rank"
echo "ready    $start s: mpi 0.1"
for i in 1 2 3 4; do echo '{"type":"step","step":'$i',"tokens_per_second":100,"memory_gib":0.1,"time":1}'; done
for i in 5 7; do echo '{"type":"step","step":'$i',"tokens_per_second":'$((threads * 3000 + i * 100 - 600))'.5,"memory_gib":0.25,"time":1}'; done
echo '{"type":"step","step":8,"tokens_per_second":null,"memory_gib":0.25,"time":1}'
echo '{"type":"save","step":8,"bytes":1}'
END
  sed -i 's|^for i in 1 2|exec > "$run/metrics.jsonl"\n&|' hpctrain
  chmod +x hpctrain
}

play_python() {
  cat > python << 'END'
#!/bin/bash
[ "$1" = -c ] && { [ -n "$TORCH" ] && echo "$TORCH"; exit; }
[ "$3" = 1 ] && rate=1500 || rate=2000
[ "${8-}" = --compile ] && rate=$((2 * rate))
echo "a warning"
echo 'PEER {"system": "torch-cpu", "step_ms": 10.0, "tok_s": '$rate', "first_step_s": 1.25, "peak_mib_above_start": 512, "loss": -1.0}'
END
  chmod +x python
}

compare() { PLAY=$PWD HPCTRAIN=./hpctrain PYTHON=./python ROUNDS=${ROUNDS-1} "$srcdir/test/bench/cpu_peer.sh" "$@"; }

test_both_sides_are_read_and_compared() {
  play_hpctrain
  play_python
  touch peer.py
  TORCH=2.11.0 ROUNDS=2 expect_run 0 compare peer.py
  expect_out '^systems  hpctrain 0.1 \(abc\); PyTorch 2.11.0$'
  expect_out '^1 +ours +3000 +- +256 +- +-$'
  expect_out '^1 +eager +1500 +2.00 +512 +0.50 +1.25$'
  expect_out '^1 +compiled +3000 +1.00 +512 +0.50 +1.25$'
  expect_out '^2 +ours +6000 '
  expect_out '^2 +eager +2000 +3.00 '
  expect_out '^start .*: 3.20 s cold, 0.40 s warm$'
}

# What hpctrain is given is a run file it accepts.
test_the_run_file_is_valid() {
  play_hpctrain
  expect_run 0 compare
  sed "s|train: /[^,]*,|train: $PWD/tokens.bin,|" seen.yaml > run.yaml
  head -c 131072 /dev/zero > tokens.bin
  expect_run 0 "$hpctrain" config run.yaml
  expect_out 'intermediate_size: 688'
}

test_without_torch_hpctrain_is_measured_alone() {
  play_hpctrain
  play_python
  touch peer.py
  TORCH='' expect_run 0 compare peer.py
  expect_out '^note  no peer: ./python has no torch'
  expect_out '^2 +ours +6000 '
  expect_run 0 compare
  expect_out "^note  no peer: name its script"
  expect_run 2 compare absent.py
  expect_err 'absent.py: cannot be read'
}

test_a_side_that_fails_is_named() {
  play_hpctrain
  play_python
  touch peer.py
  echo 'exit 3' > hpctrain
  expect_run 1 compare
  expect_err 'hpctrain ended with status 3'
  rm hpctrain
  expect_run 2 compare
  expect_err 'HPCTRAIN='
}

check_main "$@"
