"""Times, durations, image references and names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api import names
from kubelet_emu.api.durations import DurationError, format_duration, parse_duration
from kubelet_emu.api.images import ImageName, default_pull_policy, parse_image_name
from kubelet_emu.api.times import (
    TimeError,
    format_micro,
    format_nano,
    format_nano9,
    format_seconds,
    parse_rfc3339,
)

MOMENT = 1_767_323_045_000_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-01-02T03:04:05Z", MOMENT),
        ("2026-01-02t03:04:05z", MOMENT),
        ("2026-01-02T05:34:05+02:30", MOMENT),
        ("2026-01-01T22:04:05-05:00", MOMENT),
        ("2026-01-02T03:04:05.000000007Z", MOMENT + 7),
        ("2026-01-02T03:04:05.1234567899Z", MOMENT + 123_456_789),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
    ],
)
def test_time_is_read_api_201(text, ns):
    assert parse_rfc3339(text) == ns


@pytest.mark.parametrize("text", ["", "2026-01-02", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05", "now"])
def test_time_is_refused_api_201(text):
    with pytest.raises(TimeError):
        parse_rfc3339(text)


def test_time_is_written_api_201():
    moment = MOMENT + 120_000_700
    assert format_seconds(moment) == "2026-01-02T03:04:05Z"
    assert format_micro(moment) == "2026-01-02T03:04:05.120000Z"
    assert format_nano9(moment) == "2026-01-02T03:04:05.120000700Z"
    assert format_nano(moment) == "2026-01-02T03:04:05.1200007Z"
    assert format_nano(MOMENT) == "2026-01-02T03:04:05Z"


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**18), 4 * 10**18))
def test_time_is_read_back(ns):
    assert parse_rfc3339(format_nano9(ns)) == ns
    assert parse_rfc3339(format_nano(ns)) == ns


@pytest.mark.parametrize(
    ("text", "ns", "out"),
    [
        ("1h2m3.5s", 3_723_500_000_000, "1h2m3.5s"),
        ("300ms", 300_000_000, "300ms"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("1m", 60_000_000_000, "1m0s"),
        ("0", 0, "0s"),
        ("-1.5s", -1_500_000_000, "-1.5s"),
        ("+2us", 2_000, "2µs"),
        ("1µs", 1_000, "1µs"),
        (".5s", 500_000_000, "500ms"),
        ("7ns", 7, "7ns"),
    ],
)
def test_duration_api_202(text, ns, out):
    assert parse_duration(text) == ns
    assert format_duration(ns) == out


@pytest.mark.parametrize("text", ["", "5", "1x", "s", "1s2", "-", "1 s", "99999999999h"])
def test_duration_is_refused_api_202(text):
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("reference", "parts", "policy"),
    [
        ("busybox", ImageName("docker.io/library/busybox"), "Always"),
        ("busybox:1.36", ImageName("docker.io/library/busybox", "1.36"), "IfNotPresent"),
        ("a/b:latest", ImageName("docker.io/a/b", "latest"), "Always"),
        ("localhost/x", ImageName("localhost/x"), "Always"),
        ("registry:5000/x/y:v1", ImageName("registry:5000/x/y", "v1"), "IfNotPresent"),
        ("docker.io/busybox", ImageName("docker.io/library/busybox"), "Always"),
        ("[::1]:80/x", ImageName("[::1]:80/x"), "Always"),
    ],
)
def test_image_reference_api_015(reference, parts, policy):
    assert parse_image_name(reference) == parts
    assert default_pull_policy(reference) == policy


def test_image_digest_api_015():
    digest = "sha256:" + "0" * 64
    assert default_pull_policy(f"img@{digest}") == "IfNotPresent"
    assert default_pull_policy(f"img:latest@{digest}") == "Always"
    assert str(parse_image_name(f"img:v1@{digest}")) == f"docker.io/library/img:v1@{digest}"


@pytest.mark.parametrize(
    "reference", ["", "Upper", "a b", "a:", "a@sha256:12", "a" * 300, "0" * 64, "a//b", ":x"]
)
def test_malformed_image_is_pulled_if_not_present_api_015(reference):
    assert parse_image_name(reference) is None
    assert default_pull_policy(reference) == "IfNotPresent"


@pytest.mark.parametrize(
    ("check", "text", "starts"),
    [
        pytest.param(names.label_problems, "a.b", ["must not contain dots"], id="API-051-dots"),
        pytest.param(names.label_problems, "a\n", ["a lowercase RFC 1123 label"], id="API-051-newline"),
        pytest.param(
            names.label_problems,
            "A" * 64,
            ["must be no more than 63 characters", "a lowercase RFC 1123 label"],
            id="API-051-long",
        ),
        pytest.param(names.label_problems, "a" * 63, [], id="API-050-63"),
        pytest.param(names.subdomain_problems, "a.b-c.d", [], id="API-050-subdomain"),
        pytest.param(
            names.subdomain_problems, "a..b", ["a lowercase RFC 1123 subdomain"], id="API-050-empty"
        ),
        pytest.param(
            names.qualified_name_problems,
            "/a",
            ["prefix part must be non-empty"],
            id="API-050-prefix",
        ),
        pytest.param(
            names.qualified_name_problems,
            "a/",
            ["name part must be non-empty", "name part must consist of alphanumeric"],
            id="API-050-name",
        ),
        pytest.param(
            names.qualified_name_problems,
            "a/b/c",
            ["a valid label key must consist of"],
            id="API-050-slashes",
        ),
        pytest.param(
            names.qualified_name_problems,
            "A/b",
            ["prefix part a lowercase RFC 1123"],
            id="API-050-bad-prefix",
        ),
        pytest.param(
            names.qualified_name_problems,
            "a" * 64,
            ["name part must be no more than 63 bytes"],
            id="API-051-bytes",
        ),
        pytest.param(names.label_value_problems, "", [], id="API-050-empty-value"),
        pytest.param(names.label_value_problems, "-", ["a valid label must be"], id="API-050-value"),
        pytest.param(names.port_name_problems, "80", ["must contain at least one letter"], id="API-230-80"),
        pytest.param(
            names.port_name_problems, "a.b.c", ["must contain only alpha-numeric"], id="API-230-dots"
        ),
        pytest.param(names.port_name_problems, "a" * 16, ["must be no more than 15"], id="API-230-long"),
        pytest.param(
            names.port_name_problems,
            "-a--b",
            ["must not contain consecutive", "must not begin or end"],
            id="API-121-hyphens",
        ),
        pytest.param(names.env_name_problems, "!\"#$%&'()", [], id="API-230-env-1"),
        pytest.param(names.env_name_problems, ":;<>?@", [], id="API-230-env-2"),
        pytest.param(names.env_name_problems, "[\\]^_`{}|~", [], id="API-230-env-3"),
        pytest.param(names.env_name_problems, "with blanks", [], id="API-230-env-4"),
        pytest.param(names.env_name_problems, "A=B", ["a valid environment variable name"], id="API-123"),
        pytest.param(
            names.header_name_problems, "X_Forwarded_For", ["a valid HTTP header"], id="API-230-header"
        ),
        pytest.param(names.header_name_problems, "Host:", ["a valid HTTP header"], id="API-230-colon"),
        pytest.param(names.config_key_problems, "..a", ["must not start with '..'"], id="API-127"),
        pytest.param(names.config_key_problems, ".", ["must not be '.'"], id="API-127-dot"),
        pytest.param(names.ip_problems, "010.0.0.1", ["must not have leading 0s"], id="API-155-zeros"),
        pytest.param(
            names.ip_problems, "::ffff:1.2.3.4", ["must not be an IPv4-mapped"], id="API-155-mapped"
        ),
        pytest.param(names.ip_problems, "fd00::1", [], id="API-155"),
        pytest.param(names.ip_problems, "x", ["must be a valid IP address"], id="API-155-text"),
        pytest.param(names.search_domain_problems, ".", [], id="API-154-dot"),
        pytest.param(names.search_domain_problems, "_a.b_c.", [], id="API-154-underscore"),
        pytest.param(names.search_domain_problems, "A", ["a lowercase RFC 1123"], id="API-154-upper"),
    ],
)
def test_name_problems(check, text, starts):
    found = check(text)
    assert len(found) == len(starts)
    assert all(message.startswith(start) for message, start in zip(found, starts, strict=True))


def test_pattern_message_in_full_api_050():
    assert names.label_problems("A") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
        "start "
        "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert names.subdomain_problems("_")[0].endswith(
        "(e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
