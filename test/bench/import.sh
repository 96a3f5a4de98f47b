#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How fast hpctrain import reads a Hugging Face folder, beside what the disk gives: both with nothing cached (root), in turns.
#   test/bench/import.sh HF_DIR [TO] [RANKS]     TO: a folder that can take the checkpoint; in memory, /dev/shm, only reading counts
set -eu
from=${1:?usage: test/bench/import.sh HF_DIR [TO] [RANKS]}
to=${2:-/dev/shm/hpctrain-import.$$}
ranks=${3:-1}
hpctrain=${hpctrain:-./hpctrain}
[ ! -e "$to" ] || { echo "$to is there already" >&2; exit 2; }
trap 'rm -rf "$to"' EXIT

forget() { sync && echo 3 > /proc/sys/vm/drop_caches; }
# seconds COMMAND…
seconds() {
  local begin
  begin=$(date +%s%N)
  "$@" > /dev/null
  echo $((($(date +%s%N) - begin) / 1000000))
}
run() { if [ "$ranks" = 1 ]; then "$hpctrain" import "$from" "$to"; else mpirun -np "$ranks" "$hpctrain" import "$from" "$to"; fi; }

megabytes=$(($(du -cbL "$from"/*.safetensors | tail -n 1 | cut -f 1) / 1000000))
for turn in 1 2 3; do
  forget
  disk=$(seconds cat "$from"/*.safetensors)
  forget
  import=$(seconds run)
  rm -rf "$to"
  echo "turn $turn: $megabytes MB; disk $((megabytes * 1000 / disk)) MB/s, import $((megabytes * 1000 / import)) MB/s, $((disk * 100 / import)) %"
done
