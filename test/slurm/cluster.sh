# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster of two nodes on this machine, for tests: munged, slurmctld and two slurmd of its own, on free ports and the
# loopback, all in one folder; nothing of an installed Slurm's configuration is read.  Needs root.  Sourced after test/check.sh.
#   cluster_up FOLDER      starts it and waits until both nodes are idle; sets SLURM_CONF
#   cluster_down           stops what it has started

PATH=$PATH:/usr/sbin:/sbin
export PATH

# Why there can be no cluster here; nothing: there can.
cluster_lacks() {
  local program
  [ "$(id -u)" = 0 ] || echo "this is not root"
  for program in munged slurmctld slurmd srun sbatch squeue; do
    command -v $program > /dev/null || echo "there is no $program (apt-get install slurm-wlm munge)"
  done
}

# N free ports.
free_ports() {
  python3 -c 'import socket, sys
s = [socket.socket() for _ in range(int(sys.argv[1]))]
for x in s: x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])' "$1"
}

# TmpFS keeps the step daemons of the two nodes apart.  KillWait: between SIGTERM and SIGKILL.
cluster_configure() {
  local t=$1 host ports
  host=$(hostname -s)
  ports=($(free_ports 3))
  mkdir -p "$t"/{munge,state,spool.n1,spool.n2,tmp.n1,tmp.n2}
  chmod 0700 "$t/munge"
  head -c 1024 /dev/urandom > "$t/munge/key"
  chmod 0600 "$t/munge/key"
  cat > "$t/slurm.conf" << END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$t/munge/socket
CredType=cred/munge
StateSaveLocation=$t/state
SlurmdSpoolDir=$t/spool.%n
SlurmctldPidFile=$t/slurmctld.pid
SlurmdPidFile=$t/slurmd.%n.pid
SlurmctldLogFile=$t/slurmctld.log
SlurmdLogFile=$t/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
ReturnToService=2
TmpFS=$t/tmp.%n
MpiDefault=none
GresTypes=gpu
JobRequeue=1
KillWait=5
SlurmdTimeout=10
InactiveLimit=0
SchedulerParameters=batch_sched_delay=1,sched_interval=2,requeue_delay=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=64 RealMemory=4000 Gres=gpu:8 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=64 RealMemory=4000 Gres=gpu:8 State=UNKNOWN
PartitionName=test Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
  local card
  for card in {0..7}; do ln -s /dev/null "$t/card$card"; done # GPUs as Slurm counts them, with nothing behind
  echo "Name=gpu File=$t/card[0-7]" > "$t/gres.conf"
}

cluster_node() { slurmd -f "$cluster/slurm.conf" -N "$1"; }
nodes_are_idle() { [ "$(sinfo -h -o '%T %D' 2> /dev/null)" = 'idle 2' ]; }

cluster_up() {
  cluster=$1
  cluster_configure "$cluster"
  export SLURM_CONF=$cluster/slurm.conf
  munged --key-file="$cluster/munge/key" --socket="$cluster/munge/socket" --pid-file="$cluster/munge/pid" \
    --log-file="$cluster/munge/log" --seed-file="$cluster/munge/seed" --force 2> "$cluster/munge/err"
  slurmctld -f "$SLURM_CONF"
  cluster_node n1
  cluster_node n2
  eventually nodes_are_idle || { tail -n 5 "$cluster"/*.log >&2; return 1; }
}

stop_pid() {
  local pid
  pid=$(cat "$1" 2> /dev/null) || return 0
  kill "$pid" 2> /dev/null || return 0
  for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || return 0; sleep 0.1; done
  kill -KILL "$pid"
}

cluster_down() {
  [ -n "${cluster-}" ] || return 0
  scancel -u root 2> /dev/null
  for _ in $(seq 100); do [ -n "$(squeue -h 2> /dev/null)" ] || break; sleep 0.1; done
  local file
  for file in slurmctld.pid slurmd.n1.pid slurmd.n2.pid munge/pid; do stop_pid "$cluster/$file"; done
}
