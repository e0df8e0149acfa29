"""Addresses: never two holders, none back at once, exhaustion is an error."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.network import REST_SECONDS, Ipam
from cri_fake.store.faults import Kind, Refused


def test_first_address_is_after_the_gateway() -> None:
    ipam = Ipam("10.88.0.0/24")
    assert ipam.acquire("a", now_seconds=0.0) == ("10.88.0.2",)
    assert ipam.acquire("b", now_seconds=0.0) == ("10.88.0.3",)


def test_freed_address_is_not_the_next_one_CRI_032() -> None:
    ipam = Ipam("10.88.0.0/24")
    (first,) = ipam.acquire("a", now_seconds=0.0)
    ipam.release("a", now_seconds=5.0)
    assert ipam.holder(first) is None
    assert ipam.acquire("b", now_seconds=100.0) != (first,)


def test_freed_address_rests_CRI_032() -> None:
    ipam = Ipam("10.88.0.0/30")
    assert ipam.acquire("a", now_seconds=0.0) == ("10.88.0.2",)
    ipam.release("a", now_seconds=10.0)
    with pytest.raises(Refused):
        ipam.acquire("b", now_seconds=10.0)
    assert ipam.acquire("b", now_seconds=10.0 + REST_SECONDS) == ("10.88.0.2",)


def test_exhaustion_is_an_error_with_the_range() -> None:
    ipam = Ipam("10.88.0.0/29")
    held = [ipam.acquire(str(n), now_seconds=0.0)[0] for n in range(5)]
    assert held == ["10.88.0.2", "10.88.0.3", "10.88.0.4", "10.88.0.5", "10.88.0.6"]
    with pytest.raises(Refused) as caught:
        ipam.acquire("one too many", now_seconds=0.0)
    assert caught.value.kind is Kind.UNKNOWN
    assert "no IP addresses available in range set: 10.88.0.1-10.88.0.6" in caught.value.text


def test_dual_stack_gives_one_of_each_and_takes_back_both_CRI_033() -> None:
    ipam = Ipam("10.88.0.0/30,fd00:88::/126")
    assert ipam.acquire("a", now_seconds=0.0) == ("10.88.0.2", "fd00:88::2")
    with pytest.raises(Refused):
        ipam.acquire("b", now_seconds=0.0)
    assert ipam.holder("fd00:88::3") is None
    ipam.release("a", now_seconds=0.0)
    assert ipam.holder("fd00:88::2") is None


def test_other_ranges_are_for_new_sandboxes_only_CRI_106() -> None:
    ipam = Ipam("10.88.0.0/24")
    (old,) = ipam.acquire("a", now_seconds=0.0)
    ipam.adopt("10.99.0.0/24")
    assert ipam.acquire("b", now_seconds=0.0) == ("10.99.0.2",)
    assert ipam.holder(old) == "a"
    ipam.adopt("10.88.0.0/24")
    assert ipam.acquire("c", now_seconds=0.0) == ("10.88.0.3",)


@pytest.mark.parametrize(
    "text", ["", "10.88.0.0/33", "10.88.0.0/31", "ten", "10.0.0.0/24,10.1.0.0/24", "10.0.0.0/24,"]
)
def test_malformed_ranges_are_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        Ipam(text)
    assert caught.value.kind is Kind.INVALID_ARGUMENT


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["10.0.0.0/30", "10.0.0.0/28", "127.64.0.0/12", "fd00::/64"]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.floats(0, 2)), max_size=60),
)
def test_no_two_holders_and_no_early_return_CRI_201(cidr: str, steps: list[tuple[bool, int, float]]) -> None:
    ipam = Ipam(cidr)
    held: dict[str, str] = {}
    freed: dict[str, float] = {}
    now = 0.0
    for acquire, number, passed in steps:
        now += passed
        holder = f"pod{number}"
        if acquire and holder not in held:
            try:
                (address,) = ipam.acquire(holder, now_seconds=now)
            except Refused:
                continue
            assert address not in held.values()
            assert now - freed.get(address, -REST_SECONDS) >= REST_SECONDS
            network = ipaddress.ip_network(cidr)
            assert ipaddress.ip_address(address) in network
            assert ipaddress.ip_address(address) != network.network_address
            assert network.version == 6 or ipaddress.ip_address(address) != network.broadcast_address
            held[holder] = address
        elif holder in held:
            freed[held.pop(holder)] = now
            ipam.release(holder, now_seconds=now)
