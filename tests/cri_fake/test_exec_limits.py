# pyright: basic
"""ExecSync's limits, and what streaming costs where nobody streams."""

import subprocess
import sys
from pathlib import Path

from cri_fake.profile import CONTAINERD_2

ROOT = Path(__file__).parents[2]


def test_output_is_cut_below_the_message_limit_and_the_command_goes_on_CRI_111(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        script = "yes | head -c 20000000; head -c 100 /dev/zero >&2; touch /done; exit 3"
        done = await rig.exec(container, "sh", "-c", script)
        assert done.exit_code == 3
        assert len(done.stdout) + len(done.stderr) == CONTAINERD_2.max_exec_output_bytes
        assert done.ByteSize() < 16 << 20
        assert (await rig.exec(container, "ls", "/done")).stdout == b"/done\n"

    drive(body)


def test_a_timeout_ends_the_command_with_its_children_CRI_110(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        begin = rig.clock.elapsed_seconds()
        script = "sleep 4321 & sleep 4322 & wait"
        code, text = await rig.refused(rig.exec(container, "sh", "-c", script, timeout=1))
        assert (code, "timeout 1s exceeded" in text) == ("DEADLINE_EXCEEDED", True)
        assert rig.clock.elapsed_seconds() - begin < 1.5
        left = await rig.exec(container, "sh", "-c", "ps | grep -c 'sleep 432[12]'")
        assert left.stdout == b"0\n"

    drive(body)


def test_nothing_of_streaming_is_loaded_before_the_first_stream():
    script = (
        "import sys, cri_fake.runtime, cri_fake.serving\n"
        "late = ('h11', 'wsproto', 'cri_fake.streaming.server', 'k8s_streams')\n"
        "print([name for name in late if name in sys.modules])"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'proto'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
