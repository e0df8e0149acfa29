"""pytest plugin: a node as a fixture, and a marker for seeds.

::

    @pytest.mark.emulated(seeds=20)
    def test_the_worker_comes_back(emulated_node):
        emulated_node.apply("worker.yaml")
        emulated_node.advance("60s")
        assert emulated_node.check("final main.restartCount = 1").ok

The test runs once for each seed, on a node of its own that runs in virtual time. After it the invariants are
judged; one that did not hold fails the test. A failing test shows the timeline of each pod and how to get the
same run again.
"""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.session import Session

__all__ = ["emulated_node"]

MARKER = "emulated"
SEEDS_MAX = 10_000
_KNOWN = ("seeds", "seed", "devices", "gates", "transport", "latency", "invariants")
_SESSION = pytest.StashKey["Session"]()
_SEED = "emulated_seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--emulated-seed``: run tests with one seed, such as one that failed."""
    group = parser.getgroup("kubelet-emu")
    group.addoption(
        "--emulated-seed",
        type=int,
        default=None,
        metavar="N",
        help="run tests that use emulated_node with this seed only",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(seeds=1, *, seed=0, devices='', gates={{}}, transport='memory', latency='measured', "
        "invariants=True): how emulated_node is built; seeds=20 runs the test with seeds 0 to 19",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each seed."""
    if "emulated_node" not in metafunc.fixturenames:
        return
    asked = _asked(metafunc.definition.iter_markers(MARKER))
    only: int | None = metafunc.config.getoption("--emulated-seed")
    first = int(asked.get("seed", 0))
    seeds = [only] if only is not None else range(first, first + int(asked.get("seeds", 1)))
    metafunc.parametrize(_SEED, seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def emulated_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run of the test."""
    return int(getattr(request, "param", 0))


@pytest.fixture
def emulated_node(request: pytest.FixtureRequest, emulated_seed: int) -> "Generator[Session]":
    """A node of the test's own, as a ``kubelet_emu.Session``; see the marker ``emulated``."""
    from kubelet_emu.lab.session import Session

    node: pytest.Item = request.node
    asked = _asked(node.iter_markers(MARKER))
    with Session(_options(asked, emulated_seed)) as session:
        node.stash[_SESSION] = session
        yield session
        violated = [verdict for verdict in session.invariants if not verdict.holds]
    if violated and asked.get("invariants", True):
        lines = [f"seed {emulated_seed}: these invariants did not hold"]
        lines += [f"  {violation}" for verdict in violated for violation in verdict.violations]
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the pods' timelines with a failure."""
    report = yield
    session = item.stash.get(_SESSION, None)
    if session is not None and call.when == "call" and report.failed:
        report.sections.append(("emulated node", _story(item, session)))
    return report


def _story(item: pytest.Item, session: "Session") -> str:
    from kubelet_emu.errors import KubeletEmuError

    try:
        parts = [session.timeline(pod) for pod in session.trace.pods]
    except KubeletEmuError as error:
        parts = [f"the node is gone: {error}"]
    seed = item.funcargs.get(_SEED, 0) if isinstance(item, pytest.Function) else 0
    parts.append(f"the same run again: pytest {item.nodeid!r} --emulated-seed {seed}")
    return "\n\n".join(parts)


def _asked(markers: Any) -> Mapping[str, Any]:
    """What the markers say, the closest one winning. Raises ``pytest.UsageError``."""
    asked: dict[str, Any] = {}
    for marker in markers:
        given = dict(marker.kwargs)
        if marker.args:
            given["seeds"] = marker.args[0]
        for key, value in given.items():
            if key not in _KNOWN:
                raise pytest.UsageError(f"@pytest.mark.{MARKER} has no {key!r}; it has {', '.join(_KNOWN)}")
            asked.setdefault(key, value)
    seeds = asked.get("seeds", 1)
    if not isinstance(seeds, int) or not 1 <= seeds <= SEEDS_MAX:
        raise pytest.UsageError(
            f"@pytest.mark.{MARKER}: seeds is a number from 1 to {SEEDS_MAX}, not {seeds!r}"
        )
    return asked


def _options(asked: Mapping[str, Any], seed: int) -> "NodeOptions":
    from attrs import evolve

    from kubelet_emu.errors import CallerError
    from kubelet_emu.gates import Gates
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.settings import KubeletSettings

    try:
        options = NodeOptions(
            seed=seed,
            transport=asked.get("transport", "memory"),
            latency=asked.get("latency", "measured"),
            settings=KubeletSettings(gates=Gates(dict(asked.get("gates", {})))),
        )
        devices = str(asked.get("devices", ""))
        if devices:
            options = evolve(options, devices=_devices(devices))
    except CallerError as error:
        raise pytest.UsageError(f"@pytest.mark.{MARKER}: {error}") from None
    return options


def _devices(sources: str) -> Any:
    from devices.load import load_devices
    from devices.setup import DeviceProblem

    try:
        return tuple(setup for source in sources.split() for setup in load_devices(source))
    except DeviceProblem as error:
        raise pytest.UsageError(f"@pytest.mark.{MARKER}: devices: {error}") from None
