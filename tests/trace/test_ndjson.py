"""Reading traces: every bad line is named, nothing ends in a traceback."""

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.trace import read_lines

HEADER = '{"k":"header","format":1}'
POD = '{"k":"pod","t":1,"pod":"p","phase":%s,"conditions":%s,"containers":%s}'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "no records"),
        ([HEADER, "{"], "not JSON"),
        ([HEADER, "[1]"], "a record is a JSON object"),
        ([HEADER, '{"t":1}'], "a record has its kind under 'k'"),
        ([HEADER, '{"k":"note"}'], "has its time in seconds"),
        ([HEADER, '{"k":"note","t":NaN}'], "has its time in seconds"),
        ([HEADER, '{"k":"note","t":1e999}'], "has its time in seconds"),
        ([HEADER, '{"k":"note","t":true}'], "has its time in seconds"),
        ([HEADER, '{"k":"cri","t":1}'], "lacks m"),
        ([HEADER, POD % ("{}", "{}", "{}")], "texts under 'pod' and 'phase'"),
        ([HEADER, POD % ('"Running"', "[1]", "{}")], "an object under 'conditions'"),
        ([HEADER, POD % ('"Running"', '{"Ready":7}', "{}")], "'conditions': arrays by name"),
        ([HEADER, POD % ('"Running"', "{}", "3")], "an object under 'containers'"),
        ([HEADER, POD % ('"Running"', "{}", '{"c":3}')], "'containers': objects by name"),
        (['{"k":"header","format":1,"pods":5}'], "a list of names under 'pods'"),
        ([HEADER, HEADER], "the header is the first record"),
        (['{"k":"note","t":1}'], "the header is the first record"),
        (['{"k":"header","format":9}'], "format 9 is newer"),
        (['{"k":"header"}'], "under 'format'"),
        ([HEADER, "[" * 100_000], "not JSON"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "lines",
)
def test_bad_lines_are_named(lines, expected):
    with pytest.raises(CallerError) as caught:
        read_lines(lines, file="x.jsonl")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("x.jsonl")


def test_unknown_kinds_and_blank_lines_are_allowed():
    trace = read_lines([HEADER, "", '{"t":1.5,"k":"something-new","x":1}'])
    assert trace.records[0]["x"] == 1
    assert not trace.ordered
