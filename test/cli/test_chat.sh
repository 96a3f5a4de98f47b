#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tuning on conversations: from JSON lines or from token files of them, packed or not.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

plain=cpu.compiler=none
golden=$srcdir/test/golden/tokenizers
lines='data.train=chat.jsonl data.format=chat data.chat_template=llama2 data.train_on_inputs=false'

# Conversations of some lengths, the last of them long.
write_chat() {
  write_run
  sed -i "s/vocab_size: 256/vocab_size: 1024/; s|tokenizer: bytes, val_fraction: 0.1|tokenizer: $golden/llama2-style.json|; /^eval/d
    s/seq_len: 16/seq_len: 48/; s/12 sequences/4 sequences/" t.yaml
  local i words="be not too quick to say what you may see here"
  for i in 1 2 3 4 5 6 7; do
    printf '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "%s"}]}\n' \
      "$(cut -d ' ' -f "1-$((i % 4 + 1))" <<< "$words")" "$(cut -d ' ' -f "$((i % 3 + 2))-$((i % 3 + 4))" <<< "$words")"
  done > chat.jsonl
  echo '{"prompt": "say it all", "completion": "'"$words $words $words $words"'"}' >> chat.jsonl
}

test_a_run_takes_json_lines_or_token_files_of_them_on_any_ranks_and_after_a_resume() {
  write_chat
  train 1 $plain $lines run.folder=one
  expect_out '^data +.*chat\.jsonl: 8 documents in 8 sequences, [0-9]+ % of them full, [0-9]+ % of that counts; 1 are longer than train.seq_len'
  "$hpctrain" tokenize --tokenizer "$golden/llama2-style.json" chat.jsonl --out files.bin --chat llama2 > out
  expect_out '^ends +of the chat template llama2; marks beside say'
  train 1 $plain data.train=files.bin data.format=chat run.folder=files
  expect_same one files
  train 2 $plain $lines run.folder=two train.micro_batch_size=1
  expect_close one two
  train 1 $plain $lines run.folder=again train.stop_after=3steps
  cp -p again/data/train-1-00000.bin kept.bin
  train 1 $plain $lines run.folder=again
  expect_same one again
  fails 2 1 $plain ${lines/inputs=false/inputs=true} run.folder=again
  expect_err 'data\.train_on_inputs cannot change in a run'
  fails 2 1 $plain ${lines/=llama2/=mistral} run.folder=again
  expect_err 'data\.chat_template cannot change in a run'
  fails 2 1 $plain $lines run.folder=again data.too_long=drop
  expect_err 'data\.too_long cannot change in a run'
  [ ! again/data/train-1-00000.bin -nt kept.bin ] # nor by what was refused
  fails 2 1 $plain data.train=files.bin run.folder=files
  expect_err 'data\.format cannot change in a run|number of sequences.* cannot change in a run'
}

# Jobs that bring their data along do so at every start.
test_a_resume_minds_what_texts_say_and_not_when_they_were_written() {
  write_chat
  train 1 $plain $lines run.folder=text train.stop_after=3steps
  touch -d '2001-01-01' chat.jsonl
  train 1 $plain $lines run.folder=text train.stop_after=4steps
  sed -i '1s/"user", "content": "be/"user", "content": "to/' chat.jsonl
  fails 2 1 $plain $lines run.folder=text
  expect_err '^error: the training data cannot change in a run: text/data/train-1.*\.bin, made of chat\.jsonl, has other bytes'
  write_chat
  tokenize() { "$hpctrain" tokenize --tokenizer "$golden/llama2-style.json" chat.jsonl --out files --chat llama2 > /dev/null; }
  tokenize
  local files='data.train=files-*.bin data.format=chat run.folder=files'
  train 1 $plain $files train.stop_after=3steps
  rm files-*
  touch chat.jsonl
  tokenize
  train 1 $plain $files train.stop_after=4steps
}

# apart WORD…: two ranks of hpctrain, each in a folder of its own; output in ./out and ./err.
apart() { mpirun --oversubscribe -np 1 -wdir "$PWD/A" "$hpctrain" "$@" : -np 1 -wdir "$PWD/B" "$hpctrain" "$@"; }

# Copies were written at other times; before a resume, at yet another.
test_nodes_may_have_copies_of_the_texts_or_rank_0_alone_has_them() {
  write_chat
  mkdir A B
  cp t.yaml chat.jsonl A
  cp t.yaml chat.jsonl B
  touch -d '2001-01-01' B/chat.jsonl
  local all="t.yaml $plain $lines train.micro_batch_size=1 run.folder=$PWD"
  expect_run 0 apart $all/copies train.stop_after=2steps
  touch -d '2002-02-02' A/chat.jsonl
  expect_run 0 apart $all/copies train.stop_after=3steps
  expect_run 0 apart tokenize --tokenizer "$golden/llama2-style.json" chat.jsonl --out "$PWD/x.bin" --chat llama2
  sed -i '1s/"be/"to/' B/chat.jsonl
  expect_run 2 apart $all/others
  expect_err '^error: ranks differ in the texts to tokenize, .*: rank 1 \(.*\) has another than rank 0$'
  rm B/chat.jsonl
  expect_run 0 apart $all/alone train.stop_after=3steps
  expect_same copies alone
  expect_run 2 apart tokenize --tokenizer "$golden/llama2-style.json" chat.jsonl --out "$PWD/y.bin" --chat llama2
  expect_err '^error: rank 1 \(.*\): chat\.jsonl: No such file or directory$'
}

# Three files of eight are as good as one, and what is there already is taken; a folder may be called as it likes.
test_plan_and_bench_take_what_the_run_has_made_and_leave_nothing() {
  write_chat
  mkdir tmp
  export TMPDIR=$PWD/tmp
  printf '\xef\xbb\xbf' | cat - chat.jsonl > mark.jsonl
  train 1 $plain ${lines/chat.jsonl/mark.jsonl} 'run.folder=a[1]*'
  train 1 $plain $lines run.folder=b
  expect_same 'a[1]*' b
  touch b/data/train-1-00001.bin # of more texts, once
  expect_run 0 mpi 2 "$hpctrain" bench data t.yaml $lines --seconds 1 run.folder=b train.micro_batch_size=1
  [ -e b/data/train-1-00001.bin ]
  train 1 $plain $lines run.folder=b train.duration=20steps checkpoint.resume=never
  [ ! -e b/data/train-1-00001.bin ]
  expect_run 0 env TMPDIR=/nowhere "$hpctrain" plan t.yaml $lines run.folder=b
  expect_run 0 "$hpctrain" plan t.yaml $lines
  cp chat.jsonl large.jsonl
  for _ in {1..12}; do # 6 MB
    cat large.jsonl large.jsonl > twice
    mv twice large.jsonl
  done
  local status=0
  "$hpctrain" plan t.yaml ${lines/chat.jsonl/large.jsonl} > out 2> err &
  eventually eval 'ls tmp/*/*.tmp > names 2> /dev/null'
  kill -TERM $!
  wait $! || status=$?
  expect_equal "$status" 143
  status=0
  TMPDIR=$PWD "$hpctrain" t.yaml $plain ${lines/chat.jsonl/large.jsonl} run.folder=c > out 2> err &
  eventually eval 'ls c/data/*.tmp > names 2> /dev/null'
  kill -INT $! # which a shell's background ignores
  kill -TERM $!
  wait $! || status=$?
  expect_equal "$status, $(ls c/data)" '143, '
  echo '{' >> chat.jsonl
  expect_run 2 "$hpctrain" plan t.yaml $lines
  fails 2 1 $plain $lines run.folder=b
  expect_equal "$(echo $(ls tmp b/data))" "b/data: train-1-00000.bin train-1-00000.mask tmp:"
}

# Three shards.
test_ranks_share_out_conversations_make_the_same_files_and_name_a_bad_line() {
  write_chat
  local words n lines='data.train=large.jsonl data.format=chat data.chat_template=llama2 data.train_on_inputs=false'
  words=$(printf 'so it is said %.0s' {1..5000})
  for n in {1..270}; do echo "{\"prompt\": \"say $n\", \"completion\": \"$words\"}"; done > large.jsonl
  for n in 1 3; do
    train $n $plain $lines run.folder=ranks$n train.duration=1steps train.global_batch_size=6sequences
    diff -r ranks1/data ranks$n/data
  done
  expect_equal "$(ls ranks1/data/*.bin | wc -l)" 3
  sed -i '200s/completion/rejected/' large.jsonl
  for n in 1 3; do
    fails 2 $n $plain $lines run.folder=bad train.global_batch_size=6sequences
    expect_err '^error: (rank 1 .*: )?large\.jsonl:200: no conversation: '
  done
}

# What a run has just made cannot be listed for a while.
test_a_node_may_see_late_what_others_have_written() {
  write_chat
  cat > late.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found) {
  static int looks;
  __typeof__(&glob) real = (__typeof__(&glob))dlsym(RTLD_NEXT, "glob");
  int rc = real(pattern, flags, error, found);
  if (!rc && strstr(pattern, "train-1-") && looks++ < 3) free(found->gl_pathv[--found->gl_pathc]), found->gl_pathv[found->gl_pathc] = NULL;
  return rc;
}
END
  cc -shared -fPIC -o late.so late.c -ldl
  train 1 $plain $lines run.folder=soon train.stop_after=2steps
  expect_run 0 env LD_PRELOAD="$PWD/late.so" "$hpctrain" t.yaml $plain $lines run.folder=late train.stop_after=2steps
  expect_same soon late
}

test_an_epoch_in_one_batch_is_the_same_packed_and_not() {
  write_chat
  train 1 $plain $lines run.folder=apart train.global_batch_size=8sequences train.duration=2steps
  train 1 $plain $lines run.folder=plan data.packing=true train.duration=1steps
  local rows
  rows=$(sed -nE 's/^data +chat.jsonl: 8 documents in ([0-9]+) sequences.*/\1/p' out)
  [ "$rows" -lt 8 ]
  train 1 $plain $lines run.folder=packed data.packing=true train.global_batch_size="${rows}sequences" train.duration=2steps
  expect_close apart packed 1e-6
}

# The rows of a step are the same, in another order; what is left out is padding.
test_buckets_change_no_step_on_any_ranks_nor_after_a_resume() {
  write_chat
  local all="$plain $lines train.global_batch_size=6sequences train.duration=5steps" buckets='data.buckets=[16,32]' passes ranks
  local validated='data.val=chat.jsonl eval.every=5steps eval.tokens=336tokens' # 7 rows: a last batch of ranks is short
  evals() { sed -nE 's/.*"type":"eval".*"loss":([0-9.]*).*"tokens":([0-9]+).*/\1 \2/p' "$1/metrics.jsonl"; }
  train 1 $all $validated run.folder=none train.micro_batch_size=6
  for passes in 1 6; do
    train 1 $all $validated $buckets run.folder=$passes train.micro_batch_size=$((6 / passes))
    expect_equal "$passes $(grep -c '^note .*data\.buckets: all rows of a step are one pass' out)" "$passes $((passes == 1))"
    expect_close none $passes
    expect_equal "$(evals none | awk '{ printf "%.5f %d", $1, $2 }')" "$(evals $passes | awk '{ printf "%.5f %d", $1, $2 }')"
  done
  expect_out '^data +passes of 16, 32, 48 positions: [1-9][0-9] % of what there are is computed, of which [1-9]?[0-9] % is padding'
  expect_equal "$(grep -c '"type":"step".*"padding":0\.[0-9]' 6/metrics.jsonl)" 5
  train 2 $all $validated $buckets run.folder=two train.micro_batch_size=1
  train 3 $all $validated $buckets run.folder=three train.micro_batch_size=2 parallel.strategy=shard_opt
  for ranks in two three; do
    expect_close none $ranks
    expect_equal "$(evals none | awk '{ printf "%.5f %d", $1, $2 }')" "$(evals $ranks | awk '{ printf "%.5f %d", $1, $2 }')"
  done
  train 1 $all $validated $buckets run.folder=again train.micro_batch_size=1 train.stop_after=3steps
  train 1 $all $validated $buckets run.folder=again train.micro_batch_size=1
  expect_same 6 again
  train 1 $all $validated $buckets run.folder=other train.micro_batch_size=1 train.stop_after=3steps
  train 1 $all $validated data.buckets=[40] run.folder=other train.micro_batch_size=1
  expect_out '^data +passes of 40, 48 positions'
  expect_close none other
}

test_plan_and_ir_know_the_programs_of_buckets() {
  write_chat
  local all="$lines data.buckets=[16,32] train.micro_batch_size=2"
  expect_run 0 "$hpctrain" ir t.yaml $all --after=model
  expect_equal "$(sed -n 's/^# \(.*\) after model/\1/p' out | tr '\n' ' ')" \
    'micro.first micro.last micro.first.32 micro.last.32 micro.first.16 micro.last.16 update eval eval.32 eval.16 '
  expect_run 0 "$hpctrain" plan t.yaml $all
  expect_out 'passes of 16, 32, 48 positions: [1-9][0-9] % of what there are is computed'
  expect_run 0 "$hpctrain" plan t.yaml $all --gpu h200 precision.compute=bf16
  expect_out '^time .*\(if all rows were full: data\.buckets makes it faster\)'
  expect_out '^run +at most '
  fails 2 1 data.buckets=auto
  expect_err "^error: 'data.buckets' has no use here$"
  fails 2 1 $lines 'data.buckets=[32,16]'
  expect_err "^error: 'data.buckets' wants ascending lengths$"
  fails 2 1 $lines 'data.buckets=[16,100]'
  expect_err '^error: a bucket is longer than all rows$'
}

test_what_is_long_or_counts_is_as_asked() {
  write_chat
  train 1 $plain $lines run.folder=drop data.too_long=drop
  expect_out '8 documents in 7 sequences'
  fails 2 1 $plain $lines run.folder=refuse data.too_long=refuse
  expect_err '^error: refuse/data/train-1-00000\.bin, made of chat\.jsonl: document 8 of its pattern \(of JSON lines, .*\) has [0-9]+ tokens, a sequence 48 '
  train 1 $plain ${lines/inputs=false/inputs=true} run.folder=all
  expect_out '100 % of that counts'
  expect_run 0 "$hpctrain" plan t.yaml $lines
  expect_out 'chat\.jsonl: 8 documents in 8 sequences'
  expect_run 0 "$hpctrain" bench data t.yaml $lines --seconds 1
  expect_out '^first +[0-9.]+ s: '
  expect_out '^speed +[0-9.]+[kMG]? tokens/s a rank'
  expect_out '^run +not known'
  expect_run 0 "$hpctrain" bench data t.yaml $lines --seconds 1 run.folder=all
  expect_out '^run +took [0-9.]+[kMG]? tokens/s in its last step'
}

test_what_does_not_fit_is_told() {
  write_chat
  fails 2 1 ${lines% *}
  expect_err '^error: what counts of conversations is not said$'
  expect_err "needs 'data.train_on_inputs'"
  fails 2 1 data.train=chat.jsonl data.format=chat data.train_on_inputs=true
  expect_err "needs 'data.chat_template'"
  fails 2 1 ${lines/llama2/alpaca}
  expect_err "^error: no chat template is called 'alpaca'$"
  expect_err '^help: llama2, llama3, '
  fails 2 2 ${lines/llama2/llama3}
  expect_err '^error: chat template llama3: .*llama2-style\.json has no token <\|start_header_id\|>$'
  sed 's/tokenizer: [^}]*/tokenizer: none/' t.yaml > none.yaml
  expect_run 2 "$hpctrain" none.yaml $lines
  expect_err '^error: conversations are text, which nothing here turns into tokens$'
  cp -r "$srcdir/test/golden/llama2" model
  chmod u+w model
  cp "$golden/llama2-style.json" model/tokenizer.json
  sed '/^model/d; s/tokenizer: [^}]*/tokenizer: auto/' t.yaml > from.yaml
  expect_run 2 "$hpctrain" from.yaml $lines model.from=model
  expect_err '^error: conversations are text, .* into tokens; model\.from: its .* has 1024 ids, but the model.s vocabulary 320$'
  fails 2 1 data.train=chat.jsonl
  expect_err '^error: JSON lines are no token files$'
  fails 2 1 data.format=chat
  expect_err '^error: data\.bin: no mark says where a document begins$'
  fails 2 1 data.format=chat data.chat_template=llama2
  expect_err "^error: 'data.chat_template' has no use here$"
  fails 2 1 data.train_on_inputs=true
  expect_err "^error: 'data.train_on_inputs' has no use here$"
  echo '{"messages": [{"role": "user"}]}' >> chat.jsonl
  fails 2 1 $lines
  expect_err "^error: chat\.jsonl:9: a message without texts 'role' and 'content'$"
}

# As few positions as the longest conversation has, or more.
test_padding_behind_conversations_is_no_token_of_routers_losses() {
  write_chat
  sed -i '/^model/d' t.yaml
  mkdir m
  sed 's/"vocab_size": 320/"vocab_size": 1024/' "$srcdir/test/golden/mixtral/config.json" > m/config.json
  local experts='model.config=m train.duration=1steps train.router_aux_loss=0.5 train.router_z_loss=0.25'
  train 1 $plain $lines $experts run.folder=short train.seq_len=96
  train 1 $plain $lines $experts run.folder=long train.seq_len=128
  near "$(field_of long step router_loss)" "$(field_of short step router_loss)" 1e-5
  near "$(field_of long step loss)" "$(field_of short step loss)" 1e-5
}

test_ids_are_those_of_the_library() {
  expect_library_agrees "$srcdir/test/cli/compare_chats.py" "$hpctrain" "$golden" 20 "${RANDOM}"
}

check_main "$@"
