#!/bin/bash
# Runs measure.sbatch on a real Slurm: four virtual nodes on this machine, one of them slowed.
#
#   fleet/test-slurm.sh path/to/c2c
#
# Needs root and Debian's packages slurmd, slurmctld, slurm-client and munge.
# Exit codes: 0 the slow node was named, and no other; 1 it was not; 77 waived.
#
# The nodes take turns, because they share one machine. All are bound to a processor: the good ones
# to one, the slow one to another, on which programs spin. Nothing is told to `c2c`.
set -eu

waive() {
    echo "waived: $1"
    exit 77
}

[ $# -eq 1 ] || { echo "usage: $0 path/to/c2c" >&2; exit 2; }
c2c=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
[ "$(id -u)" -eq 0 ] || waive "not root"
for program in slurmctld slurmd sbatch srun munged mungekey flock taskset setsid python3; do
    command -v "$program" >/dev/null || waive "$program is not installed"
done
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
[ "${#cpus[@]}" -ge 2 ] || waive "one processor"
good=${cpus[1]} slow=${cpus[0]}

work=$(mktemp -d /tmp/c2c-slurm.XXXXXX)
pids=()
end() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap end EXIT
mkdir "$work/munge" "$work/state" "$work/results" "$work/socket"
chmod 700 "$work/munge"
# slurmctld runs as root here; elsewhere it has a user of its own.
mungekey --create --keyfile="$work/munge/key" >/dev/null
munged --foreground --force --key-file="$work/munge/key" --socket="$work/socket/munge" \
    --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" \
    --log-file="$work/munge/log" >"$work/munged.out" 2>&1 &
pids+=($!)

host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
cat >"$work/slurm.conf" <<CONF
ClusterName=virtual
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/socket/munge
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmdSpoolDir=$work/spool-%n
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName=node[0-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=1 RealMemory=512
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF=$work/slurm.conf

slurmctld -D >"$work/slurmctld.out" 2>&1 &
pids+=($!)
for node in 0 1 2 3; do
    mkdir "$work/spool-node$node"
    cpu=$good
    [ "$node" -ne 2 ] || cpu=$slow
    taskset -c "$cpu" slurmd -D -N "node$node" >"$work/slurmd-node$node.out" 2>&1 &
    pids+=($!)
done
# Each spins in a session of its own: where Linux shares a processor among sessions, six in one
# session would take only as much of it as the node does.
for _ in 1 2 3 4 5 6; do
    taskset -c "$slow" setsid sh -c 'while :; do :; done' &
    pids+=($!)
done

# The nodes are one machine, so only one of them may measure at a time.
cat >"$work/c2c" <<TURNS
#!/bin/sh
exec flock "$work/turn" "$c2c" "\$@"
TURNS
chmod +x "$work/c2c"

for _ in $(seq 60); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 4 ] || break
    sleep 1
done
if [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 4 ]; then
    echo "the four nodes did not come up" >&2
    sinfo -N >&2 || true
    tail -n 5 "$work"/*.out "$work"/*.log >&2
    exit 1
fi
slurmctld -V
sinfo -N

code=0
cd "$work"
# What else runs on this machine disturbs the nodes that share it; the planted limit is beyond that.
C2C=$work/c2c RESULTS=$work/results TOLERANCE=100 sbatch --wait --nodes=4 --time=10 "$here/measure.sbatch" \
    --max-size 16MiB || code=$?
cat c2c-measure-*.out

verdict=$(grep -E 'nodes (is an outlier|are outliers)' c2c-measure-*.out || true)
[ "$code" -eq 1 ] || { echo "FAILED: exit code $code, not 1" >&2; exit 1; }
for node in 0 1 2 3; do
    [ -s "results/node$node.json" ] || { echo "FAILED: no record of node$node" >&2; exit 1; }
done
[ -s results/fleet.svg ] || { echo "FAILED: no plot" >&2; exit 1; }
case $verdict in
"1 of 4 nodes is an outlier: node2 "*) echo "passed: node2 is named, and no other; exit code 1" ;;
*) echo "FAILED: $verdict" >&2; exit 1 ;;
esac
