#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a job fails, it ends soon, with one message and the right exit status.
. "$(dirname "$0")/../check.sh"
fails=$builddir/test/mpi/fails

# ends STATUS HOW LINE: three ranks of `fails HOW` end within 10 s with STATUS, and "error:" is said once, as LINE; the same
# is in the error file.
ends() {
  expect_run "$1" mpi 3 timeout 10 "$fails" "$2" "$PWD/error.txt"
  expect_err "^error: $3"
  expect_equal "$(grep -c '^error:' err)" 1
  expect_equal "$(cat error.txt)" "$(grep -A 1000 '^error:' err | grep -B 1000 '^help:')"
}

test_error_of_all_ranks_is_told_once() {
  ends 2 all_input 'cannot read x\.bin$'
  expect_err '^help: write it$'
}
test_place_is_told_of_a_machine_error() { ends 3 all_machine 'rank 0 \([^)]+\): cannot read x\.bin$'; }
test_error_of_first_rank_ends_others() { ends 3 first 'rank 0 '; }
test_error_of_last_rank_ends_others() { ends 2 last 'rank 2 \([^)]+\): cannot read x\.bin$'; }
test_lowest_failing_rank_tells() { ends 3 all_but_first 'rank 1 '; }
test_lowest_failing_rank_tells_though_it_fails_later() { ends 3 middle_late 'rank 1 '; }
test_bug_is_status_1() { ends 1 bug 'rank 0 .*CHECK\(comm_size\(comm\) == 0\) does not hold'; }
test_disagreement_names_first_other_rank() { ends 2 differ 'ranks differ in run file: rank 1 \([^)]+\) has another than rank 0$'; }
test_another_version_on_a_node_is_refused() {
  local version other
  version=$("$hpctrain" --version | cut -d ' ' -f 2-)
  other=x${version:1} # as long
  LC_ALL=C sed "s/$version/$other/" "$hpctrain" > other
  chmod +x other
  touch t.yaml
  expect_run 3 mpirun --oversubscribe -np 1 "$hpctrain" t.yaml : -np 2 ./other t.yaml
  expect_err "^error: .*rank 1 \([^)]+\) runs hpctrain ${other//[^[:alnum:]]/.}, rank 0 \([^)]+\) ${version//[^[:alnum:]]/.}$"
  expect_equal "$(grep -c '^error:' err)" 1
}
test_library_is_quoted() {
  ends 4 truncated 'rank 1 \([^)]+\): MPI_Bcast for all ranks failed$'
  expect_err 'MPI_ERR_TRUNCATE'
}

test_killed_rank_ends_others() { expect_run 137 mpi 3 timeout 10 "$fails" killed; }

test_error_after_the_end_is_told_once() {
  expect_run 3 mpi 3 timeout 10 "$fails" closed
  expect_equal "$(grep -c '^error:' err)" 1
}

test_rank_that_does_not_come_is_named_with_what_it_does() {
  ends 4 late 'hang: 2 of 3 ranks in a barrier of all ranks, step 7, [0-9]+ s$'
  expect_err '^   missing  rank 2 \([^)]+\): reading x\.bin for [0-9]+ s$'
}

test_stopped_rank_is_named() {
  ends 4 stopped 'hang: 2 of 3 ranks in a barrier of all ranks, [0-9]+ s$'
  expect_err '^   missing  rank 2 \([^)]+\): not heard of for [0-9]+ s; it was computing$'
}

# Three times the timeout; but not for ever.
test_rank_that_may_take_long_is_waited_for() {
  expect_run 0 mpi 3 timeout 10 "$fails" patient
  expect_run 4 mpi 3 timeout 30 "$fails" too_patient
  expect_err '^   missing  rank 2 \([^)]+\): reading x\.bin for 1[0-9] s$'
}

test_forked_child_ends_itself_alone() {
  expect_run 0 mpi 2 timeout 10 "$fails" forked
  expect_err '^error: .*cannot read x\.bin$'
}

test_one_rank_without_launcher() {
  expect_run 2 timeout 10 "$fails" all_input
  expect_equal "$(cat err)" "$(printf 'error: cannot read x.bin\nhelp: write it')"
  expect_run 2 timeout 10 "$fails" alone
  expect_equal "$(cat err)" "$(printf 'error: cannot read x.bin\nhelp: write it')"
}

test_srun_without_pmix_is_refused() {
  expect_run 3 env -u PMIX_RANK -u OMPI_COMM_WORLD_RANK SLURM_PROCID=0 SLURM_NTASKS=2 "$fails" ok
  expect_err '^error: srun started 2 programs of one rank each'
  expect_err '^help: srun --mpi=pmix'
}

test_mpirun_of_another_mpi_is_refused() {
  expect_run 3 env -u PMIX_RANK -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE PMI_RANK=0 PMI_SIZE=4 "$fails" ok
  expect_err '^error: the launcher started 4 programs of one rank each: it is not that of .*MPI'
}

test_a_command_without_ranks_is_refused_under_mpirun() {
  expect_run 2 mpi 2 "$hpctrain" plan t.yaml
  expect_err '^error: plan takes no ranks, and 2 were started$'
  expect_equal "$(grep -c ^error: err)" 1
}

# A shell that is a rank of its own, as after srun --pty, hands on what its launcher told it.
test_what_is_only_read_is_told_in_the_shell_of_a_rank() {
  expect_run 0 env PMI_SIZE=8 "$hpctrain" help plan
  expect_run 0 env PMI_SIZE=8 "$hpctrain" config --new
  expect_run 2 env PMI_SIZE=8 "$hpctrain" plan t.yaml
  expect_err '^help: hpctrain plan without mpirun, or env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE '
}

test_forms_of_tokenize_that_write_one_file_or_answer_are_refused_under_mpirun() {
  echo text > t.txt
  expect_run 2 mpi 2 "$hpctrain" tokenize t.bin t.txt
  expect_err '^error: tokenize OUT.bin takes no ranks, and 2 were started$'
  expect_run 2 mpi 2 "$hpctrain" tokenize --tokenizer bytes --print
  expect_err '^error: tokenize --print takes no ranks, and 2 were started$'
  expect_equal "$(ls *.bin* 2> /dev/null)" ''
}

test_64_ranks_start_and_end() {
  expect_run 0 mpi 64 timeout $((60 * slowdown)) "$fails" ok
  expect_out '^64 ranks, 1 node '
}

test_binding_of_the_launcher_is_widened() {
  expect_run 0 mpirun -np 1 --bind-to core "$fails" ok
  expect_out "^cores $(nproc) of "
}

test_binding_of_the_user_is_kept() {
  expect_run 0 taskset -c 0 "$fails" ok
  expect_out '^cores 1 of '
}

check_main "$@"
