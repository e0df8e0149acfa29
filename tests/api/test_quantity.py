"""Quantities: the known answers of API-190 to API-197 and the laws of API-254."""

import pickle
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.quantity import Quantity, QuantityError, QuantityFormat

NANO = 10**9


@pytest.mark.parametrize(
    ("text", "value", "out"),
    [
        pytest.param(text, value, out, id=f"API-197-{text}")
        for text, value, out in [
            ("1024Mi", 2**30, "1Gi"),
            ("307200Ki", 300 * 2**20, "300Mi"),
            ("1000M", 10**9, "1G"),
            ("0.001T", 10**9, "1G"),
            ("5000m", 5, "5"),
            ("1.08", Fraction(108, 100), "1080m"),
            ("1080000000n", Fraction(108, 100), "1080m"),
            (".001e12", 10**9, "1e9"),
            ("1000e-12", Fraction(1, 10**9), "1e-9"),
            ("1.5Gi", 3 * 2**29, "1536Mi"),
            ("100.035k", 100035, "100.035k"),
            ("0.5Mi", 524288, "512Ki"),
            ("100.035Ki", Fraction(10243584, 100), "102435840m"),
            (".001Ki", Fraction(1024, 1000), "1024m"),
            (".000000000001Ki", Fraction(2, NANO), "2n"),
            ("3.001n", Fraction(4, NANO), "4n"),
            ("0.0000000001", Fraction(1, NANO), "1n"),
            ("1.1E-9", Fraction(2, NANO), "2e-9"),
            ("0.00000012345", Fraction(124, NANO), "124n"),
            ("9Ei", 2**63 - 1, "9223372036854775807"),
            ("12E", 12 * 10**18, "12E"),
            ("00", 0, "0"),
            ("0Ki", 0, "0"),
            ("0n", 0, "0"),
            ("-1024Mi", -(2**30), "-1Gi"),
        ]
    ],
)
def test_parse(text, value, out):
    quantity = Quantity(text)
    assert quantity.nanos == value * NANO
    assert str(quantity) == out


def test_binary_below_1024_prints_as_decimal_api_197():
    assert str(Quantity(1025, QuantityFormat.BINARY_SI)) == "1025"
    assert str(Quantity(1000, QuantityFormat.BINARY_SI)) == "1k"


@pytest.mark.parametrize("text", ["1.500", "+1Gi", "010", "1025Mi", "100.035k"])
def test_text_that_looks_canonical_is_echoed_api_194(text):
    assert str(Quantity(text)) == text
    assert str(Quantity(text) + Quantity(0)) == Quantity(text).canonical()


@pytest.mark.parametrize("text", ["-", ".", "Ki", "+"])
def test_lone_sign_dot_or_suffix_is_zero_api_191(text):
    assert Quantity(text).nanos == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        " 1",
        "1 ",
        "1K",
        "1KB",
        "1e99999999",
        "١",
        "1\n",
        "1e1000000000000",
    ],
)
def test_malformed_api_197(text):
    with pytest.raises(QuantityError) as caught:
        Quantity(text)
    assert caught.value.problems[0].message in {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        "unable to parse quantity's suffix",
        "unable to parse numeric part of quantity",
    }


@pytest.mark.parametrize(
    ("value", "out"),
    [("5", "5"), (5, "5"), (0.5, "500m"), (" 1Gi\n", "1Gi"), (None, "0"), (1e3, "1k")],
)
def test_from_json_api_195(value, out):
    assert Quantity.from_json(value).canonical() == out


@pytest.mark.parametrize("value", [True, [], {}])
def test_from_json_refuses_other_types(value):
    with pytest.raises(QuantityError):
        Quantity.from_json(value)


@pytest.mark.parametrize(
    ("scale", "out"), [(-3, "9010m"), (-2, "9010m"), (-1, "9100m"), (0, "10"), (1, "10"), (2, "100")]
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_round_up_api_197(sign, scale, out):
    assert Quantity(f"{sign}9.01").round_up(scale).canonical() == sign + out


def test_arithmetic_keeps_the_left_format_api_196():
    assert str(Quantity("100m") + Quantity("0")) == "100m"
    assert str(Quantity("0") + Quantity("1Gi")) == "1Gi"
    assert str(Quantity("0") - Quantity("1Gi")) == "-1Gi"
    assert str(Quantity("1Gi") + Quantity("1024")) == "1048577Ki"
    assert str(-Quantity("5") * 2) == "-10"


def test_values_round_away_from_zero_api_196():
    assert Quantity("1n").milli_value() == 1
    assert Quantity("-1n").value() == -1
    assert Quantity("1500m").value() == 2
    assert Quantity("1500m").scaled_value(3) == 1
    assert Quantity.from_milli(1500) == Quantity("1.5")


def test_it_cannot_be_changed():
    quantity = Quantity("1Gi")
    with pytest.raises(AttributeError):
        quantity.nanos = 1
    with pytest.raises(AttributeError):
        del quantity.nanos
    assert pickle.loads(pickle.dumps(quantity)) == quantity
    assert quantity != "1Gi"
    assert {Quantity("1"), Quantity("1000m")} == {Quantity(1)}


numbers = st.integers(-(10**12), 10**12)
suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"])


@st.composite
def quantities(draw):
    whole, fraction = draw(st.integers(0, 10**6)), draw(st.text("0123456789", max_size=12))
    sign, suffix = draw(st.sampled_from(["", "-", "+"])), draw(suffixes)
    return Quantity(f"{sign}{whole}{'.' + fraction if fraction else ''}{suffix}")


@settings(max_examples=150, deadline=None)
@given(quantities())
def test_text_is_read_back_api_254(quantity):
    assert Quantity(str(quantity)) == quantity
    canonical = quantity.canonical()
    assert Quantity(canonical) == quantity
    assert Quantity(canonical).canonical() == canonical


@settings(max_examples=150, deadline=None)
@given(quantities(), quantities())
def test_order_and_sums_are_those_of_the_values_api_254(left, right):
    assert (left < right) == (left.nanos < right.nanos)
    assert (left <= right) == (not left > right)
    assert (left == right) == (left >= right and right >= left)
    assert left + right == right + left
    assert (left + right) - right == left
    assert hash(left) == hash(Quantity(left))


@settings(max_examples=100, deadline=None)
@given(st.text("0123456789.+-eEKMGTPinumk ", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        quantity = Quantity(text)
    except QuantityError:
        return
    assert Quantity(quantity.canonical()) == quantity
