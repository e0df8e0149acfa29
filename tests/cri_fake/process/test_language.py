"""The pure parts of the shell: parser, arithmetic, patterns, printf, quoting, field splitting."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cri_fake.process.applets.awk_parser import AwkError, parse_awk
from cri_fake.process.posix_regex import RegexError, compile_posix
from cri_fake.process.shell.arith import ArithmeticError_, evaluate
from cri_fake.process.shell.fields import Fields, piece_text
from cri_fake.process.shell.nodes import Literal, Simple
from cri_fake.process.shell.parser import parse
from cri_fake.process.shell.pattern import escape, has_magic, matches, remove_prefix, remove_suffix, unescape
from cri_fake.process.shell.printf import format_printf, unescape_echo
from cri_fake.process.shell.quote import quote
from cri_fake.process.shell.testexpr import TestError, evaluate_test

_TOKENS = """
if then else fi while do done for in case esac { } ( ) ; ;; & && || | < > << >> 2>&1 <<E E ' " ` $( $(( ))
${x :-
# % / } $x $@ $? a b * [ ] ! = x=1 f() function [[ ]] ~ - 1 + é
"""
_SCRIPT_BITS = st.lists(st.sampled_from(["\n", "\\", *_TOKENS.split()]), max_size=25)
_AWK_TOKENS = """
{ } ( ) print printf $1 $ x [ ] = == + ; , if else for in while /a/ ~ BEGIN END getline
"""


@settings(max_examples=150, deadline=None)
@given(st.one_of(_SCRIPT_BITS.map(" ".join), _SCRIPT_BITS.map("".join), st.text(max_size=40)))
@example("a <<E <<'F'\n$x\nE\ny\nF\n")
@example("$((1+(2)) )")
def test_any_text_parses_or_names_a_line(text):
    script = parse(text)
    if script.error is not None:
        assert 1 <= script.error.line <= text.count("\n") + 1
        assert script.error.message.startswith("syntax error")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a=(1 2)", 1, 'unexpected "("'),
        ("echo\ncat <<< x", 2, "unexpected redirection"),
        ("if true\nthen\n", 3, "unexpected end of file"),
        ("x\ny\n)", 3, 'unexpected ")"'),
        ("echo 'a\nb", 1, "unterminated quoted string"),
        ("for 1 in a; do :; done", 1, "bad for loop variable"),
        ("echo ${a!b}", 1, "bad substitution"),
        ("case a in b) echo", 1, "unexpected end of file"),
        ("! ! true", 1, 'unexpected "!"'),
        ("a && && b", 1, 'unexpected "&&"'),
        ("done", 1, 'unexpected "done"'),
        ("diff <(a) <(b)", 1, 'unexpected "("'),
        ("{ echo a", 1, "unexpected end of file"),
        ("a ; ; b", 1, 'unexpected ";"'),
    ],
)
def test_unsupported_and_broken_constructs_name_their_line(text, line, message):
    error = parse(text).error
    assert error is not None
    assert error.line == line
    assert message in error.message


def test_commands_before_an_error_are_kept():
    script = parse("echo a\necho b\nfi\n")
    assert len(script.commands) == 2
    assert script.error is not None


def test_scripts_are_cached():
    assert parse("echo cached") is parse("echo cached")


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_quoted_text_parses_back_to_itself(text):
    script = parse(f"echo {quote(text)}")
    command = script.commands[0][0]
    assert isinstance(command, Simple)
    words = command.words[1]
    found = "".join(
        part.text if isinstance(part, Literal) else "".join(inner.text for inner in part.parts)
        for part in words
    )
    assert found == text


_NUMBERS = st.integers(-50, 50)
_EXPRESSIONS = st.recursive(
    _NUMBERS.map(lambda number: f"({number})"),
    lambda inner: st.tuples(
        inner, st.sampled_from(["+", "-", "*", "&", "|", "^", "<", "<=", "==", "!="]), inner
    ).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(_EXPRESSIONS)
def test_arithmetic_agrees_with_python(text):
    expected = (int(eval(text)) + (1 << 63)) % (1 << 64) - (1 << 63)
    assert evaluate(text, lambda name: "", lambda name, value: None) == expected


@pytest.mark.parametrize(
    "text", ["1 +", "* 2", "1 2", "(1", "1)", "a b", "08", "1 ? 2", "5 = 3", "@", "1 +* 2", "99#1"]
)
def test_bad_arithmetic_is_refused(text):
    with pytest.raises(ArithmeticError_):
        evaluate(text, lambda name: "", lambda name, value: None)


def test_variables_that_name_each_other_are_refused():
    with pytest.raises(ArithmeticError_, match="recursion"):
        evaluate("a", lambda name: {"a": "b", "b": "a"}[name], lambda name, value: None)


@settings(max_examples=60, deadline=None)
@given(st.text("ab*?[]!\\-^c", max_size=10))
def test_escaped_text_matches_itself_only(text):
    assert matches(escape(text), text)
    assert unescape(escape(text)) == text
    assert not has_magic(escape(text))


@settings(max_examples=60, deadline=None)
@given(st.text("ab*?[]", max_size=6), st.text("abc", max_size=6))
def test_removing_takes_a_prefix_or_suffix_that_matches(pattern, text):
    for longest in (False, True):
        rest = remove_prefix(pattern, text, longest=longest)
        assert text.endswith(rest)
        assert rest == text or matches(pattern, text[: len(text) - len(rest)])
        rest = remove_suffix(pattern, text, longest=longest)
        assert text.startswith(rest)
        assert rest == text or matches(pattern, text[len(rest) :])
    assert len(remove_prefix(pattern, text, longest=True)) <= len(remove_prefix(pattern, text, longest=False))


@settings(max_examples=60, deadline=None)
@given(st.text("a :,", max_size=12), st.sampled_from([" ", ":", " :", ",", ": ,"]))
def test_fields_hold_no_separators_and_lose_nothing_else(text, ifs):
    fields = Fields(ifs)
    fields.split(text)
    found = [piece_text(pieces) for pieces in fields.result()]
    assert all(not set(field) & set(ifs) for field in found)
    assert "".join(found) == "".join(char for char in text if char not in ifs)


@settings(max_examples=80, deadline=None)
@given(
    st.text("%dsxofebc*.0123456789-+ #\\nqz", max_size=12),
    st.lists(st.text("-0x9a.'", max_size=4), max_size=3),
)
def test_printf_takes_any_format(form, arguments):
    assert format_printf(form, arguments).exit_code in (0, 1)


def test_printf_refuses_widths_that_would_fill_memory():
    assert format_printf("%99999999d", ["1"]).exit_code == 1


def test_escapes_keep_bytes():
    assert unescape_echo(r"\0377\x41")[0].encode("utf-8", "surrogateescape") == b"\xffA"


class _NoFiles:
    def test_file(self, operator: str, path: str) -> bool:
        return False

    def compare_files(self, operator: str, left: str, right: str) -> bool:
        return False

    def is_terminal(self, fd: int) -> bool:
        return False

    def regex_match(self, pattern: str, text: str) -> bool:
        return pattern in text


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "", "!", "(", ")", "-a", "-o", "=", "-eq", "1", "-f", "-z", "-n", "<"]),
        max_size=7,
    )
)
def test_test_gives_an_answer_or_an_error(words):
    with suppress(TestError):
        assert evaluate_test(words, _NoFiles()) in (True, False)


@settings(max_examples=60, deadline=None)
@given(st.text("ab.*[]^$\\(){}|+?-1,", max_size=12), st.booleans())
def test_regular_expressions_compile_or_are_refused(pattern, extended):
    with suppress(RegexError):
        compile_posix(pattern, extended=extended).search("ab1")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["\n", *_AWK_TOKENS.split()]), max_size=12))
def test_awk_programs_parse_or_are_refused(words):
    with suppress(AwkError):
        parse_awk(" ".join(words))
