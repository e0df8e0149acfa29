"""Signals in a container, in virtual time: pid 1, traps, wait, children."""

import pytest

from cri_fake.process import Programs

TERM, KILL, INT, USR1 = 15, 9, 2, 10


def test_pid_1_without_a_trap_ignores_term_and_only_kill_ends_it(sh):
    done = sh("sleep 600", signals=[(5, TERM), (35, KILL)])
    assert (done.code, round(done.seconds)) == (137, 35)


def test_a_shell_script_as_pid_1_ignores_term(sh):
    done = sh("echo up\nsleep 10\necho down", signals=[(1, TERM)])
    assert (done.code, done.out, round(done.seconds)) == (0, "up\ndown\n", 10)


def test_trap_interrupts_wait_at_once(sh):
    done = sh("trap 'echo bye; exit 0' TERM; sleep 600 & wait", signals=[(5, TERM)])
    assert (done.code, done.out, round(done.seconds, 1)) == (0, "bye\n", 5.0)


def test_trap_waits_for_the_command_in_the_foreground(sh):
    done = sh("trap 'echo bye; exit 4' TERM\nsleep 8\necho never", signals=[(3, TERM)])
    assert (done.code, done.out, round(done.seconds)) == (4, "bye\n", 8)


def test_trap_may_sleep_before_it_exits(sh):
    done = sh("trap 'sleep 2; exit 3' TERM; sleep 600 & wait", signals=[(5, TERM)])
    assert (done.code, round(done.seconds)) == (3, 7)


def test_a_sleeping_trap_can_be_killed(sh):
    done = sh("trap 'sleep 9; exit 0' TERM; sleep 600 & wait", signals=[(5, TERM), (7, KILL)])
    assert (done.code, round(done.seconds)) == (137, 7)


def test_wait_returns_128_plus_n_and_the_script_goes_on(sh):
    done = sh("trap 'echo caught' USR1; sleep 20 & wait; echo $?; wait; echo $?", signals=[(3, USR1)])
    assert done.out == "caught\n138\n0\n"
    assert round(done.seconds) == 20


def test_ignored_signal_is_ignored_by_children_too(sh):
    done = sh("trap '' USR1; sleep 5 & kill -USR1 $!; wait $!; echo $?")
    assert (done.out, round(done.seconds)) == ("0\n", 5)


def test_children_die_of_term(sh):
    done = sh("sleep 600 & kill $!; wait $!; echo $?")
    assert done.out == "143\n"


def test_background_shell_without_trap_dies_of_term(sh):
    done = sh("(while true; do sleep 1; done) & sleep 3; kill $!; wait $!; echo $?")
    assert (done.out, round(done.seconds)) == ("143\n", 3)


def test_kill_9_of_pid_1_from_inside_does_nothing(sh):
    done = sh("kill -9 1; kill -9 $$; echo alive")
    assert (done.code, done.out) == (0, "alive\n")


def test_all_others_die_with_pid_1(in_box):
    async def use(box):
        first = box.start(["sh", "-c", "sleep 600 & sleep 3; exit 7"])[0]
        other = box.start(["sleep", "100"])[0]
        code = await first.wait()
        return code, other.exit_code, len(box.processes.processes), round(box.clock.elapsed_seconds())

    assert in_box(use) == (7, 137, 0, 3)


def test_kill_of_pid_1_kills_all(in_box):
    async def use(box):
        first, stamps, _ = box.start(["sh", "-c", "while true; do echo x; sleep 1; done & sleep 600"])
        await box.clock.sleep(2.5)
        first.signal(KILL)
        code = await first.wait()
        await box.clock.sleep(10)
        return code, len(stamps), len(box.processes.processes)

    assert in_box(use) == (137, 3, 0)


def test_an_exec_dies_of_term(in_box):
    async def use(box):
        box.start(["sleep", "600"])
        return await box.run(["sleep", "100"], signals=[(2, TERM)])

    done = in_box(use)
    assert (done.code, round(done.seconds)) == (143, 2)


def test_exec_time_limit_kills_the_tree(in_box):
    async def use(box):
        box.start(["sleep", "600"])
        handle = box.start(["sh", "-c", "sleep 50 & (sleep 60; echo) ; wait"])[0]
        await box.clock.sleep(1)
        before = len(box.processes.processes)
        handle.kill_tree()
        await handle.wait()
        await box.clock.sleep(0.1)
        return before, handle.exit_code, sorted(box.processes.processes)

    before, code, left = in_box(use)
    assert (before > 3, code, left) == (True, 137, [1])


def test_output_stays_open_while_a_child_holds_it(in_box):
    async def use(box):
        box.start(["sleep", "600"])
        handle = box.start(["sh", "-c", "sleep 5 & echo done"])[0]
        await handle.wait()
        ended = round(box.clock.elapsed_seconds())
        await handle.output_closed()
        return ended, round(box.clock.elapsed_seconds())

    assert in_box(use) == (0, 5)


def test_shared_pid_namespace_has_no_init(in_box):
    async def use(box):
        box.processes.own_pid_namespace = False
        return (await box.run(["sleep", "600"], signals=[(1, TERM)])).code

    assert in_box(use) == 143


def test_exit_trap_runs_at_the_end_and_keeps_the_code(sh):
    done = sh("trap 'echo end $?' EXIT; false; exit 3")
    assert (done.code, done.out) == (3, "end 3\n")


def test_exit_in_a_trap_without_a_code_gives_the_status_before_it(sh):
    done = sh("trap 'true; exit' TERM; sleep 60 & wait", signals=[(1, TERM)])
    assert done.code == 143


def test_traps_are_reset_in_subshells(sh):
    done = sh("trap 'echo T' TERM; (sleep 60; echo no) & sleep 1; kill $!; wait $!; echo $?")
    assert done.out == "143\n"


def test_trap_minus_restores_the_default_for_a_child_shell(sh):
    done = sh("sh -c 'trap \"echo T\" TERM; trap - TERM; kill $$; echo no'; echo $?")
    assert done.out == "143\n"


def test_read_is_interrupted_by_a_caught_signal(sh):
    script = "trap 'echo T; exit 5' TERM; sleep 600 | while read x; do :; done & mkfifo 2>/dev/null; wait"
    assert sh(script, signals=[(2, TERM)]).code == 5


def test_second_signal_during_a_trap_runs_it_again_afterwards(sh):
    done = sh("trap 'echo T; sleep 2' USR1; sleep 10 & wait; wait; wait", signals=[(1, USR1), (2, USR1)])
    assert done.stamps == [(1.0, "T\n"), (3.0, "T\n")]


def test_a_busy_loop_lets_time_pass(in_box):
    async def use(box):
        handle = box.start(["sh", "-c", "while true; do :; done"])[0]
        await box.clock.sleep(300)
        handle.signal(KILL)
        return await handle.wait(), round(box.clock.elapsed_seconds())

    assert in_box(use) == (137, 300)


def test_a_loop_of_commands_lets_time_pass(in_box):
    async def use(box):
        handle = box.start(["sh", "-c", "until [ -f /stop ]; do x=$(date); done"])[0]
        await box.clock.sleep(60)
        box.files.write("/stop", b"")
        code = await handle.wait()
        return code, round(box.clock.elapsed_seconds())

    code, seconds = in_box(use)
    assert code == 0
    assert 60 <= seconds <= 62


def test_opaque_program_as_pid_1_ends_on_term(in_box):
    async def use(box):
        return await box.run(["nginx", "-g", "daemon off;"], signals=[(9, TERM)])

    done = in_box(use, programs=Programs(opaque_unknown=True))
    assert (done.code, round(done.seconds)) == (143, 9)


def test_opaque_program_can_be_told_to_end(in_box):
    async def use(box):
        handle = box.start(["nginx"])[0]
        await box.clock.sleep(4)
        handle.tell(6)
        return await handle.wait()

    assert in_box(use, programs=Programs(opaque_unknown=True)) == 6


def test_pause_ends_with_0(in_box):
    async def use(box):
        return await box.run(["/bin/busybox", "pause"], signals=[(1, TERM)])

    assert in_box(use).code == 0


@pytest.mark.parametrize("number", [1, 2, 3, 15])
def test_signals_by_number_and_name(sh, number):
    names = {1: "HUP", 2: "INT", 3: "QUIT", 15: "TERM"}
    done = sh(f"trap 'echo {number}; exit' {names[number]}; sleep 5 & wait", signals=[(1, number)])
    assert done.out == f"{number}\n"
