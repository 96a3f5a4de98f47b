#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a run file asks of a model in training: dropout, a z-loss; and models that are asked for what is not built.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# The interpreter starts faster than a compiler.
plain=cpu.compiler=none

test_dropout_drops_the_same_on_any_ranks_in_any_passes_and_when_computed_again() {
  write_run
  train 1 $plain run.folder=a train.dropout=0.3
  train 3 $plain run.folder=b train.dropout=0.3 train.micro_batch_size=2
  train 2 run.folder=c train.dropout=0.3 memory.recompute=block parallel.strategy=no_shard
  train 2 $plain run.folder=d train.dropout=0.3 train.stop_after=4steps
  train 1 $plain run.folder=d train.dropout=0.3
  expect_close a b
  expect_close a c
  expect_close a d
  train 1 $plain run.folder=e
  ! expect_close a e 2> other
  train 1 $plain run.folder=f train.dropout=0.3 run.seed=2 model.initializer_range=0.02
  ! expect_close a f 2> other
}

test_dropout_is_off_in_evaluation() {
  write_run
  train 1 $plain run.folder=a train.lr=1e-9 eval.every=5steps train.dropout=0.9
  train 1 $plain run.folder=b train.lr=1e-9 eval.every=5steps
  near "$(field_of a eval loss | tail -1)" "$(field_of b eval loss | tail -1)" 1e-6
  ! near "$(field_of a step loss | tail -1)" "$(field_of b step loss | tail -1)" 1e-6
}

# At first all logits are small: the log of their sum is about that of the vocabulary.
test_a_z_loss_is_told_beside_the_loss_and_the_same_on_any_ranks() {
  write_run
  train 1 $plain run.folder=a train.z_loss=0.5
  train 3 $plain run.folder=b train.z_loss=0.5 train.micro_batch_size=2
  train 2 $plain run.folder=c train.z_loss=0.5 parallel.strategy=hybrid_shard parallel.shard_degree=1 parallel.hybrid_optimizer=shard
  expect_close a b
  expect_close a c
  near "$(field_of a step z_loss | head -1)" "$(awk 'BEGIN { print 0.5 * log(256) ^ 2 }')" 0.05
  near "$(field_of b step z_loss | tail -1)" "$(field_of a step z_loss | tail -1)" 1e-5
  near "$(field_of c step z_loss | tail -1)" "$(field_of a step z_loss | tail -1)" 1e-5
  expect_equal "$(field_of a step z_loss | awk 'NR == 1 { first = $1 } END { print $1 < 0.9 * first }')" 1
  train 1 $plain run.folder=d
  expect_equal "$(field_of d step z_loss)" ''
}

# A micro-batch of two sequences has the same losses on whichever rank in whichever pass.  At first all experts are about as likely.
test_losses_on_routers_are_means_over_micro_batches() {
  write_run
  sed -i '/^model/d' t.yaml
  local losses=(model.config="$srcdir/test/golden/mixtral" train.router_aux_loss=0.5 train.router_z_loss=0.25)
  train 1 $plain run.folder=a "${losses[@]}" train.micro_batch_size=2
  train 3 $plain run.folder=b "${losses[@]}" train.micro_batch_size=2 parallel.strategy=full_shard memory.recompute=block
  train 1 $plain run.folder=c "${losses[@]}" train.micro_batch_size=12
  expect_close a b
  near "$(field_of a step router_loss | head -1)" "$(awk 'BEGIN { print 0.5 * 2 + 0.25 * log(4) ^ 2 }')" 0.02
  near "$(field_of b step router_loss | tail -1)" "$(field_of a step router_loss | tail -1)" 1e-5
  ! near "$(field_of c step router_loss | tail -1)" "$(field_of a step router_loss | tail -1)" 1e-5
}

test_losses_on_routers_are_the_configs_or_the_keys() {
  write_run
  fails 2 1 train.router_z_loss=0.1
  grep -q 'there is no router in this model' err && grep -q 'argument.*train.router_z_loss' err
  fails 2 1 train.router_aux_loss=0.1
  sed -i '/^model/d; s/10 steps/1 steps/' t.yaml
  mkdir m
  sed 's/"output_router_logits": false/"output_router_logits": true/' "$srcdir/test/golden/mixtral/config.json" > m/config.json
  train 1 $plain run.folder=a model.config=m
  near "$(field_of a step router_loss)" 0.002 0.02
  train 1 $plain run.folder=b model.config=m train.router_aux_loss=0
  expect_equal "$(field_of b step router_loss)" ''
}

test_more_experts_a_token_than_a_gpu_routes_to_are_refused() {
  write_run
  sed -i '/^model/d' t.yaml
  mkdir m
  sed 's/"num_experts_per_tok": 2/"num_experts_per_tok": 17/; s/"num_local_experts": 4/"num_local_experts": 20/' \
    "$srcdir/test/golden/mixtral/config.json" > m/config.json
  fails 2 1 $plain model.config=m device.kind=cuda
  grep -q "on a GPU a token goes to at most 16 experts, but the model's num_experts_per_tok is 17" err
}

# GPT-2's class drops a tenth everywhere unless told otherwise.
test_dropout_within_attention_is_refused_and_the_rest_is_the_configs() {
  write_run
  sed -i '/^model/d' t.yaml
  mkdir m
  echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 256}' > m/config.json
  fails 2 1 $plain model.config=m
  expect_err "^error: the model's config drops 0\.1 within attention \(attn_pdrop or attention_dropout\), which is not built$"
  expect_err '^help: train\.attention_dropout: 0 trains without$'
  fails 2 1 $plain model.config=m train.attention_dropout=0.1
  expect_err '^error: no attention here drops anything$'
  train 1 $plain run.folder=a model.config=m train.attention_dropout=0
  train 2 $plain run.folder=b model.config=m train.attention_dropout=0 train.dropout=0.1
  train 2 $plain run.folder=c model.config=m train.attention_dropout=0 train.dropout=0
  expect_close a b
  ! expect_close a c 2> other
}

check_main "$@"
