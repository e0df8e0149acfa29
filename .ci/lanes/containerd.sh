#!/bin/sh
# Judges Debian's containerd by our scenarios: a kubelet of ours drives it through --cri-endpoint, in real time.
#
#   .ci/lanes/containerd.sh [--required] [KUBELET-EMU [FOLDER]] [-- ARGUMENTS OF conform]
#
# KUBELET-EMU is the command to use; without it, the checkout with python3 (or $PYTHON). FOLDER is made, used and
# removed; without it, a temporary one.
#
# Everything happens in namespaces of its own (mounts, processes, network) and one temporary folder; packages
# that are missing are unpacked there, not installed. So nothing stays: with the last process the kernel takes
# bridge, mounts and shims away, and the folder and the cgroups are removed here.
# Says why if it cannot run, and ends with 0 then; with --required, with 1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
required=0
[ "${1:-}" = --required ] && { required=1; shift; }
emu= folder=
if [ $# -gt 0 ] && [ "$1" != -- ]; then emu=$1; shift; fi
if [ $# -gt 0 ] && [ "$1" != -- ]; then folder=$1; shift; fi
[ "${1:-}" = -- ] && shift
python=${PYTHON:-python3}
packages='containerd runc containernetworking-plugins iproute2 busybox-static'

say() { echo "containerd lane: $*" >&2; }
skip() { say "skipped: $*"; exit $required; }

# -- can it run here --

[ "$(id -u)" = 0 ] || skip 'needs root, to make namespaces and containers'
[ "$(uname -s)" = Linux ] || skip 'needs Linux'
[ -r /etc/debian_version ] && command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip 'needs Debian, for its packages of containerd and runc'
command -v unshare >/dev/null || skip 'needs unshare (package util-linux)'
unshare --mount --pid --net --fork --mount-proc true 2>/dev/null || skip 'this machine does not let us make namespaces'
[ -d /sys/fs/cgroup ] && [ -n "$(ls /sys/fs/cgroup)" ] || skip 'no cgroups are mounted on /sys/fs/cgroup'
cgroups=/sys/fs/cgroup # version 2; with version 1 each controller has a tree of its own
[ -f /sys/fs/cgroup/cgroup.controllers ] || cgroups=/sys/fs/cgroup/memory
mkdir "$cgroups/kubelet-emu-$$" 2>/dev/null && rmdir "$cgroups/kubelet-emu-$$" || skip "cgroups cannot be made below $cgroups"
command -v "$python" >/dev/null || skip "needs $python, to build images"
if [ -z "$emu" ]; then
    "$python" -c 'import trio, grpc, google.protobuf' 2>/dev/null || skip "$python lacks the dependencies of kubelet-emu"
fi

if [ -n "$folder" ]; then
    mkdir -m 700 "$folder"
    work=$(cd "$folder" && pwd)
else
    work=$(mktemp -d /tmp/ke-containerd.XXXXXX)
fi
had_k8s=$(find /sys/fs/cgroup -maxdepth 2 -name k8s.io -type d 2>/dev/null | sort)
child=

cleanup() {
    trap - EXIT INT TERM
    if [ -n "$child" ] && kill -0 "$child" 2>/dev/null; then
        # It ignores gentler signals, and takes all of its namespace along.
        kill -KILL "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    # All processes are gone with their namespace; what is left of their cgroups are empty folders.
    for folder in $(find /sys/fs/cgroup -maxdepth 2 -name k8s.io -type d 2>/dev/null | sort); do
        case " $had_k8s " in *"$folder"*) continue ;; esac
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [ -d "$folder" ] || break
            sleep 0.2
        done
    done
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# -- packages: those of the machine, the missing ones unpacked beside --

root=$work/root
mkdir -p "$root" "$work/debs/partial"
missing=
for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    # Lists and caches of its own, if those of the machine do not serve: an update of ours changes nothing there.
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache"
    apt() {
        timeout 100 apt-get -qq -y -o "Dir::Cache=$work/apt/cache" -o "Dir::Cache::archives=$work/debs" \
            -o APT::Sandbox::User=root -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
            -o Acquire::https::Timeout=20 "$@" >>"$work/apt.log" 2>&1
    }
    # shellcheck disable=SC2086
    fetch() { apt "$@" install --download-only --no-install-recommends $missing; }
    own="-o Dir::State::lists=$work/apt/lists"
    # shellcheck disable=SC2086
    fetch || { apt $own update && fetch $own; } ||
        skip "cannot fetch$missing: $(grep '^E:' "$work/apt.log" | head -1)"
    for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$root" || skip "cannot unpack $(basename "$deb")"; done
    say "unpacked$missing"
fi
PATH=$root/usr/bin:$root/usr/sbin:$root/bin:$root/sbin:$PATH:/usr/sbin:/sbin
export PATH
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
private_libraries=$root/usr/lib/$triplet:$root/lib/$triplet
cni=/usr/lib/cni
[ -d "$root/usr/lib/cni" ] && cni=$root/usr/lib/cni
busybox=$(command -v busybox)

# -- images and configuration --

"$python" "$here/containerd_images.py" "$busybox" "$work/images.tar" "$(uname -m)"
mkdir -p "$work/net.d" "$work/log"
cat >"$work/net.d/10-bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "kubelet-emu", "plugins": [
  {"type": "bridge", "bridge": "ke0", "isGateway": true,
   "ipam": {"type": "host-local", "dataDir": "$work/ipam", "ranges": [[{"subnet": "10.213.0.0/16"}]]}},
  {"type": "loopback"}]}
END
cat >"$work/containerd.toml" <<END
version = 2
root = "$work/lib"
state = "$work/run"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$work/containerd.sock"
[ttrpc]
  address = "$work/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "$work/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  sandbox_image = "localhost/kubelet-emu/pause:1"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$cni"
    conf_dir = "$work/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "SNAPSHOTTER"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "$(command -v runc)"
        Root = "$work/runc"
END
mkdir "$work/tmp"
TMPDIR=$work/tmp
export TMPDIR work python repo emu private_libraries

# -- inside the namespaces --

unshare --mount --pid --net --fork --kill-child --mount-proc --propagation slave \
    sh "$here/containerd_inside.sh" "$@" &
child=$!
code=0
wait "$child" || code=$?
child=
exit $code
