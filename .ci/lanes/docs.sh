#!/bin/sh
# Runs every shell example of the documentation as written, then builds it strictly.
#
#   .ci/lanes/docs.sh [PYTHON]
#
# PYTHON has kubelet-emu installed, and its command beside it; Sphinx, MyST and Furo are installed into a folder
# of their own. Says why if it cannot run, and ends with 0 then.
set -eu

cd "$(dirname "$0")/../.."
python=${1:-python3}
say() { echo "docs lane: $*"; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ke-docs.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" -c 'import kubelet_emu' 2>/dev/null || { say "skipped: $python does not have kubelet-emu"; exit 0; }
scripts=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
[ -x "$scripts/kubelet-emu" ] || {
    mkdir -p "$work/bin"
    printf '#!/bin/sh\nexec "%s" -m kubelet_emu "$@"\n' "$(command -v "$python")" >"$work/bin/kubelet-emu"
    chmod +x "$work/bin/kubelet-emu"
    scripts=$work/bin
}
PATH=$scripts:$PATH
export PATH

"$python" docs/run_examples.py
"$python" -m venv "$work/venv" && "$work/venv/bin/python" -m pip install -q . 'sphinx>=8' 'myst-parser>=4' 'furo>=2024.8' ||
    { say 'skipped the build: Sphinx, MyST or Furo cannot be installed'; exit 0; }
cp -r docs "$work/source"
"$work/venv/bin/python" "$work/source/make_reference.py" "$work/source/reference"
"$work/venv/bin/python" -m sphinx -W --keep-going -q -b html "$work/source" "$work/html"
say "built $(find "$work/html" -name '*.html' | wc -l) pages without a warning"
