"""Graphs from text: what `ir.text` prints, read back.

    graph = parse_graph(text, OPERATORS)

Types are taken as written: `ir.verify` says whether they are right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.graph import RELAYOUT, RESULT, Call, Graph, Inner, OutputView, ValueAssert, number, parameter
from rushlight.ir.type import CPU, Device, TensorType
from rushlight.support import lazy
from rushlight.support.errors import RushlightError, error
from rushlight.support.provenance import Frame
from rushlight.sym import (
    Branch,
    Guard,
    Origin,
    OriginKind,
    RuntimeAssert,
    Scope,
    Size,
    SizeExpr,
    parse_size,
)
from rushlight.sym.condition import normalized
from rushlight.term import Op, Reader, TermSyntaxError


class Named(Protocol):
    """One parameter of a schema."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class AttributeSchema(Protocol):
    """What the parser needs of an operator's schema."""

    @property
    def attributes(self) -> Sequence[Named]:
        """The parameters that are no tensors, in order."""
        ...


class ParsedOp(Protocol):
    """An operator as the parser sees it. Attributes that the text leaves out are None."""

    @property
    def schema(self) -> AttributeSchema:
        """Its schema."""
        ...


_DTYPES: dict[str, DType] = {short: dtype for dtype, short in SHORT_NAMES.items()}
_OWN_OPS: dict[str, Op] = {op.name: op for op in (RESULT, RELAYOUT)}
_FACTS = re.compile(
    r"^size (?P<name>\w+)(?: = (?P<hint>-?\d+))?(?: about (?P<preferred>-?\d+))?"
    r"(?: from (?P<lower>-?\d+|-inf))?(?: to (?P<upper>-?\d+))?(?: step (?P<step>\d+))?"
    r"(?: of (?P<kind>[a-z]+) (?P<what>\".*\")(?: at (?P<place>\d+))?)?$"
)
_FACT_WORDS = {
    "hint": "hint",
    "preferred": "optimization_hint",
    "lower": "lower",
    "upper": "upper",
    "step": "multiple_of",
}
_CONDITION = re.compile(
    r"^(?P<word>given|check) (?P<size>.+) (?P<relation>==|!=|<=|>=) 0(?: at (?P<place>\d+))?(?: (?P<said>\".*\"))?$"
)
_SYMBOL = re.compile(r"[A-Za-z_]\w*")


def parse_graph(
    text: str, operators: Mapping[str, Op], scope: Scope | None = None, frames: Sequence[tuple[Frame, ...]] = ()
) -> Graph:
    """The graph that `text` denotes; its symbols are looked up in `scope` or made there.

    `frames` are those that calls and checks name by number (`at 3`). Errors: C009, with the line.
    """
    reader = GraphReader(operators, Scope() if scope is None else scope, frames)
    lines = [(position, line.strip()) for position, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    # What is known of a symbol is part of it from its birth, so sizes come before the types that mention them.
    for line_number, line in sorted(lines, key=lambda pair: not pair[1].startswith("size ")):
        try:
            reader.line(line)
        except RushlightError as cause:
            if cause.code != "C009":
                raise
            raise _error(f"{cause.message}", line_number, line) from None
        except (TermSyntaxError, ValueError, KeyError) as cause:
            raise _error(f"graph: {cause}", line_number, line) from None
    if not reader.closed:
        raise error("C009", "graph: the text ends before the closing brace", text=text[-40:])
    return reader.graph()


def _error(message: str, number: int, line: str) -> RushlightError:
    return error("C009", f"{message} (line {number})", text=line)


class TypeReader:
    """Reads types, sizes and attribute values; makes symbols in `scope` that it does not have yet."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def _types(self, reader: Reader) -> tuple[TensorType, ...]:
        types: list[TensorType] = []
        while not reader.accept(")"):
            types.append(self._type(reader))
            reader.accept(",")
        return tuple(types)

    def _type(self, reader: Reader) -> TensorType:
        word = reader.next()
        if word not in _DTYPES:
            _fail(f"expected a type such as f32[4], found {word!r}")
        shape = self._sizes(reader)
        strides = self._sizes(reader) if reader.accept("strides") else None
        device = self._device(reader) if reader.accept("on") else CPU
        return TensorType(shape, _DTYPES[word], device, strides, reader.accept("weak"))

    def _device(self, reader: Reader) -> Device:
        kind = reader.next()
        return Device(kind, int(reader.next()) if reader.accept(":") else None)

    def _sizes(self, reader: Reader) -> tuple[Size, ...]:
        reader.expect("[")
        sizes: list[Size] = []
        while not reader.accept("]"):
            words: list[str] = []
            depth = 0
            while depth or reader.peek() not in (",", "]"):
                token = reader.next()
                depth += (token == "(") - (token == ")")
                words.append(token)
            # `//` is two tokens, and `%4` is one: sizes are put together without spaces.
            sizes.append(self._size("".join(words)))
            reader.accept(",")
        return tuple(sizes)

    def _size(self, text: str) -> Size:
        # Oldest first: the text of a size goes by the age of its symbols.
        for name in sorted(set(_SYMBOL.findall(text)) - {"min", "max"}, key=lambda name: (len(name), name)):
            if name not in self.scope.symbols:
                self.scope.symbol(name)
        return parse_size(text, self.scope)

    # The language of attribute values.

    def parse_atom(self, word: str, reader: Reader) -> object:
        """An attribute value that is no plain literal: a size, a graph, a type, a dtype, a device, a complex number."""
        if word.startswith("`"):
            return self._size(word.strip("`"))
        if word == "@":
            return self._inner(int(reader.next()))
        if word in _DTYPES:
            if reader.peek() != "[":
                return _DTYPES[word]
            reader.position -= 1
            return self._type(reader)
        if word == "device":
            kind, index = reader.next(), int(reader.next())
            return Device(kind, None if index < 0 else index)
        if word == "complex":
            return complex(*_items(reader, "(", ")"))
        if word == "slice":
            return slice(*_items(reader, "[", "]"))
        raise TermSyntaxError(f"unknown word {word!r}")

    def _inner(self, number: int) -> object:
        raise TermSyntaxError(f"there is no graph @{number} here")


class GraphReader(TypeReader):
    """Reads one graph, line by line."""

    def __init__(self, operators: Mapping[str, Op], scope: Scope, frames: Sequence[tuple[Frame, ...]] = ()) -> None:
        super().__init__(scope)
        self.operators = operators
        self.frames = frames
        self.name = ""
        self.closed = False
        self.values: dict[str, Call] = {}
        self.numbers: dict[tuple[type, str], Call] = {}
        self.parameters: list[Call] = []
        self.frozen: list[int] = []
        self.calls: list[Call] = []
        self.outputs: tuple[Call, ...] | None = None
        self.mutations: list[tuple[int, Call]] = []
        self.views: list[OutputView] = []
        self.asserts: list[ValueAssert] = []
        self.sizes: tuple[Size, ...] = ()
        self.inner: list[Inner] = []
        self.branch: Branch | None = None
        self.opened: GraphReader | None = None  # of the graph that a call runs, while its lines come

    def graph(self) -> Graph:
        """What was read."""
        return Graph(
            tuple(self.parameters),
            tuple(self.calls),
            self.outputs or (),
            tuple(self.mutations),
            tuple(self.views),
            self.name,
            tuple(self.frozen),
            tuple([size for size in self.sizes if isinstance(size, SizeExpr)]),
            tuple(self.asserts),
        )

    def line(self, line: str) -> None:
        """Takes one line."""
        if self.closed:
            _fail("there is text after the closing brace")
        if self.opened is not None or line.startswith("@"):
            self._inner_line(line)
        elif line.startswith("size "):
            self._facts(line)
        elif line.startswith(("given ", "check ")):
            self._condition(line)
        else:
            self._program_line(Reader(line, self))

    def _inner_line(self, line: str) -> None:
        """A line of a graph that a call runs: what it asserts is known there alone."""
        if self.opened is None:
            self.opened = GraphReader(self.operators, self.scope, self.frames)
            self.opened.branch = Branch(self.scope)
            line = line.partition(" ")[2]
        reader, branch = self.opened, self.opened.branch
        assert branch is not None
        with self.scope.within(branch):
            reader.line(line)
        if reader.closed:
            self.inner.append(Inner(reader.graph(), branch))
            self.opened = None

    def _inner(self, number: int) -> Inner:
        if number >= len(self.inner):
            _fail(f"there is no graph @{number} here")
        return self.inner[number]

    def _program_line(self, reader: Reader) -> None:
        word = reader.peek()
        if not self.name:
            self._header(reader)
        elif word in _LINES:
            _LINES[word](self, reader)
        elif self.outputs is not None:
            _fail("a call stands after `return`")
        else:
            self._call(reader)
        _end(reader)

    # What a graph's lines are.

    def _close(self, reader: Reader) -> None:
        reader.expect("}")
        self.closed = True

    def _header(self, reader: Reader) -> None:
        self.name = reader.next()
        reader.expect("(")
        while not reader.accept(")"):
            name = reader.next()
            reader.expect(":")
            if reader.accept("frozen"):
                self.frozen.append(len(self.parameters))
            call = parameter(name.removeprefix("%"), self._type(reader))
            self._define(name, call)
            self.parameters.append(call)
            reader.accept(",")
        reader.expect("{")

    def _facts(self, line: str) -> None:
        match = _FACTS.match(line)
        if match is None:
            _fail("expected `size NAME = HINT from LOWER to UPPER step MULTIPLE`")
        facts = _facts_of(match)
        if match["kind"] is not None:
            kind = OriginKind[match["kind"].upper()]
            facts["source"] = Origin(lazy.json.loads(match["what"]), kind, self._frame_at(match["place"]))
        if match["name"] not in self.scope.symbols:
            self.scope.symbol(match["name"], **facts)

    def _condition(self, line: str) -> None:
        match = _CONDITION.match(line)
        if match is None:
            _fail("expected `given SIZE == 0`, with ==, !=, <= or >=")
        condition = normalized(match["relation"], self._size(match["size"]))
        if isinstance(condition, bool):
            return  # it holds, or fails, for all values, which takes no proof
        if match["word"] == "check":
            said = "" if match["said"] is None else lazy.json.loads(match["said"])
            self.scope.asserts.append(RuntimeAssert(condition, self._frame_at(match["place"]), said))
        else:
            self.scope.guards.append(Guard(condition, None, "given"))
        self.scope.learn(condition)

    def _call(self, reader: Reader) -> None:
        name = reader.next()
        reader.expect("=")
        words = [reader.next()]
        while not reader.accept("("):
            words.append(reader.next())
        op = self._op("".join(words))
        operands = self._operands(reader, ")")
        attrs = self._attrs(reader)
        region: int | None = None
        if reader.accept("@"):
            region = int(reader.next())
        frames = self._frames_at(int(reader.next())) if reader.accept("at") else ()
        reader.expect(":")
        type_ = self._types(reader) if reader.accept("(") else self._type(reader)
        call = Call(op, operands, self._filled(op, attrs), type_, frames, region)
        self._define(name, call)
        self.calls.append(call)

    def _frames_at(self, number: int) -> tuple[Frame, ...]:
        if number >= len(self.frames):
            _fail(f"there is no line {number} of a user's program here")
        return self.frames[number]

    def _frame_at(self, location: str | None) -> Frame | None:
        return None if location is None else next(iter(self._frames_at(int(location))), None)

    def _return(self, reader: Reader) -> None:
        reader.expect("return")
        outputs: list[Call] = []
        while reader.peek():
            outputs.append(self._value_at(reader.next(), reader))
            reader.accept(",")
        self.outputs = tuple(outputs)

    def _write(self, reader: Reader) -> None:
        reader.expect("write")
        target = self._value(reader.next())
        if target not in self.parameters:
            _fail("only parameters are written to")
        reader.expect("<")
        reader.expect("-")
        self.mutations.append((self.parameters.index(target), self._value_at(reader.next(), reader)))

    def _view(self, reader: Reader) -> None:
        reader.expect("view")
        output = int(reader.next())
        reader.expect("of")
        base = (reader.next(), int(reader.next()))
        shape, strides = self._sizes(reader), self._sizes(reader)
        reader.expect("+")
        rest: list[str] = []
        while reader.peek():
            rest.append(reader.next())
        self.views.append(OutputView(output, base, shape, strides, self._size("".join(rest))))

    def _sizes_line(self, reader: Reader) -> None:
        reader.expect("sizes")
        self.sizes = self._sizes(reader)

    def _define(self, name: str, call: Call) -> None:
        if not name.startswith("%"):
            _fail(f"expected a name such as %0, found {name!r}")
        if name in self.values:
            _fail(f"{name} is defined twice")
        self.values[name] = call

    def _value(self, name: str) -> Call:
        call = self.values.get(name)
        if call is None:
            _fail(f"{name} is used before it is defined")
        return call

    def _value_at(self, token: str, reader: Reader) -> Call:
        """The value that a token stands for: an earlier one by its name, or a Python number."""
        if token.startswith("%"):
            return self._value(token)
        reader.position -= 1
        value = reader.value()
        if not isinstance(value, (bool, int, float, complex)):
            _fail(f"{token} is used before it is defined")
        key = (type(value), repr(value))
        if key not in self.numbers:
            self.numbers[key] = number(value)
            self.calls.append(self.numbers[key])
        return self.numbers[key]

    def _op(self, name: str) -> Op:
        try:
            return _OWN_OPS.get(name) or self.operators[name]  # which may be made when it is asked for
        except KeyError:
            _fail(f"there is no operator {name!r}")

    def _operands(self, reader: Reader, close: str) -> tuple[object, ...]:
        operands: list[object] = []
        while not reader.accept(close):
            token = reader.next()
            if token == "[":
                operands.append(self._operands(reader, "]"))
            else:
                operands.append(None if token == "none" else self._value_at(token, reader))
            reader.accept(",")
        return tuple(operands)

    def _attrs(self, reader: Reader) -> dict[str, object]:
        attrs: dict[str, object] = {}
        if reader.accept("{"):
            while not reader.accept("}"):
                key = reader.next()
                reader.expect("=")
                attrs[key] = reader.value()
                reader.accept(",")
        return attrs

    def _filled(self, op: Op, attrs: dict[str, object]) -> tuple[tuple[str, object], ...]:
        if op.name in _OWN_OPS:
            return tuple(attrs.items())
        typed: ParsedOp = op  # pyright: ignore[reportAssignmentType] - operators have schemas
        names = [attribute.name for attribute in typed.schema.attributes]
        unknown = [key for key in attrs if key not in names]
        if unknown:
            _fail(f"{op.name} has no attribute {unknown[0]!r}")
        return tuple([(name, attrs.get(name)) for name in names])


def _read_assert(graph: GraphReader, reader: Reader) -> None:
    reader.expect("assert")
    reader.expect("not")
    fails = graph._value(reader.next())
    reader.expect(":")
    graph.asserts.append(ValueAssert(fails, reader.next(), "a value is not what the program asserts"))


_LINES: dict[str, Callable[[GraphReader, Reader], None]] = {
    "return": GraphReader._return,
    "write": GraphReader._write,
    "view": GraphReader._view,
    "sizes": GraphReader._sizes_line,
    "assert": _read_assert,
    "}": GraphReader._close,
}


def _facts_of(match: re.Match[str]) -> dict[str, Any]:
    """What a line says of a symbol."""
    said = {word: match[key] for key, word in _FACT_WORDS.items() if match[key] is not None}
    return {word: None if text == "-inf" else int(text) for word, text in said.items()}


def _items(reader: Reader, opening: str, closing: str) -> list[Any]:
    reader.expect(opening)
    items: list[Any] = []
    while not reader.accept(closing):
        items.append(reader.value())
        reader.accept(",")
    return items


def _end(reader: Reader) -> None:
    if reader.peek():
        _fail(f"unexpected {reader.peek()!r} at the end of the line")


def _fail(message: str) -> NoReturn:
    raise TermSyntaxError(message)
