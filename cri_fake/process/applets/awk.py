"""awk: the interpreter of parsed programs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator

from cri_fake.process.applets.awk_parser import AwkError, AwkProgram, Node, parse_awk
from cri_fake.process.applets.common import applet, inputs, options_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.applets.simple import format_time
from cri_fake.process.posix_regex import RegexError, compile_posix
from cri_fake.process.proc import Proc, decode, encode
from cri_fake.process.shell.printf import unescape_echo

Value = float | str
MAX_CALLS = 100
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?)")
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?([a-zA-Z%])")


class _Input(str):
    """Text that came from input: it compares as a number where it looks like one."""

    __slots__ = ()


class _Next(Exception):
    """``next``."""


class _Stop(Exception):
    """``exit``."""


class _Leave(Exception):
    """``break`` and ``continue``."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def _to_number(value: Value) -> float:
    if isinstance(value, float):
        return value
    found = _NUMBER.match(str(value))
    return float(found.group()) if found else 0.0


def _looks_numeric(value: Value) -> bool:
    if isinstance(value, float):
        return True
    return isinstance(value, _Input) and (_NUMBER.fullmatch(value.strip()) is not None)


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) else 0


class _Awk:
    """The state of one run. Output is collected and written record by record."""

    def __init__(self, proc: Proc, program: AwkProgram) -> None:
        self.proc = proc
        self.program = program
        self.values: dict[str, Value] = {
            "FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "NR": 0.0, "NF": 0.0, "FNR": 0.0,
            "SUBSEP": "\x1c", "CONVFMT": "%.6g", "OFMT": "%.6g", "FILENAME": "",
            "RSTART": 0.0, "RLENGTH": -1.0,
        }  # fmt: skip
        self.arrays: dict[str, dict[str, Value]] = {}
        self.locals: list[tuple[dict[str, Value], dict[str, dict[str, Value]]]] = []
        self.record = ""
        self.fields: list[str] = []
        self.out: list[str] = []
        self.files: dict[str, list[str]] = {}
        self.ranges: dict[int, bool] = {}
        self.code = 0

    # -- records --------------------------------------------------------------------------------------------

    def set_record(self, text: str) -> None:
        self.record = text
        separator = self.text(self.values["FS"])
        if separator == " ":
            self.fields = text.split()
        elif not text:
            self.fields = []
        elif separator == "\t" or (len(separator) == 1 and separator not in "\\^$.[|()*+?"):
            self.fields = text.split(separator)
        else:
            self.fields = self.regex(separator).split(text)
        self.values["NF"] = float(len(self.fields))

    def get_field(self, index: int) -> Value:
        if index < 0:
            raise AwkError("access to negative field")
        if index == 0:
            return _Input(self.record)
        return _Input(self.fields[index - 1]) if index <= len(self.fields) else _Input("")

    def set_field(self, index: int, text: str) -> None:
        if index == 0:
            self.set_record(text)
            return
        if not 0 < index <= 10_000:
            raise AwkError("access to a field out of range")
        self.fields += [""] * (index - len(self.fields))
        self.fields[index - 1] = text
        self.values["NF"] = float(len(self.fields))
        self.record = self.text(self.values["OFS"]).join(self.fields)

    # -- values ---------------------------------------------------------------------------------------------

    def text(self, value: Value, form: str = "CONVFMT") -> str:
        if isinstance(value, str):
            return str(value)
        if value == int(value) if math.isfinite(value) else False:
            return str(int(value))
        return self.format(str(self.values[form]), [value])

    def truth(self, value: Value) -> bool:
        if isinstance(value, float):
            return value != 0
        return _to_number(value) != 0 if _looks_numeric(value) else value != ""

    def regex(self, pattern: str) -> re.Pattern[str]:
        try:
            return compile_posix(pattern, extended=True)
        except RegexError as problem:
            raise AwkError(f"bad regex '{pattern}': {problem}") from None

    def pattern_of(self, node: Node) -> re.Pattern[str]:
        return self.regex(node[1] if node[0] == "regex" else self.text(self.value(node)))

    def array(self, name: str) -> dict[str, Value]:
        if self.locals:
            scalars, arrays = self.locals[-1]
            if name in arrays:
                return arrays[name]
            if name in scalars:
                del scalars[name]
                return arrays.setdefault(name, {})
        return self.arrays.setdefault(name, {})

    def get(self, node: Node) -> Value:
        kind = node[0]
        if kind == "var":
            name = node[1]
            if self.locals and name in self.locals[-1][0]:
                return self.locals[-1][0][name]
            return self.values.get(name, _Input(""))
        if kind == "field":
            return self.get_field(_whole(_to_number(self.value(node[1]))))
        array = self.array(node[1])
        return array.setdefault(self.text(self.value(node[2])), _Input(""))

    def put(self, node: Node, value: Value) -> Value:
        kind = node[0]
        if kind == "field":
            self.set_field(_whole(_to_number(self.value(node[1]))), self.text(value))
        elif kind == "index":
            self.array(node[1])[self.text(self.value(node[2]))] = value
        elif self.locals and node[1] in self.locals[-1][0]:
            self.locals[-1][0][node[1]] = value
        else:
            self.values[node[1]] = value
            if node[1] == "NF":
                count = max(_whole(_to_number(value)), 0)
                self.fields = (self.fields + [""] * (count - len(self.fields)))[:count]
                self.record = self.text(self.values["OFS"]).join(self.fields)
        return value

    # -- expressions ----------------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        kind = node[0]
        if kind in ("number", "string"):
            return node[1]
        if kind in ("var", "field", "index"):
            return self.get(node)
        if kind == "paren":
            return self.value(node[1])
        if kind == "regex":
            return float(self.regex(node[1]).search(self.record) is not None)
        return getattr(self, _METHODS[kind])(node)

    def _assign(self, node: Node) -> Value:
        _, target, operator, source = node
        value = self.value(source)
        if operator:
            value = self._arithmetic(operator, _to_number(self.get(target)), _to_number(value))
        return self.put(target, value)

    def _arithmetic(self, operator: str, left: float, right: float) -> float:
        try:
            if operator == "+":
                return left + right
            if operator == "-":
                return left - right
            if operator == "*":
                return left * right
            if operator == "^":
                return math.pow(left, right)
            if right == 0:
                raise AwkError("Division by zero")
            return left / right if operator == "/" else math.fmod(left, right)
        except (OverflowError, ValueError):
            return math.inf

    def _binary(self, node: Node) -> Value:
        return self._arithmetic(node[1], _to_number(self.value(node[2])), _to_number(self.value(node[3])))

    def _unary(self, node: Node) -> Value:
        value = self.value(node[2])
        if node[1] == "!":
            return float(not self.truth(value))
        return -_to_number(value) if node[1] == "-" else _to_number(value)

    def _step(self, node: Node) -> Value:
        before = _to_number(self.get(node[2]))
        after = before + (1 if node[1] == "++" else -1)
        self.put(node[2], after)
        return after if node[0] == "pre" else before

    def _concat(self, node: Node) -> Value:
        return self.text(self.value(node[1])) + self.text(self.value(node[2]))

    def _compare(self, node: Node) -> Value:
        _, operator, first, second = node
        left, right = self.value(first), self.value(second)
        if _looks_numeric(left) and _looks_numeric(right):
            a, b = _to_number(left), _to_number(right)
            order = (a > b) - (a < b)
        else:
            c, d = encode(self.text(left)), encode(self.text(right))
            order = (c > d) - (c < d)
        truth = {
            "<": order < 0, "<=": order <= 0, "==": order == 0, "!=": order != 0, ">": order > 0,
            ">=": order >= 0,
        }  # fmt: skip
        return float(truth[operator])

    def _logic(self, node: Node) -> Value:
        left = self.truth(self.value(node[1]))
        if node[0] == "&&":
            return float(left and self.truth(self.value(node[2])))
        return float(left or self.truth(self.value(node[2])))

    def _ternary(self, node: Node) -> Value:
        return self.value(node[2] if self.truth(self.value(node[1])) else node[3])

    def _match(self, node: Node) -> Value:
        found = self.pattern_of(node[2]).search(self.text(self.value(node[1]))) is not None
        return float(found != node[3])

    def _in(self, node: Node) -> Value:
        return float(self.text(self.value(node[1])) in self.array(node[2]))

    def _join(self, node: Node) -> Value:
        return self.text(self.values["SUBSEP"]).join(self.text(self.value(part)) for part in node[1])

    def _group(self, node: Node) -> Value:
        raise AwkError("a list of expressions is no value")

    def _call(self, node: Node) -> Value:
        _, name, arguments = node
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            try:
                return builtin(self, arguments)
            except IndexError:
                raise AwkError(f"too few arguments for {name}") from None
        if name not in self.program.functions:
            raise AwkError(f"Call to undefined function {name}")
        names, body = self.program.functions[name]
        if len(self.locals) >= MAX_CALLS:
            raise AwkError("functions call each other too deeply")
        scalars: dict[str, Value] = dict.fromkeys(names, _Input(""))
        arrays: dict[str, dict[str, Value]] = {}
        for parameter, argument in zip(names, arguments, strict=False):
            if argument[0] == "var" and self._is_array(argument[1]):
                arrays[parameter] = self.array(argument[1])
                del scalars[parameter]
            else:
                scalars[parameter] = self.value(argument)
        self.locals.append((scalars, arrays))
        try:
            for _ in self.run(body):
                pass
        except _Return as end:
            return end.value
        finally:
            self.locals.pop()
        return _Input("")

    def _is_array(self, name: str) -> bool:
        if self.locals and name in self.locals[-1][1]:
            return True
        return name in self.arrays and not (self.locals and name in self.locals[-1][0])

    def format(self, form: str, values: list[Value]) -> str:
        """``sprintf``."""
        left = list(values)

        def number(text: str) -> str:
            return str(_whole(_to_number(left.pop(0) if left else 0.0))) if text == "*" else text

        def one(found: re.Match[str]) -> str:
            flags, width, precision, kind = found.groups()
            if kind == "%":
                return "%"
            width = number(width)
            point = "" if precision is None else f".{number(precision)}"
            if len(width) > 6 or len(point) > 6:
                raise AwkError("printf: width too large")
            value: Value = left.pop(0) if left else _Input("")
            if kind in "di":
                return f"%{flags}{width}{point}d" % _whole(_to_number(value))
            if kind in "ouxX":
                plain = "d" if kind == "u" else kind
                return f"%{flags}{width}{point}{plain}" % _whole(_to_number(value))
            if kind in "eEfFgG":
                return f"%{flags}{width}{point}{kind}" % _to_number(value)
            dash = "-" if "-" in flags else ""
            if kind == "c":
                char = chr(_whole(value) & 0x10FFFF) if isinstance(value, float) else str(value)[:1]
                return f"%{dash}{width}s" % char
            if kind == "s":
                return f"%{dash}{width}{point}s" % self.text(value)
            raise AwkError(f"printf: %{kind} is not a conversion")

        return _CONVERSION.sub(one, form)

    # -- statements: generators, so that the caller can let time pass in loops ------

    def run(self, node: Node) -> Iterator[None]:
        """Runs a statement, yielding at each turn of a loop."""
        kind = node[0]
        if kind == "block":
            for child in node[1]:
                yield from self.run(child)
        elif kind == "expression":
            self.value(node[1])
        elif kind in ("print", "printf"):
            self._print(node)
        elif kind == "if":
            branch = node[2] if self.truth(self.value(node[1])) else node[3]
            if branch is not None:
                yield from self.run(branch)
        elif kind in ("while", "do", "for", "for in"):
            yield from self._loop(node)
        elif kind in ("break", "continue"):
            raise _Leave(kind)
        elif kind == "next":
            raise _Next
        elif kind == "exit":
            if node[1] is not None:
                self.code = _whole(_to_number(self.value(node[1]))) & 0xFF
            raise _Stop
        elif kind == "return":
            raise _Return(self.value(node[1]) if node[1] is not None else _Input(""))
        elif node[2] is None:
            self.array(node[1]).clear()
        else:
            self.array(node[1]).pop(self.text(self.value(node[2])), None)

    def _loop(self, node: Node) -> Iterator[None]:
        kind = node[0]
        if kind == "for in":
            for key in list(self.array(node[2])):
                yield
                self.put(("var", node[1]), _Input(key))
                if not (yield from self._turn(node[3])):
                    return
            return
        condition, body, step = {"while": (1, 2, 0), "do": (2, 1, 0), "for": (2, 4, 3)}[kind]
        if kind == "for" and node[1] is not None:
            yield from self.run(node[1])
        first = kind == "do"
        while first or node[condition] is None or self.truth(self.value(node[condition])):
            first = False
            yield
            if not (yield from self._turn(node[body])):
                return
            if step and node[step] is not None:
                yield from self.run(node[step])

    def _turn(self, body: Node) -> Generator[None, None, bool]:
        try:
            yield from self.run(body)
        except _Leave as jump:
            return jump.kind == "continue"
        return True

    def _print(self, node: Node) -> None:
        kind, arguments, mode, target = node
        values = [self.value(argument) for argument in arguments]
        if kind == "printf":
            if not values:
                raise AwkError("printf: no format")
            text = self.format(self.text(values[0]), values[1:])
        else:
            shown = [self.text(value, "OFMT") for value in values] or [self.record]
            text = self.text(self.values["OFS"]).join(shown) + self.text(self.values["ORS"])
        if not mode:
            self.out.append(text)
            return
        name = self.text(self.value(target or ("string", "")))
        if name not in self.files:
            kept = mode == ">>" and self.proc.fs.exists(self.proc.path(name))
            self.files[name] = [decode(self.proc.fs.read(self.proc.path(name)))] if kept else []
        self.files[name].append(text)

    def selected(self, pattern: Node | None) -> bool:
        if pattern is None:
            return True
        if pattern[0] != "range":
            return self.truth(self.value(pattern))
        _, first, last, key = pattern
        if not self.ranges.get(key):
            if not self.truth(self.value(first)):
                return False
            self.ranges[key] = True
        if self.truth(self.value(last)):
            self.ranges[key] = False
        return True


_METHODS = {
    "assign": "_assign", "binary": "_binary", "unary": "_unary", "pre": "_step", "post": "_step",
    "concat": "_concat", "compare": "_compare", "&&": "_logic", "||": "_logic", "?": "_ternary",
    "~": "_match", "in": "_in", "join": "_join", "group": "_group", "call": "_call",
}  # fmt: skip


# -- builtin functions --------------------------------------------------------------------------------------


def _length(awk: _Awk, args: list[Node]) -> Value:
    if not args:
        return float(len(awk.record))
    if args[0][0] == "var" and awk._is_array(args[0][1]):
        return float(len(awk.array(args[0][1])))
    return float(len(awk.text(awk.value(args[0]))))


def _substr(awk: _Awk, args: list[Node]) -> Value:
    text = awk.text(awk.value(args[0]))
    start = round(_to_number(awk.value(args[1])))
    end = len(text) + 1 if len(args) < 3 else start + round(min(_to_number(awk.value(args[2])), 1e9))
    return text[max(start, 1) - 1 : max(end - 1, 0)]


def _index(awk: _Awk, args: list[Node]) -> Value:
    return float(awk.text(awk.value(args[0])).find(awk.text(awk.value(args[1]))) + 1)


def _split(awk: _Awk, args: list[Node]) -> Value:
    text = awk.text(awk.value(args[0]))
    array = awk.array(args[1][1])
    if len(args) > 2 and args[2][0] == "regex":
        parts = awk.regex(args[2][1]).split(text) if text else []
    else:
        separator = awk.text(awk.value(args[2])) if len(args) > 2 else awk.text(awk.values["FS"])
        if separator == " ":
            parts = text.split()
        elif not text:
            parts = []
        elif len(separator) == 1:
            parts = text.split(separator)
        else:
            parts = awk.regex(separator).split(text)
    array.clear()
    for number, part in enumerate(parts, start=1):
        array[str(number)] = _Input(part or "")
    return float(len(parts))


def _substitute(awk: _Awk, args: list[Node], *, everywhere: bool) -> Value:
    pattern = awk.pattern_of(args[0])
    template = awk.text(awk.value(args[1]))
    target: Node = args[2] if len(args) > 2 else ("field", ("number", 0.0))

    def replace(found: re.Match[str]) -> str:
        return re.sub(
            r"\\\\|\\&|&", lambda part: {"&": found.group(), "\\&": "&"}.get(part.group(), "\\"), template
        )

    text, count = pattern.subn(replace, awk.text(awk.value(target)), count=0 if everywhere else 1)
    if count and target[0] in ("var", "field", "index"):
        awk.put(target, text)
    return float(count)


def _match_function(awk: _Awk, args: list[Node]) -> Value:
    found = awk.pattern_of(args[1]).search(awk.text(awk.value(args[0])))
    awk.values["RSTART"] = float(found.start() + 1) if found else 0.0
    awk.values["RLENGTH"] = float(found.end() - found.start()) if found else -1.0
    return awk.values["RSTART"]


def _math(function: Callable[[float], float]) -> Callable[[_Awk, list[Node]], Value]:
    def run(awk: _Awk, args: list[Node]) -> Value:
        try:
            return float(function(_to_number(awk.value(args[0]))))
        except (ValueError, OverflowError):
            return math.nan

    return run


def _unsupported(awk: _Awk, args: list[Node]) -> Value:
    raise AwkError("system is not emulated")


_BUILTINS: dict[str, Callable[[_Awk, list[Node]], Value]] = {
    "length": _length,
    "substr": _substr,
    "index": _index,
    "split": _split,
    "sub": lambda awk, args: _substitute(awk, args, everywhere=False),
    "gsub": lambda awk, args: _substitute(awk, args, everywhere=True),
    "match": _match_function,
    "sprintf": lambda awk, args: awk.format(
        awk.text(awk.value(args[0])), [awk.value(arg) for arg in args[1:]]
    ),
    "sin": _math(math.sin),
    "cos": _math(math.cos),
    "exp": _math(math.exp),
    "log": _math(math.log),
    "sqrt": _math(math.sqrt),
    "int": lambda awk, args: float(_whole(_to_number(awk.value(args[0])))),
    "atan2": lambda awk, args: math.atan2(_to_number(awk.value(args[0])), _to_number(awk.value(args[1]))),
    "rand": lambda awk, args: awk.proc.rng.random(),
    "srand": lambda awk, args: 0.0,
    "tolower": lambda awk, args: awk.text(awk.value(args[0])).lower(),
    "toupper": lambda awk, args: awk.text(awk.value(args[0])).upper(),
    "system": _unsupported,
    "close": lambda awk, args: 0.0,
    "fflush": lambda awk, args: 0.0,
    "systime": lambda awk, args: float(awk.proc.clock.now_ns() // 1_000_000_000),
    "strftime": lambda awk, args: format_time(
        awk.text(awk.value(args[0])),
        int(_to_number(awk.value(args[1])) * 1e9) if len(args) > 1 else awk.proc.clock.now_ns(),
    ),
}


async def _execute(awk: _Awk, block: Node | None) -> None:
    if block is None:
        awk.out.append(awk.record + awk.text(awk.values["ORS"]))
    else:
        for _ in awk.run(block):
            await awk.proc.step()
    if awk.out:
        text, awk.out = "".join(awk.out), []
        await awk.proc.write(text)


async def _records(awk: _Awk, operands: list[str]) -> None:
    names: list[str] = []
    for operand in operands:
        name, equals, value = operand.partition("=")
        if equals and name.replace("_", "a").isalnum():
            awk.values[name] = _Input(unescape_echo(value)[0])
        else:
            names.append(operand)
    for name, data in await inputs(awk.proc, names):
        awk.code = 2 if data is None else awk.code
        awk.values["FILENAME"] = "" if name == "-" else name
        awk.values["FNR"] = 0.0
        text = decode(data or b"")
        separator = awk.text(awk.values["RS"])
        records = re.split(r"\n\n+", text.strip("\n")) if separator == "" else text.split(separator)
        if records and records[-1] in ("", "\n"):
            records.pop()
        for record in records:
            awk.values["NR"] = _to_number(awk.values["NR"]) + 1
            awk.values["FNR"] = _to_number(awk.values["FNR"]) + 1
            awk.set_record(record)
            await awk.proc.step()
            try:
                for pattern, block in awk.program.rules:
                    if awk.selected(pattern):
                        await _execute(awk, block)
            except _Next:
                if awk.out:
                    await awk.proc.write("".join(awk.out))
                    awk.out = []


async def _run(awk: _Awk, operands: list[str]) -> None:
    try:
        for block in awk.program.begin:
            await _execute(awk, block)
        if awk.program.rules or awk.program.end:
            await _records(awk, operands)
    except _Stop:
        pass
    try:
        for block in awk.program.end:
            await _execute(awk, block)
    except _Stop:
        pass
    if awk.out:
        await awk.proc.write("".join(awk.out))


@applet
async def awk(proc: Proc) -> int:
    options = options_of(proc, "F:v:f:", in_order=True)
    operands = options.operands
    texts = [decode(proc.fs.read(proc.path(name))) for name in options.values.get("f", [])]
    if not texts:
        if not operands:
            raise UsageError("usage: awk [-F SEP] [-v VAR=VALUE] PROGRAM [FILE]...")
        texts = [operands.pop(0)]
    try:
        state = _Awk(proc, parse_awk("\n".join(texts)))
        for setting in options.values.get("v", []):
            name, _, value = setting.partition("=")
            state.values[name] = _Input(unescape_echo(value)[0])
        if "F" in options:
            separator = unescape_echo(options.value("F"))[0]
            state.values["FS"] = "\t" if separator == "t" else separator
        state.arrays["ENVIRON"] = {name: _Input(value) for name, value in proc.env.items()}
        await _run(state, operands)
        for name, written in state.files.items():
            if name == "/dev/stderr":
                await proc.write("".join(written), fd=2)
            elif name == "/dev/stdout":
                await proc.write("".join(written))
            else:
                proc.fs.write(proc.path(name), encode("".join(written)))
    except (AwkError, _Leave, _Next, _Return) as problem:
        await proc.complain(str(problem) or "statement outside of its place")
        return 1
    except RecursionError:
        await proc.complain("expression nested too deeply")
        return 1
    return state.code
