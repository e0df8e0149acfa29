#!/bin/sh
# The inner half of containerd.sh: process 1 of namespaces of its own. Starts containerd, judges it, ends it.
set -eu

say() { echo "containerd lane: $*" >&2; }
fail() { say "$*"; tail -20 "$work/log/containerd.log" 2>/dev/null || true; exit 1; }
trap 'exit 143' TERM INT

# Shims put their sockets into /run/containerd whatever the configuration says; this /run goes with us.
mount -t tmpfs -o mode=755 none /run
ip link set lo up

snapshotter=native
mkdir -p "$work/probe/a" "$work/probe/b" "$work/probe/c" "$work/probe/d"
if mount -t overlay none -o "lowerdir=$work/probe/a,upperdir=$work/probe/b,workdir=$work/probe/c" "$work/probe/d" 2>/dev/null; then
    umount "$work/probe/d"
    snapshotter=overlayfs
fi
sed -i "s/SNAPSHOTTER/$snapshotter/" "$work/containerd.toml"

LD_LIBRARY_PATH=$private_libraries containerd --config "$work/containerd.toml" --log-level warn >"$work/log/containerd.log" 2>&1 &
daemon=$!
try=0
until ctr --address "$work/containerd.sock" version >"$work/log/version" 2>&1; do
    kill -0 "$daemon" 2>/dev/null || fail 'containerd ended at its start:'
    try=$((try + 1))
    [ "$try" -lt 150 ] || fail 'containerd does not answer after 30 s:'
    sleep 0.2
done
say "$(sed -n '/Server/,$ s/ *Version: */containerd /p' "$work/log/version"), $(runc --version | head -1), snapshotter $snapshotter"
timeout 60 ctr --address "$work/containerd.sock" --namespace k8s.io images import --snapshotter "$snapshotter" "$work/images.tar" >"$work/log/import" 2>&1 ||
    { cat "$work/log/import"; fail 'the images cannot be imported:'; }

# Without arguments: what restarts are about, in scenarios of half a minute, side by side.
[ $# -gt 0 ] || set -- restart-onfailure-until-success rule-restart-on-listed-code rule-then-policy-then-backoff \
    restart-all-sidecar-exit restart-all-regular-exit restart-all-init-exit restart-all-two-second-kill \
    restart-all-keeps-volumes-and-identity restart-all-liveness-kill-code restart-all-leaves-ephemeral-alone \
    restart-all-skips-prestop sidecar-crash-restarts-in-never-pod init-not-rerun-after-regular-restart
endpoint=unix://$work/containerd.sock
limit=${KUBELET_EMU_LANE_SECONDS:-270}
code=0
if [ -n "$emu" ]; then
    timeout -k 20 "$limit" "$emu" conform --cri-endpoint "$endpoint" "$@" || code=$?
else
    PYTHONPATH=$repo/proto:$repo timeout -k 20 "$limit" "$python" -m kubelet_emu conform --cri-endpoint "$endpoint" "$@" ||
        code=$?
fi
[ "$code" != 124 ] && [ "$code" != 137 ] || say "not done within $limit s; KUBELET_EMU_LANE_SECONDS sets another limit"

left=$(ctr --address "$work/containerd.sock" --namespace k8s.io containers list -q | wc -l)
[ "$left" = 0 ] || { say "$left containers were left behind in containerd"; code=1; }
kill -TERM "$daemon"
try=0
while kill -0 "$daemon" 2>/dev/null && [ "$try" -lt 50 ]; do
    try=$((try + 1))
    sleep 0.1
done
exit $code
