# pyright: basic, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false
"""The program is killed under load, again and again: what it had answered is there at the next start."""

import random
import threading
import time

import grpc
import pytest
from click.testing import CliRunner

from cri_fake.cli import main
from tests.cri_fake.grpc_client import Client, Served

CLIENTS = 6
LIVES = 3


class Load:
    """One client that makes and removes pods until its runtime dies; knows what it was answered."""

    def __init__(self, path, number, life):
        self._path = path
        self._name = f"pod-{life}-{number}"
        self.there = set()
        self.gone = set()
        self.open = set()
        """What was asked for and not answered: it may be there or not."""
        self.ended = ""

    def run(self):
        try:
            self._run()
        except grpc.RpcError as error:
            self.ended = error.code().name

    def _run(self):
        with Client(self._path) as client:
            for attempt in range(10_000):
                sandbox, config = client.pod(self._name, attempt)
                self.there.add(sandbox)
                container = client.container(sandbox, config, start=False, attempt=attempt)
                self.there.add(container)
                client.StartContainer(container_id=container)
                if attempt % 3 == 2:
                    self.open |= {sandbox, container}
                    client.RemovePodSandbox(pod_sandbox_id=sandbox)
                    self.open -= {sandbox, container}
                    self.there -= {sandbox, container}
                    self.gone |= {sandbox, container}


@pytest.mark.slow
def test_killed_under_load_and_started_again():
    """Slow: several starts of a program, each with some seconds of load."""
    rng = random.Random(4)
    there, gone, open_ends = set(), set(), set()
    served = Served()
    served.options = ("--state", str(served.folder / "state"), "--latency", "zero")
    with served:
        for life in range(LIVES):
            loads = [Load(served.path, number, life) for number in range(CLIENTS)]
            threads = [threading.Thread(target=load.run) for load in loads]
            for thread in threads:
                thread.start()
            time.sleep(rng.uniform(0.7, 1.5))
            served.kill()
            for thread in threads:
                thread.join(60)
            for load in loads:
                assert load.ended == "UNAVAILABLE"
                there |= load.there
                gone |= load.gone
                open_ends |= load.open
            served.start()
            with Client(served.path) as client:
                listed = {*client.pods(), *client.listed()}
            assert there - listed - open_ends == set()
            assert gone & listed == set()
            assert len(there) > CLIENTS
        assert len(gone) > CLIENTS


def test_state_and_logs_are_found_by_the_next_program():
    served = Served()
    served.options = ("--state", str(served.folder / "state"), "--latency", "zero", "--seed", "7")
    with served:
        with Client(served.path) as client:
            sandbox, config = client.pod("kept", log_directory="/var/log/pods/kept")
            container = client.container(
                sandbox, config, command=["sh", "-c", "echo hello; exit 4"], log_path="main/0.log"
            )
            before = client.exited(container)
        again = CliRunner().invoke(
            main, ["serve", "--socket", str(served.folder / "other"), "--state", str(served.folder / "state")]
        )
        assert again.exit_code == 2
        assert "in use by another runtime: stop it first" in again.output
        served.stop()
        served.start()
        with Client(served.path) as client:
            assert client.status(container) == before
            assert client.PodSandboxStatus(pod_sandbox_id=sandbox).status.state == 0
            log = served.folder / "state" / "node" / before.log_path.lstrip("/")
            assert log.read_text().endswith(" stdout F hello\n")
            # The same seed, and yet no id twice.
            other, _ = client.pod("other")
            assert other not in (sandbox, container)
