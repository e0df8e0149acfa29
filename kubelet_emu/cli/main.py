"""Entry point of ``kubelet-emu``: runs a verb, turns errors into messages and exit codes.

Exit codes: 0 fine, 1 a check or invariant failed, 2 misuse or invalid input, 130 after Ctrl-C. Nothing but
``sys`` is imported before the handlers are in place, so that Ctrl-C is quiet from the first moment on.
"""

import sys

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_MISUSE", "EXIT_OK", "main"]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_MISUSE = 2
EXIT_INTERRUPTED = 130

_HINT_LONG = 60
"""A hint goes to a line of its own if it is longer than this."""


def main() -> None:
    """Run the command line; never ends in a traceback for bad input, Ctrl-C or a broken pipe."""
    try:
        _open_closed_streams()
        code = _run()
        _flush()
    except KeyboardInterrupt:
        _say("interrupted")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; that is no failure of ours, and nothing more can be said.
        code = EXIT_OK
        _silence()
    sys.exit(code)


def _open_closed_streams() -> None:
    """Python has None for a standard stream that was closed at the start (``>&-``): nothing is there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open("/dev/null", mode))  # noqa: SIM115 (open until the program ends)


def _run() -> int:
    import click

    from kubelet_emu.cli.verbs import cli
    from kubelet_emu.errors import CallerError, PeerError

    try:
        code = cli.main(prog_name="kubelet-emu", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        return EXIT_MISUSE
    except CallerError as error:
        _show_problems(error.problems)
        return EXIT_MISUSE
    except PeerError as error:
        _say(f"error: {error}")
        return EXIT_FAILED
    return code if isinstance(code, int) else EXIT_OK


def _show_problems(problems: "tuple[object, ...]") -> None:
    """One line a problem, as compilers write them, the hint below it where it is long."""
    for problem in problems:
        text, hint = str(problem), str(getattr(problem, "hint", ""))
        if len(hint) > _HINT_LONG and text.endswith(f" ({hint})"):
            text = f"{text[: -len(hint) - 3]}\n       {hint}"
        _say(f"error: {text}")
    if len(problems) > 1:
        _say(f"{len(problems)} problems; nothing has been run")


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except UnicodeEncodeError:
        print(text.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    except (BrokenPipeError, ValueError):
        pass


def _flush() -> None:
    sys.stdout.flush()


def _silence() -> None:
    """What is still buffered for a reader that has gone must not fail when the program ends."""
    import os

    with open(os.devnull, "w") as void:
        os.dup2(void.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
