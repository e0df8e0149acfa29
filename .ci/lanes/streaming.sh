#!/bin/sh
# Talks SPDY/3.1 to `cri-fake serve` with a client that is not ours: npm's spdy-transport.
#
#   .ci/lanes/streaming.sh [--required] PYTHON WORK
#
# Installs the client into WORK. Says why if it cannot run, and ends with 0 then; with --required, with 1.
set -eu

cd "$(dirname "$0")/../.."
required=0
[ "${1:-}" = --required ] && { required=1; shift; }
python=$1 work=$2
say() { echo "streaming lane: $*"; }
skip() { say "skipped: $*"; exit $required; }

command -v node >/dev/null && command -v npm >/dev/null || skip 'node and npm are not on the PATH'
mkdir -p "$work"
cp .ci/lanes/streaming/package.json .ci/lanes/streaming/client.js "$work/"
(cd "$work" && npm install --no-audit --no-fund --ignore-scripts >npm.log 2>&1) ||
    skip "npm cannot install spdy-transport: $(grep -i error "$work/npm.log" | head -1)"
say "node $(node --version), spdy-transport $(node -p "require('$work/node_modules/spdy-transport/package.json').version")"
"$python" .ci/lanes/streaming/drive.py "$work"
