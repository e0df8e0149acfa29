"""Codes, their numbers and Go's names."""

import grpc
import pytest

from trio_grpc import Code, StatusError


def test_codes_are_those_of_grpc():
    assert {code.name: int(code) for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (Code.OK, "OK"),
        (Code.CANCELLED, "Canceled"),
        (Code.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (Code.NOT_FOUND, "NotFound"),
        (Code.UNAVAILABLE, "Unavailable"),
        (Code.INTERNAL, "Internal"),
    ],
)
def test_go_names(code, name):
    assert code.go_name == name


def test_text_of_an_error_is_that_of_go():
    assert str(StatusError(Code.NOT_FOUND, "x y")) == "rpc error: code = NotFound desc = x y"
    assert str(StatusError(Code.UNKNOWN)) == "rpc error: code = Unknown desc = "


def test_ok_is_no_error():
    with pytest.raises(ValueError, match="OK"):
        StatusError(Code.OK)
