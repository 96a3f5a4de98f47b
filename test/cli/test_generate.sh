#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain generate: the same text for the same seed, alone and beside others, from a run, a step or a Hugging Face folder, without MPI.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# A model of four steps in ./run, on one rank, which is trained once.
make_run() {
  local made=$XDG_CACHE_HOME/made
  if [ ! -d "$made" ]; then
    write_run
    train 1 train.stop_after=4steps checkpoint.every=2steps
    mkdir -p "$made" && cp -r run "$made"
  fi
  cp -r "$made/run" .
}

# generate WORD…: its text in ./out.
generate() { expect_run 0 "$hpctrain" generate "$@"; }

test_a_run_is_its_newest_step() {
  make_run
  generate run --prompt 'The ' --tokens 40
  expect_equal "$(head -c 4 out)" 'The '
  expect_equal "$(wc -c < out)" 45
  mv out newest
  generate run/checkpoints/step-00000004 --prompt 'The ' --tokens 40
  cmp out newest
  generate run/checkpoints/step-00000002 --prompt 'The ' --tokens 40
  if cmp -s out newest; then return 1; fi
}

test_the_seed_makes_the_text() {
  make_run
  generate run --tokens 60 --seed 1
  mv out one
  generate run --tokens 60 --seed 1
  cmp out one
  generate run --tokens 60 --seed 2
  if cmp -s out one; then return 1; fi
  generate run --tokens 60 --temperature 0 --seed 1
  mv out greedy
  generate run --tokens 60 --temperature 0 --seed 2
  cmp out greedy
}

test_a_text_goes_on_behind_the_positions() {
  local window=0123456789abcdef
  make_run
  generate run --prompt "$window" --tokens 50 --temperature 0
  expect_err "^note .*1 text is longer than the model's 16 positions: it saw the last 8 or more"
  mv out long
  generate run --prompt "${window:8}" --tokens 50 --temperature 0 --prompt "$window"
  tail -n 1 out | cmp - long
  expect_run 2 "$hpctrain" generate run --prompt fine --prompt "${window}g"
  expect_err 'error: --prompt: the prompt "0.*g" has 17 tokens, the model is made for 16 positions'
}

# What prompts.txt asks for, one after the other and together; draws are of prompt and seed alone.
test_a_batch_says_what_each_prompt_alone_does() {
  local line
  make_run
  printf 'The \nA longer one \n\nx\nThe \n' > prompts.txt
  printf '"The "\n{"prompt": "A longer one ", "label": 3}\n"x"\n"The "\n' > prompts.jsonl
  generate run --prompts prompts.txt --tokens 20 --top-k 40 --top-p 0.9 --seed 3 --json
  mv out together
  expect_equal "$(wc -l < together)" 4
  for line in 'The ' 'A longer one ' 'x'; do
    generate run --prompt "$line" --tokens 20 --top-k 40 --top-p 0.9 --seed 3 --json
    cat out
  done > alone
  head -n 3 together | cmp - alone
  [ "$(sed -n 1p together)" != "$(sed -n 4p together)" ]
  { printf '\xef\xbb\xbf' && cat prompts.jsonl; } > marked.ndjson
  generate run --prompts marked.ndjson --tokens 20 --top-k 40 --top-p 0.9 --seed 3 --json --batch 3
  cmp out together
}

test_few_tokens_may_come() {
  make_run
  generate run --prompt 'The ' --tokens 30 --temperature 0
  mv out greedy
  generate run --prompt 'The ' --tokens 30 --temperature 2 --top-k 1
  cmp out greedy
  generate run --prompt 'The ' --tokens 30 --temperature 2 --top-p 1e-6
  cmp out greedy
}

test_a_stop_ends_the_text_before_it() {
  local text
  make_run
  generate run --prompt 'The ' --tokens 30 --temperature 0
  text=$(tr -d '\n' < out)
  generate run --prompt 'The ' --tokens 30 --temperature 0 --stop "${text:8:3}" --stop 'never said'
  [ "$(wc -c < out)" -lt 31 ]
  case $text in "$(tr -d '\n' < out)"*) ;; *) return 1 ;; esac
}

test_a_hugging_face_folder_speaks_on_either_kind_of_memory() {
  local golden=$srcdir/test/golden/mistral-window
  generate "$golden" --prompt 'Once more' --prompt b --tokens 25 --temperature 0 --json data.tokenizer=bytes cpu.threads=1
  mv out cpu
  generate "$golden" --prompt 'Once more' --prompt b --tokens 25 --temperature 0 --json data.tokenizer=bytes cpu.threads=1 device.kind=apart
  cmp out cpu
  expect_run 2 "$hpctrain" generate "$golden" --prompt x
  expect_err 'generate wants text, and no tokenizer is known of .*mistral-window'
  cp -r "$golden" copy && chmod -R u+w copy
  local end
  end=$(sed 's/.*"ids": \[\([0-9]*\), \([0-9]*\), \([0-9]*\),.*/\3/;q' cpu)
  printf '{"eos_token_id": [300, %s]}\n' "$end" > copy/generation_config.json
  generate copy --prompt 'Once more' --tokens 25 --temperature 0 --json data.tokenizer=bytes cpu.threads=1
  expect_equal "$(grep -c '"end": "end", "tokens": [012],' out)" 1
  printf '{"eos_token_id": "two"}\n' > copy/generation_config.json
  expect_run 2 "$hpctrain" generate copy --prompt x data.tokenizer=bytes
  expect_err 'generation_config.json: eos_token_id is no id'
}

# What the file says is as if it had been asked for, what is asked for wins.
test_a_generation_config_says_how_tokens_are_drawn() {
  local golden=$srcdir/test/golden/mistral-window config=copy/generation_config.json
  local words=(--prompt 'Once more' --tokens 25 --json data.tokenizer=bytes cpu.threads=1)
  cp -r "$golden" copy && chmod -R u+w copy
  echo '{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.3, "max_length": 9, "new_one": 1}' > $config
  generate copy "${words[@]}"
  expect_err '^sample temperature 0\.6, top_k 20, top_p 0\.9, repetition_penalty 1\.3, as generation_config\.json has it$'
  expect_err '^warn   generation_config\.json: new_one is not understood, and has no effect$'
  mv out said
  generate "$golden" "${words[@]}" --temperature 0.6 --top-p 0.9 --top-k 20 --repetition-penalty 1.3
  cmp out said
  ! grep '^sample' err
  generate copy "${words[@]}" --temperature 2 --repetition-penalty 1
  expect_err '^sample top_k 20, top_p 0\.9, as '
  mv out hot
  generate "$golden" "${words[@]}" --temperature 2 --top-k 20 --top-p 0.9
  cmp out hot
  generate copy "${words[@]}" --no-generation-config
  mv out usual
  generate "$golden" "${words[@]}"
  cmp out usual
  local said="as generation_config\.json has it$" left="as transformers where generation_config\.json says nothing$"
  generate "$golden" "${words[@]}" --temperature 0
  mv out greedy
  for greedy in '{"do_sample": false, "temperature": 0.6}' '{"temperature": 0.3, "top_p": 0.9}'; do
    echo "$greedy" > $config
    generate copy "${words[@]}"
    cmp out greedy
    expect_err "^sample the most likely token \(do_sample is not true\), $said"
  done
  echo '{"do_sample": true, "top_p": 0.9}' > $config
  generate copy "${words[@]}"
  expect_err "^sample top_p 0\.9, $said"
  expect_err "^sample temperature 1, top_k 50, $left"
  mv out left
  generate "$golden" "${words[@]}" --temperature 1 --top-k 50 --top-p 0.9
  cmp out left
  echo '{"do_sample": false, "temperature": 0.2, "top_k": 20, "stop_strings": [], "bad_words_ids": [], "sequence_bias": {}}' > $config
  generate copy "${words[@]}" --top-p 0.95
  expect_err "^sample temperature 0\.2, top_k 20, $said"
  mv out asked
  generate "$golden" "${words[@]}" --temperature 0.2 --top-k 20 --top-p 0.95
  cmp out asked
  echo '{"num_return_sequences": 3}' > $config
  expect_run 2 "$hpctrain" generate copy "${words[@]}"
  expect_err '^error: copy: generation_config\.json: num_return_sequences is 3; only 1 is built$'
  echo '{"eos_token_id": 7, "num_return_sequences": 1}' > $config
  generate copy "${words[@]}"
  ! grep '^sample' err
  echo '{"do_sample": true, "min_p": 0.05, "eos_token_id": 7}' > $config
  expect_run 2 "$hpctrain" generate copy "${words[@]}"
  expect_err '^error: copy: generation_config\.json: min_p is 0\.05; only 0 is built$'
  expect_err '^help: mend that file; --no-generation-config '
  generate copy "${words[@]}" --no-generation-config
  echo '{"temperature": "warm"}' > $config
  expect_run 2 "$hpctrain" generate copy "${words[@]}"
  expect_err '^error: copy: generation_config\.json: temperature is not a number$'
  echo '{"top_p": 1.5}' > $config
  expect_run 2 "$hpctrain" generate copy "${words[@]}"
  expect_err '^error: copy: generation_config\.json: top_p is 1\.5, not within '
}

# A token that was added to the tokenizer alone neither comes nor is read, wherever the model and the tokenizer lie.
test_a_tokenizer_may_have_more_ids_than_the_model() {
  local from
  write_marked_model
  expect_run 0 "$hpctrain" import m ckpt
  cp m/tokenizer.json other.json
  for from in m ckpt "$srcdir/test/golden/llama2 data.tokenizer=other.json"; do
    generate $from --prompt xab --tokens 60 --temperature 1e6 --json
    expect_err '^warn .*tokenizer.json has 321 ids, but the model.s vocabulary 320' || expect_err '^warn .*other.json has 321 ids'
    expect_equal "$(sed 's/.*"ids": \[//; s/\].*//' out | tr -d ' ' | tr , '\n' | awk '$1 < 320' | wc -l)" 60
    expect_run 2 "$hpctrain" generate $from --prompt 'x<pad>b'
    expect_err 'error: --prompt: the token "<pad>" is number 320, but the model.s vocabulary ends at 320'
  done
}

# What dynamic rope stretches a text by is its own length: what it says does not depend on its neighbours, nor on how much may come.
test_dynamic_rope_stretches_a_text_by_its_own_length() {
  write_stretched_model
  local words="--temperature 0 --json data.tokenizer=bytes cpu.threads=1" long='a prompt that is longer than 16 positions'
  local ids='s/.*"ids": \[([^]]*)\].*/\1/'
  generate "$srcdir/test/golden/llama2" --prompt short --tokens 12 $words
  sed -E "$ids" out > plain
  generate d --prompt short --tokens 40 $words
  cp out short
  case "$(sed -E "$ids" short)" in "$(cat plain)"*) ;; *) return 1 ;; esac
  generate d --prompt "$long" --tokens 20 $words
  cp out long
  generate d --prompt short --prompt "$long" --tokens 40 $words
  head -n 1 out | cmp - short
  case "$(sed -n 2p out | sed -E "$ids")" in "$(sed -E "$ids" long)"*) ;; *) return 1 ;; esac
}

# said WORD…: the ids that come.
said() {
  generate "$@" --tokens 6 --temperature 0 --json
  sed 's/.*"ids": //' out
}

test_what_a_model_has_seen_before_texts_comes_before_prompts() {
  write_marked_model
  local with without
  with=$(said m --prompt '<s>xab' --no-special-tokens)
  without=$(said m --prompt xab --no-special-tokens)
  [ "$with" != "$without" ]
  expect_equal "$(said m --prompt xab)" "$with"
  expect_run 0 "$hpctrain" import m ckpt
  expect_equal "$(said ckpt --prompt xab)" "$with"
  expect_equal "$(said ckpt --prompt xab --no-special-tokens)" "$without"
}

test_the_interpreter_says_the_same() {
  make_run
  generate run --prompt 'License' --tokens 12 --temperature 0
  mv out compiled
  expect_run 0 "$hpctrain" generate run --prompt 'License' --tokens 12 --temperature 0 cpu.compiler=none
  cmp out compiled
}

test_mpi_is_not_started() {
  make_run
  export OMPI_MCA_pml=none
  generate run --tokens 3
}

test_a_damaged_step_is_passed_over() {
  make_run
  truncate -s -100 run/checkpoints/step-00000004/model.h5
  generate run --tokens 3
  expect_err 'step-00000004'
  expect_err '^model .*step-00000002'
}

test_what_cannot_be_spoken_is_an_error() {
  make_run
  expect_run 2 "$hpctrain" generate run data.tokenizer=none
  expect_err 'no tokenizer is known of run/checkpoints/step-00000004'
  expect_run 2 "$hpctrain" generate nowhere
  expect_err '^error: nowhere: No such file or directory$'
  expect_err '^help: give the folder of a run that has saved'
  mkdir -p begun/checkpoints
  expect_run 2 "$hpctrain" generate begun
  expect_err '^error: begun: no checkpoint there$'
  expect_run 2 "$hpctrain" generate
  expect_run 2 "$hpctrain" generate run --tokens many
  expect_run 2 "$hpctrain" generate run --temperature -1
  expect_run 2 "$hpctrain" generate run --tokens
  expect_run 2 "$hpctrain" generate run --top-p 1.1
  expect_run 2 "$hpctrain" generate run --stop ''
  expect_run 2 "$hpctrain" generate run --prompts nowhere
  expect_err 'nowhere: No such file'
  printf '"fine"\n\n{"text": 3}\n' > bad.jsonl
  expect_run 2 "$hpctrain" generate run --prompts bad.jsonl
  expect_err 'bad.jsonl:3: no prompt'
  printf '"fine"\n{"text\n' > bad.jsonl
  expect_run 2 "$hpctrain" generate run --prompts bad.jsonl
  expect_err 'bad.jsonl:2: no JSON'
  printf '\n' > empty.txt
  expect_run 2 "$hpctrain" generate run --prompts empty.txt
  expect_err 'empty.txt: no prompt is there'
  expect_run 2 "$hpctrain" generate run --colour
  expect_err "what is '--colour'"
  expect_run 2 "$hpctrain" generate run train.lr=0.1
  expect_err "'train.lr' is of no use to generate"
}

check_main "$@"
