#!/bin/sh
# Uses the page of `kubelet-emu view` in Debian's chromium, as a person would.
#
#   .ci/lanes/browser.sh [--required] [PYTHON]
#
# A chromium that is there already is used ($CHROMIUM, or chromium on the PATH); else Debian's packages are
# unpacked into a temporary folder, not installed. Says why if it cannot run, and ends with 0 then; with
# --required, with 1.
set -eu

cd "$(dirname "$0")/../.."
required=0
[ "${1:-}" = --required ] && { required=1; shift; }
python=${1:-python3}
say() { echo "browser lane: $*"; }
skip() { say "skipped: $*"; exit $required; }
work=$(mktemp -d /tmp/ke-browser.XXXXXX)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import pytest, trio' 2>/dev/null || skip "$python lacks pytest or the dependencies of kubelet-emu"
browser=${CHROMIUM:-$(command -v chromium || true)}
if [ -z "$browser" ]; then
    [ -r /etc/debian_version ] && command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip 'no chromium, and this is not Debian'
    mkdir -p "$work/debs/partial" "$work/root"
    fetch() {
        apt-get -qq -y -o "Dir::Cache::archives=$work/debs" -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=60 \
            install --download-only --no-install-recommends chromium fonts-dejavu-core >"$work/apt.log" 2>&1
    }
    fetch || { apt-get -qq update >>"$work/apt.log" 2>&1 && fetch; } ||
        skip "cannot fetch chromium: $(grep '^E:' "$work/apt.log" | head -1)"
    for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
    triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
    browser=$work/chromium
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
        "$work/root/usr/lib/$triplet:$work/root/lib/$triplet:$work/root/usr/lib/$triplet/pulseaudio" \
        "$work/root/usr/lib/chromium/chromium" >"$browser"
    chmod +x "$browser"
    say 'unpacked chromium'
fi
version=$("$browser" --headless=new --no-sandbox --version 2>/dev/null) || skip "$browser does not start"
say "$version"
CHROMIUM=$browser "$python" -m pytest -q -m slow -p no:cacheprovider tests/browser
