#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How fast hpctrain import reads a Hugging Face folder, beside what the disk gives: both with nothing cached (root), in turns; and the
# most memory that a rank had, which is to be at most 1.2 times its share of the weights.
#   test/bench/import.sh HF_DIR [TO] [RANKS]     TO: a folder that can take the checkpoint; in memory, /dev/shm, only reading counts
#   test/bench/import.sh --make LAYERS HF_DIR    makes a folder with the shapes of Llama-2-7B, of so many layers (32: 13.5 GB), random
set -eu

# add NAME NUMBER…: a tensor of that shape is the next of the shard.
add() {
  local name=$1 n=2 size
  shift
  for size; do n=$((n * size)); done
  header+="${header:+,}\"$name\":{\"dtype\":\"BF16\",\"shape\":[$(IFS=,; echo "$*")],\"data_offsets\":[$at,$((at + n))]}"
  map+="${map:+,}\"$name\":\"$shard\""
  at=$((at + n))
}

# end_shard: its file.  A number whose upper byte is not 7F or FF is a finite one.
end_shard() {
  local byte length=
  header="{$header}"
  for byte in 0 8 16 24 32 40 48 56; do length+=$(printf '\\x%02x' $((${#header} >> byte & 255))); done
  {
    printf "$length%s" "$header"
    tr '\177\377' '\076\276' < /dev/urandom | head -c "$at"
  } > "$folder/$shard"
  header='' at=0
}

make_folder() {
  local layers=$1 folder=$2 layer i header='' map='' at=0 shard
  mkdir "$folder"
  cat > "$folder/config.json" << END
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
 "num_hidden_layers": $layers, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "rms_norm_eps": 1e-5,
 "max_position_embeddings": 4096, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
  for ((i = 0; i <= layers; i++)); do
    shard=$(printf 'model-%05d-of-%05d.safetensors' $((i + 1)) $((layers + 1)))
    layer=model.layers.$i
    if [ "$i" = "$layers" ]; then
      add model.embed_tokens.weight 32000 4096
      add lm_head.weight 32000 4096
      add model.norm.weight 4096
    else
      for name in q_proj k_proj v_proj o_proj; do add "$layer.self_attn.$name.weight" 4096 4096; done
      for name in gate_proj up_proj; do add "$layer.mlp.$name.weight" 11008 4096; done
      add "$layer.mlp.down_proj.weight" 4096 11008
      for name in input_layernorm post_attention_layernorm; do add "$layer.$name.weight" 4096; done
    fi
    end_shard
  done
  printf '{"metadata":{},"weight_map":{%s}}\n' "$map" > "$folder/model.safetensors.index.json"
}

if [ "${1-}" = --make ]; then
  make_folder "${2:?layers}" "${3:?folder}"
  exit
fi

from=${1:?usage: test/bench/import.sh HF_DIR [TO] [RANKS]}
to=${2:-/dev/shm/hpctrain-import.$$}
ranks=${3:-1}
hpctrain=${hpctrain:-./hpctrain}
[ ! -e "$to" ] || { echo "$to is there already" >&2; exit 2; }
peaks=$(mktemp)
trap 'rm -rf "$to" "$peaks"' EXIT

forget() { sync && echo 3 > /proc/sys/vm/drop_caches; }
# seconds COMMAND…
seconds() {
  local begin
  begin=$(date +%s%N)
  "$@" > /dev/null
  echo $((($(date +%s%N) - begin) / 1000000))
}
# A rank, which notes its peak in kB.
rank=(python3 -c 'import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
open(sys.argv[1], "a").write("%d\n" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)' "$peaks" "$hpctrain" import "$from" "$to")
run() { if [ "$ranks" = 1 ]; then "${rank[@]}"; else mpirun -np "$ranks" "${rank[@]}"; fi; }

megabytes=$(($(du -cbL "$from"/*.safetensors | tail -n 1 | cut -f 1) / 1000000))
for turn in 1 2 3; do
  forget
  disk=$(seconds cat "$from"/*.safetensors)
  forget
  import=$(seconds run)
  rm -rf "$to"
  echo "turn $turn: $megabytes MB; disk $((megabytes * 1000 / disk)) MB/s, import $((megabytes * 1000 / import)) MB/s, $((disk * 100 / import)) %"
done
echo "a rank's share $((megabytes / ranks)) MB, its memory at most $(($(sort -n "$peaks" | tail -n 1) / 1000)) MB"
