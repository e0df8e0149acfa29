"""Draws the pictures of the course anew: ``python docs/make_pictures.py``. Look at them before you commit."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from run_examples import ROOT, blocks

COURSE = ROOT / "docs" / "course"
PICTURES = {
    "01-a-pod-starts": ["hello.yaml", "--until", "5s"],
    "02-init-and-sidecars": ["sidecar.yaml", "--to", "15s"],
    "03-restart-policies": ["policies.yaml", "--until", "15s"],
    "04-crash-loops": ["crash.yaml", "--until", "3m"],
    "05-exit-code-rules": ["rules.yaml", "--to", "12s"],
    "06-restart-all-in-place": ["restart-all-regular-exit", "--to", "20s"],
    "07-probes": ["probes.yaml", "--until", "25s"],
    "08-the-end-of-a-pod": ["sidecars-stop-in-reverse-order", "--to", "20s"],
    "09-devices": ["device-kept-over-restart-all", "--to", "20s"],
    "10-a-kubelet-restarts": ["ready-survives-kubelet-restart"],
    "11-is-it-true": ["restart-all-regular-exit", "recording:restart-all-regular-exit", "--to", "20s"],
    "12-find-a-bug": ["found.yaml", "--to", "6s"],
}
"""What ``kubelet-emu timeline`` draws for each chapter, from the files in it or from a scenario."""

CASES = {
    "12-find-a-bug": """kubelet-emu-case: 1
duration: 20.0
bugs: [sandbox-recreated]
documents:
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers:
    - name: a
      image: busybox:1.36
      command: [sh, -c, exit 88]
      restartPolicy: Never
      restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}]
"""
}
"""What the fuzzer finds in a chapter, as it does each time; here it need not search."""


def main() -> None:
    """Write every picture."""
    for chapter, arguments in PICTURES.items():
        target = COURSE / "pictures" / f"{chapter[:2]}.svg"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "found.yaml").write_text(CASES.get(chapter, ""), encoding="utf-8")
            for language, content in blocks((COURSE / f"{chapter}.md").read_text(encoding="utf-8")):
                if language == "yaml":
                    name = content.partition("\n")[0].removeprefix("# file: ").strip()
                    (Path(folder) / name).write_text(content.partition("\n")[2], encoding="utf-8")
            subprocess.run(["kubelet-emu", "timeline", *arguments, "-o", str(target)], cwd=folder, check=True)
        print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
