"""Starting processes: what the runtime refuses, in whose words; environment, user and opaque programs."""

import pytest

from cri_fake.process import Exit, Mount, Proc, Programs, StartFailed, scratch_tree

_CREATE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)
_EXEC = "OCI runtime exec failed: exec failed: unable to start container process: "

REFUSALS = [
    pytest.param(["nosuch"], 'exec: "nosuch": executable file not found in $PATH', id="CRI-042-not-on-path"),
    pytest.param(["/nosuch"], 'exec: "/nosuch": stat /nosuch: no such file or directory', id="CRI-042-file"),
    pytest.param(["/etc/passwd"], 'exec: "/etc/passwd": permission denied', id="CRI-042-not-executable"),
    pytest.param(["/tmp"], 'exec: "/tmp": is a directory', id="CRI-042-folder"),
    pytest.param([], "args must not be empty", id="CRI-042-nothing"),
]


@pytest.mark.parametrize(("argv", "text"), REFUSALS)
def test_refused_as_first_process(in_box, argv, text):
    async def use(box):
        with pytest.raises(StartFailed) as raised:
            box.start(argv)
        return raised.value.exit_code, raised.value.message

    assert in_box(use) == (128, f"{_CREATE}{text}: unknown")


@pytest.mark.parametrize(("argv", "text"), REFUSALS)
def test_refused_as_exec(in_box, argv, text):
    async def use(box):
        box.start(["sleep", "100"])
        with pytest.raises(StartFailed) as raised:
            box.start(argv)
        return raised.value.message

    assert in_box(use) == f"{_EXEC}{text}: unknown"


def test_no_exec_once_the_container_has_stopped(in_box):
    async def use(box):
        await box.run(["true"])
        with pytest.raises(StartFailed):
            box.start(["true"])

    in_box(use)


def test_file_of_no_known_format_starts_and_ends_at_once(in_box):
    async def use(box):
        return await box.run(["/app"])

    done = in_box(use, image_files={"/app": b"\x7fELF not ours"})
    assert (done.code, done.err) == (255, "exec /app: exec format error\n")


def test_script_with_interpreter_as_first_process(in_box):
    async def use(box):
        return await box.run(["/run.sh", "a"])

    done = in_box(use, image_files={"/run.sh": b"#!/bin/sh\necho $0 $1 $$\n"})
    assert (done.code, done.out) == (0, "/run.sh a 1\n")


def test_missing_interpreter_is_refused(in_box):
    async def use(box):
        with pytest.raises(StartFailed, match="no such file"):
            box.start(["/run.sh"])

    in_box(use, image_files={"/run.sh": b"#!/bin/bash\necho\n"})


def test_environment_and_working_directory(in_box):
    async def use(box):
        return await box.run(["sh", "-c", "echo $A $HOSTNAME $HOME; pwd"], env={"A": "1"}, cwd="/new/dir")

    assert in_box(use).out == "1 box /root\n/new/dir\n"


def test_standard_input_is_given_or_empty(sh):
    assert sh("cat; echo end", stdin=b"typed\n").out == "typed\nend\n"
    assert sh("cat; echo end").out == "end\n"


def test_same_file_system_for_execs(in_box):
    async def use(box):
        box.start(["sh", "-c", "touch /tmp/ready; sleep 60"])
        await box.clock.sleep(1)
        good = await box.run(["test", "-f", "/tmp/ready"])
        bad = await box.run(["cat", "/tmp/other"])
        return good.code, bad.code, bad.err

    assert in_box(use) == (0, 1, "cat: can't open '/tmp/other': No such file or directory\n")


def test_last_command_replaces_the_shell(in_box):
    async def use(box):
        box.start(["sh", "-c", "sleep 60"])
        await box.clock.sleep(1)
        return {pid: proc.argv for pid, proc in box.processes.processes.items()}

    assert in_box(use) == {1: ["sleep", "60"]}


def test_user_program(in_box):
    async def server(proc: Proc) -> int:
        await proc.write(f"{proc.args} {proc.env['A']}\n")
        await proc.sleep(5)
        raise Exit(7)

    programs = Programs(user={"server": server})

    async def use(box):
        return await box.run(["server", "--port", "80"], env={"A": "1"})

    done = in_box(use, programs=programs)
    assert (done.code, done.out, round(done.seconds)) == (7, "['--port', '80'] 1\n", 5)


def test_user_program_is_found_by_a_shell_and_by_path(in_box):
    async def program(proc: Proc) -> int:
        await proc.write("mine\n")
        return 0

    programs = Programs()
    programs.add("/opt/app", program)
    programs.add("ls", program)

    async def use(box):
        return await box.run(["sh", "-c", "/opt/app; ls; command -v ls"])

    assert in_box(use, programs=programs).out == "mine\nmine\nls\n"


def test_failing_user_program_ends_with_1_and_does_not_harm_the_node(in_box):
    async def broken(proc: Proc) -> int:
        raise ValueError("oops")

    async def use(box):
        return await box.run(["broken"])

    done = in_box(use, programs=Programs(user={"broken": broken}))
    assert (done.code, done.err) == (1, "broken: program failed: ValueError: oops\n")


def test_opaque_image_runs_unknown_programs_where_they_may_go_on(in_box):
    async def use(box):
        first = await box.run(["sh", "-c", "apt-get update; echo $?"])
        return first.code, first.out, first.err

    code, out, err = in_box(use, programs=Programs(opaque_unknown=True))
    assert (code, out) == (0, "127\n")
    assert "not emulated" in err


def test_opaque_program_behind_exec_is_pid_1(in_box):
    async def use(box):
        handle = box.start(["sh", "-c", "echo starting; exec java -jar app.jar"])[0]
        await box.clock.sleep(100)
        running = handle.exit_code
        handle.signal(15)
        return running, await handle.wait()

    assert in_box(use, programs=Programs(opaque_unknown=True)) == (None, 143)


def test_scratch_image_has_no_shell(in_box):
    async def use(box):
        with pytest.raises(StartFailed):
            box.start(["sh"])

    in_box(use, image=scratch_tree())


def test_fork_bomb_is_bounded(in_box):
    async def use(box):
        handle = box.start(["sh", "-c", "f() { f & f; }; f"])[0]
        await box.clock.sleep(30)
        count = len(box.processes.processes)
        handle.signal(9)
        await handle.wait()
        await box.clock.sleep(1)
        return count, len(box.processes.processes)

    count, left = in_box(use)
    assert count <= 1024
    assert left == 0


def test_endless_recursion_is_an_error_of_the_script(sh):
    done = sh("f() { f; }; f; echo no")
    assert (done.code, done.out) == (2, "")
    assert "nested deeper" in done.err


def test_deep_text_is_an_error_of_the_script(sh):
    for script in (
        "(" * 5000,
        "$(" * 5000,
        "${a:-" * 5000,
        "if " * 5000,
        "echo $((" + "(" * 5000,
        '"$(' * 3000,
    ):
        done = sh(script)
        assert done.code == 2, script[:10]
        assert "error" in done.err


def test_huge_output_of_a_substitution_is_an_error(sh):
    done = sh("x=$(yes); echo no")
    assert (done.code, done.out) == (2, "")
    assert "16 MiB" in done.err


def test_same_seed_same_run(in_box):
    script = "for i in 1 2 3; do (echo a$i; echo $RANDOM) & done; wait; mktemp; shuf -e a b c d e"

    async def use(box):
        done = await box.run(["sh", "-c", script])
        return done.out

    assert in_box(use, seed=5) == in_box(use, seed=5)


def test_volumes_are_seen_by_nc_and_wget_across_containers(in_box):
    async def use(box):
        box.start(["sh", "-c", "echo page > /tmp/index.html; httpd -f -p 8080 -h /tmp"])
        await box.clock.sleep(1)
        got = await box.run(["wget", "-qO-", "http://127.0.0.1:8080/"])
        refused = await box.run(["nc", "-w", "1", "127.0.0.1", "9999"])
        return got.out, refused.code

    assert in_box(use) == ("page\n", 1)


def test_nc_listens_once(in_box):
    async def use(box):
        server, stamps, _ = box.start(["sh", "-c", "nc -l -p 8080; echo closed $?"])
        await box.clock.sleep(1)
        stream = await box.processes.net.connect("10.0.0.9", 8080)
        await stream.send_all(b"hello\n")
        await stream.aclose()
        code = await server.wait()
        return code, "".join(text for _, text in stamps)

    assert in_box(use) == (0, "hello\nclosed 0\n")


def test_mount_of_etc_hosts_names_hosts(in_box):
    async def use(box):
        return await box.run(["nslookup", "web"])

    mounts = [Mount("/etc/hosts", "/pod/hosts", False)]
    done = in_box(use, mounts=mounts, node={"/pod/hosts": b"10.1.2.3 web\n"})
    assert (done.code, done.out) == (0, "Name:\tweb\nAddress: 10.1.2.3\n\n")
