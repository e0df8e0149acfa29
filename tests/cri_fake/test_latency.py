"""Latencies: within what was measured, the same for the same seed, off when told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.latency import MEASURED, MeasuredLatency, Quantiles, ZeroLatency, make_latency
from node_host.randoms import Randoms


def draws(seed: int, method: str, count: int = 50) -> list[float]:
    latency = MeasuredLatency(Randoms(seed).stream)
    return [latency.draw(method) for _ in range(count)]


@pytest.mark.parametrize("method", sorted(MEASURED))
def test_draws_stay_within_the_table_CRI_192(method: str) -> None:
    name, _, variant = method.partition(" ")
    latency = MeasuredLatency(Randoms(3).stream)
    found = [latency.draw(name, variant) for _ in range(200)]
    table = MEASURED[method].seconds
    assert table[0] <= min(found) <= max(found) <= table[-1]
    assert list(table) == sorted(table)
    assert len(table) == 10


def test_seed_fixes_the_draws() -> None:
    assert draws(1, "RunPodSandbox") == draws(1, "RunPodSandbox")
    assert draws(1, "RunPodSandbox") != draws(2, "RunPodSandbox")


def test_one_method_does_not_move_another() -> None:
    latency = MeasuredLatency(Randoms(1).stream)
    for _ in range(7):
        latency.draw("StartContainer")
        latency.draw("ListContainers")
    assert latency.draw("RunPodSandbox") == draws(1, "RunPodSandbox")[0]


def test_median_is_the_recorded_one() -> None:
    found = sorted(draws(5, "StartContainer", 2001))
    assert found[1000] == pytest.approx(0.0587, rel=0.05)


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(low: float, high: float) -> None:
    table = Quantiles(tuple(float(n) for n in range(10)))
    assert table.at(min(low, high)) <= table.at(max(low, high))


def test_zero_switches_off() -> None:
    zero = make_latency("zero", Randoms(1).stream)
    assert isinstance(zero, ZeroLatency)
    assert (zero.draw("RunPodSandbox"), zero.transfer(10**9)) == (0.0, 0.0)


def test_factor_scales() -> None:
    slow = make_latency("x2", Randoms(1).stream)
    assert slow.draw("RunPodSandbox") == 2 * draws(1, "RunPodSandbox")[0]


@pytest.mark.parametrize("model", ["", "fast", "x", "x-1", "xnan", "x1e9"])
def test_unknown_model_says_what_there_is(model: str) -> None:
    with pytest.raises(ValueError, match="use 'measured', 'zero', or a factor"):
        make_latency(model, Randoms(1).stream)
