# SPDX-License-Identifier: Apache-2.0
# Runs that are killed at random moments and started again until they are done.  A case is drawn from its seed: ranks, strategy,
# kernels, how and how often is saved; then one to three kills, each of a rank, of all ranks, or of the launcher, at some moment of
# the whole run, behind some step or within a save; then perhaps other ranks and another strategy.  Sourced after test/check.sh.
. "$srcdir/test/cli/train_case.sh"

# Undisturbed runs, which cases share, and what each kill has met: a line "start|step|save|end SECONDS" (from the kill to the end).
shelf=${TMPDIR:-/tmp}/check-straight.$$
trap 'rm -rf "$XDG_CACHE_HOME" "$shelf"' EXIT
limit=$((30 * slowdown))   # seconds in which a job must be gone
patience=$((4 * slowdown)) # cold caches on busy machines

draw() { # WORD…: one of them, in $drawn (a subshell would draw the same again and again)
  shift $((RANDOM % $#))
  drawn=$1
}

draw_ranks() {
  draw 1 2 3 4
  ranks=$drawn
  draw no_shard shard_opt shard_grad_op full_shard hybrid_shard
  words="parallel.strategy=$drawn"
  if [ "$drawn" = hybrid_shard ] && [ "$ranks" = 4 ]; then words="$words parallel.shard_degree=2"; fi
}

# Most runs are interpreted: that takes no compiler, and steps are long enough to be met.
draw_case() {
  RANDOM=$1
  draw_ranks
  draw cpu.compiler=none{,,,,,,,,,,,} warm warm cold
  kernels=$drawn
  if [ "$kernels" != cpu.compiler=none ]; then # few plans are to be compiled; a device apart runs them as a GPU would
    ranks=2 words=parallel.strategy=full_shard
    draw cpu apart
    device=device.kind=$drawn
  fi
  draw 1 2 3
  words="$words checkpoint.every=${drawn}steps"
  draw 1 2 3
  words="$words checkpoint.keep=$drawn"
  draw true true false
  words="$words checkpoint.async=$drawn"
}

# launch N WORD…: a job in a session of its own, whose id is in $session; ./ended holds its status once it is over.
launch() {
  local n=$1 launcher=(mpirun --oversubscribe -np "$1")
  shift
  [ "$n" != 1 ] || launcher=()
  rm -f ended session
  (
    status=0
    setsid sh -c 'echo $$ > session; exec "$@"' sh ${launcher[@]+"${launcher[@]}"} "$hpctrain" t.yaml "$@" > out 2> err < /dev/null || status=$?
    echo $status > ended
  ) &
  eventually [ -s session ]
  session=$(cat session)
}

pause() { read -r -t "$1" <> "$shelf/never" || :; } # without a process

is_saving() { compgen -G 'run/checkpoints/step-*.tmp' > /dev/null; }
died_saving() { [ -n "$(find run -path 'run/checkpoints/*.tmp' -newer session)" ]; }

# The session's processes but those that only wait to be reaped.
left() { ps -o pid=,stat=,args= -s "$session" | awk '$2 !~ /^Z/'; }

victims() { # rank|all|launcher NUMBER: ids of processes; before there are ranks, the launcher's
  local of
  of=($(pgrep -s "$session" -x hpctrain)) || of=($session)
  case $1 in
    rank) echo "${of[$2 % ${#of[@]}]}" ;;
    all) echo "${of[@]}" ;;
    launcher) echo "$session" ;;
  esac
}

# Moments: a share of the time that a run takes, behind the line of some step, or within a save.
at_time() {
  after=$((RANDOM % 1000 * $(cat "$shelf/ms") / 1000))
  after=$((after / 1000)).$(printf %03d $((after % 1000)))
}
at_step() {
  local step=$((RANDOM % 10 + 1))
  after=0.0$((RANDOM % 5))
  until grep -qs "^step *$step " out || [ -e ended ]; do pause 0.005; done
}
at_save() {
  after=0.00$((RANDOM % 10))
  until is_saving || [ -e ended ]; do
    [ -n "$of" ] || [ ! -e run/metrics.jsonl ] || of=$(victims "$whom" $number) # before: there will be no time
    pause 0.001
  done
}

# Kills the job at a drawn moment.
strike() {
  local whom after number=$RANDOM of=
  draw rank rank all launcher
  whom=$drawn
  draw at_time at_step at_save
  $drawn
  pause $after
  kill -KILL ${of:-$(victims "$whom" $number)} 2> /dev/null || :
  struck="$whom, $after s after $drawn"
}

# The job is over soon, and nothing of it is left; its status is one that a lost rank gives, or it was done before.
expect_end() {
  local begin=$EPOCHREALTIME end=$((SECONDS + limit)) met=end status
  until [ -e ended ] && [ -z "$(left)" ]; do
    [ $SECONDS -lt $end ] || { echo "not over after $limit s:" "$(left)"; kill -KILL $(left | awk '{ print $1 }'); return 1; } >&2
    pause 0.01
  done
  status=$(cat ended)
  case $status in
    0) expect_out '^done |nothing is left to do: ' ;;
    4 | 137) if died_saving; then met=save; elif grep -q '^step' out; then met=step; else met=start; fi ;;
    *) echo "status $status" >&2; tail -n 5 out err >&2; return 1 ;;
  esac
  awk -v met=$met -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%s %.1f\n", met, b - a }' >> "$shelf/met"
}

# What a run goes on from is the newest step that is there, which is whole.
expect_resumed_from() {
  local from
  from=$(sed -nE 's/^resume +([^,]*), verified.*/\1/p' out)
  [ -z "$from" ] || expect_equal "$from" "$1"
  ! grep -E 'damaged|in use' err >&2
}
newest() { ls -d run/checkpoints/step-???????? 2> /dev/null | tail -n 1; }

# The folder of the same run without a kill, in $straight.
run_straight() { # N WORD…
  straight=$shelf/$(tr -c '\na-z0-9' - <<< "$*")
  [ -e "$straight/metrics.jsonl" ] || slowdown=$patience train "$1" run.folder="$straight" "${@:2}"
}

prepare() {
  write_run
  [ -e "$shelf" ] && return
  mkdir "$shelf"
  mkfifo "$shelf/never"
  local begin=$EPOCHREALTIME
  run_straight 2 checkpoint.every=2steps cpu.compiler=none
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print int(1000 * (b - a)) }' > "$shelf/ms"
}

# Step by step the same losses within 1e-5, and so is each tensor of the checkpoint.
expect_near() {
  expect_close "$1" "$2"
  "$hpctrain" ckpt diff "$1" "$2" > diff || [ $? = 1 ]
  awk '/ relative / && !($NF <= 1e-5) { print; bad = 1 } /^(reshaped|only)/ { print; bad = 1 } END { exit bad }' diff >&2
}

kill_case() { # SEED
  local before kills words device= plain= kernels ranks drawn struck straight
  prepare
  draw_case "$1"
  case $kernels in
    cold) export XDG_CACHE_HOME=$PWD/cache ;;
    warm) ;;
    *) plain=$kernels ;;
  esac
  draw 1 1 2 3
  kills=$drawn
  for _ in $(seq "$kills"); do
    before=$(newest)
    [ "${before##*-}" != 00000010 ] || break # it is done
    launch "$ranks" $words $device $plain
    strike
    echo "seed $1: $ranks ranks, $words $device, $kernels: $struck" >&2
    expect_end
    expect_resumed_from "$before"
  done
  run_straight "$ranks" ${words%% checkpoint*} $plain
  draw expect_same expect_same expect_near
  [ "$drawn" = expect_same ] || { local near=$drawn; draw_ranks; drawn=$near; }
  before=$(newest)
  slowdown=$patience train "$ranks" $words $device $plain
  expect_resumed_from "$before"
  $drawn run "$straight"
}

# check_main, and where the kills fell.
kill_main() {
  local status=0
  check_main "$@" || status=$?
  if [ -e "$shelf/met" ]; then
    awk '{ n[$1]++; if ($2 > most) most = $2 }
      END { printf "note  kills: %d before the first step, %d in steps, %d in saves, %d too late; over after %.1f s at most\n",
              n["start"], n["step"], n["save"], n["end"], most }' "$shelf/met" >&2
  fi
  return $status
}
