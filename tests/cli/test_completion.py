"""What a shell offers: names where there are names, files where files are meant."""

import pytest
from click.shell_completion import ShellComplete

from kubelet_emu.cli.verbs import cli


def offered(*words):
    *before, incomplete = words
    found = ShellComplete(cli, {}, "kubelet-emu", "_X").get_completions(before, incomplete)
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize("verb", ["run", "lint", "serve", "replay", "explain", "timeline", "view", "conform"])
def test_files_are_left_to_the_shell(verb):
    assert offered(verb, "./pod") == [("file", "./pod")]


def test_scenarios_recordings_and_machines_have_names():
    assert ("plain", "restart-all") in offered("conform", "restart-al")
    assert ("plain", "restart-all-regular-exit") in offered("explain", "restart-all-reg")
    assert ("plain", "recording:restart-all-regular-exit") in offered("view", "recording:restart-all-reg")
    assert offered("diagram", "full") == [("plain", "full-restart")]
