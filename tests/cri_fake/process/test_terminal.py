"""A terminal in a container: echo, lines, erase, interrupt, end of file, an interactive shell."""

import trio
import trio.testing

from cri_fake.process.terminal import Terminal


def typed(data: bytes) -> tuple[bytes, list[int], Terminal]:
    shown: list[bytes] = []
    signals: list[int] = []
    terminal = Terminal(shown.append, signals.append)
    terminal.feed(data)
    return b"".join(shown), signals, terminal


def lines(data: bytes, count: int) -> list[bytes]:
    async def main():
        _, _, terminal = typed(data)
        return [await terminal.read(100) for _ in range(count)]

    return trio.run(main)


def in_trio(function, *arguments):
    async def main():
        return function(*arguments)

    return trio.run(main)


def test_typing_is_echoed_and_read_by_lines():
    assert in_trio(typed, b"ls\recho\r")[0] == b"ls\r\necho\r\n"
    assert lines(b"ls\recho x\r", 2) == [b"ls\n", b"echo x\n"]


def test_erase_and_kill():
    assert in_trio(typed, b"ab\x7f")[0] == b"ab\b \b"
    assert lines(b"abc\x7f\x7fd\r\x7f\x7fzz\x15y\r", 2) == [b"ad\n", b"y\n"]
    assert lines("ä\x7fb\r".encode(), 1) == [b"b\n"]


def test_interrupt_drops_the_line_and_signals():
    shown, signals, _ = in_trio(typed, b"abc\x03\x1c")
    assert (shown, signals) == (b"abc^C\r\n^\\\r\n", [2, 3])
    assert lines(b"abc\x03d\r", 1) == [b"d\n"]


def test_end_of_file_on_an_empty_line_and_in_a_line():
    assert lines(b"\x04", 1) == [b""]
    assert lines(b"ab\x04\x04", 2) == [b"ab", b""]


def test_lines_are_bounded():
    assert len(lines(b"x" * 10_000 + b"\r", 1)[0]) == 100


def session(in_box, *keys: tuple[float, bytes], argv=("sh",)):
    """What is shown while keys (seconds, bytes) are typed, and the exit code."""

    async def use(box):
        box.start(["sleep", "1000"])
        ours, theirs = trio.testing.memory_stream_pair()
        shown: list[bytes] = []
        handle = box.processes.start(
            argv, env={}, stdout=shown.append, stderr=shown.append, stdin=theirs, tty=True
        )
        for at, data in keys:
            await box.clock.sleep_until(at)
            await ours.send_all(data)
        with trio.move_on_after(100):
            await handle.wait()
            await handle.output_closed()
        return b"".join(shown).decode(), handle.exit_code

    return in_box(use)


def test_interactive_shell(in_box):
    shown, code = session(in_box, (1, b"echo hi\r"), (2, b"nosuch\r"), (3, b"exit 5\r"))
    assert shown == "/ # echo hi\r\nhi\r\n/ # nosuch\r\nsh: nosuch: not found\r\n/ # exit 5\r\n"
    assert code == 5


def test_interrupt_ends_the_command_not_the_shell(in_box):
    shown, code = session(in_box, (1, b"sleep 500\r"), (3, b"\x03"), (4, b"echo $?\r"), (5, b"\x04"))
    assert shown == "/ # sleep 500\r\n^C\r\n/ # echo $?\r\n130\r\n/ # "
    assert code == 0


def test_continued_lines_and_syntax_errors_do_not_end_the_shell(in_box):
    shown, code = session(in_box, (1, b"if true\rthen echo yes\rfi\r"), (2, b"fi\r"), (3, b"echo ok\r\x04"))
    assert "> then echo yes" in shown.replace("\r\n", " ") or "yes\r\n" in shown
    assert 'unexpected "fi"' in shown
    assert "ok\r\n" in shown
    assert code in (0, 2)


def test_terminal_is_one_for_test_and_tty(in_box):
    shown, code = session(in_box, argv=("sh", "-c", "[ -t 0 ] && [ -t 1 ] && tty; exit 3"))
    assert (shown, code) == ("/dev/pts/0\r\n", 3)


def test_hang_up_ends_an_interactive_shell(in_box):
    async def use(box):
        box.start(["sleep", "1000"])
        ours, theirs = trio.testing.memory_stream_pair()
        handle = box.processes.start(
            ["sh"], env={}, stdout=lambda data: None, stderr=lambda data: None, stdin=theirs, tty=True
        )
        await box.clock.sleep(1)
        await ours.aclose()
        with trio.move_on_after(10):
            await handle.wait()
        return handle.exit_code

    assert in_box(use) == 0
