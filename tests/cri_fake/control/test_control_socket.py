# pyright: basic, reportOptionalMemberAccess=false
"""The control socket: private, patient with nonsense, and gone with the runtime."""

import json
import socket
import stat

import pytest
import trio
from click.testing import CliRunner

from cri_fake.cli import main
from cri_fake.control.desk import Desk
from cri_fake.control.server import ask, serve_control
from node_host.faults import FaultPlan


def with_socket(drive, tmp_path, body):
    path = str(tmp_path / "ctl")

    async def inner(rig):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, path, Desk(rig.runtime, lambda: 0.5))
            await body(rig, path)
            nursery.cancel_scope.cancel()

    drive(inner, faults=FaultPlan())
    assert list(tmp_path.iterdir()) == []


async def exchange(path, data):
    stream = await trio.open_unix_socket(path)
    async with stream:
        await stream.send_all(data)
        received = b""
        with trio.move_on_after(30):
            while received.count(b"\n") < data.count(b"\n") or not received:
                got = await stream.receive_some(65536)
                if not got:
                    break
                received += got
    return [json.loads(line) for line in received.splitlines()]


def test_lines_in_lines_out_and_nobody_else_may(drive, tmp_path):
    async def body(rig, path):
        assert stat.S_IMODE((tmp_path / "ctl").stat().st_mode) == 0o600
        answers = await exchange(path, b"network not-ready\nexplode\n\xff\xfe\nfaults\n")
        assert [answer["ok"] for answer in answers] == [True, False, False, True]
        assert answers[0]["result"]["network"] == "not-ready"
        assert "is nothing that can happen" in answers[1]["error"]

    with_socket(drive, tmp_path, body)


def test_a_line_without_end_is_cut_off(drive, tmp_path):
    async def body(rig, path):
        (answer,) = await exchange(path, b"x" * 200_000)
        assert answer == {"ok": False, "error": "the command is longer than 65536 bytes"}

    with_socket(drive, tmp_path, body)


def test_clients_that_vanish_leave_nothing(drive, tmp_path):
    async def body(rig, path):
        for _ in range(30):
            stream = await trio.open_unix_socket(path)
            await stream.send_all(b"status\nstat")
            await stream.aclose()
        assert (await exchange(path, b"status\n"))[0]["ok"]

    with_socket(drive, tmp_path, body)


def test_a_live_control_socket_is_not_taken(drive, tmp_path):
    async def body(rig, path):
        with pytest.raises(OSError, match="another server listens"):
            await serve_control(path, Desk(rig.runtime, lambda: 0.5))

    with_socket(drive, tmp_path, body)


def test_nobody_there_is_a_clear_error(tmp_path):
    result = CliRunner().invoke(main, ["ctl", "--socket", str(tmp_path / "cri.sock"), "status"])
    assert result.exit_code == 2
    assert f"no runtime answers on {tmp_path / 'cri.sock'}.ctl" in result.output


def test_a_peer_that_hangs_up_is_an_error(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(1)

        async def main() -> None:
            async with trio.open_nursery() as nursery:

                async def hang_up() -> None:
                    connection, _ = await trio.to_thread.run_sync(listener.accept)
                    connection.close()

                nursery.start_soon(hang_up)
                with pytest.raises(OSError, match=r"reset|closed the connection|Broken pipe"):
                    await trio.to_thread.run_sync(ask, path, "status")

        trio.run(main)
