#!/bin/sh
# Judges the emulated shell by Debian's busybox-static: 5,000 random scripts.
#
#   .ci/lanes/shell.sh [--required] PYTHON WORK
#
# The package is unpacked into WORK, not installed. Where it cannot be had, a busybox on the PATH serves; without
# one either, says so and ends with 0, with --required with 1.
set -eu

cd "$(dirname "$0")/../.."
required=0
[ "${1:-}" = --required ] && { required=1; shift; }
python=$1 work=$2
say() { echo "shell lane: $*"; }
mkdir -p "$work"
busybox=
if command -v apt-get >/dev/null && command -v dpkg >/dev/null &&
    (cd "$work" && apt-get download busybox-static >apt.log 2>&1 && dpkg -x busybox-static_*.deb root); then
    busybox=$(find "$work/root" -path '*/bin/busybox' -type f | head -1)
fi
[ -n "$busybox" ] || busybox=$(command -v busybox || true)
[ -n "$busybox" ] || { say 'skipped: no busybox-static to download and no busybox on the PATH'; exit $required; }
say "$("$busybox" 2>&1 | head -1)"
"$python" tests/cri_fake/process/judge.py --scripts "${SCRIPTS:-5000}" --busybox "$busybox"
