"""A reader of pickles that executes nothing: opcodes on a stack, and a table of what may be made.

Python's own unpickler imports whatever a pickle names and calls it. This one knows values and containers, and asks a
`Vocabulary` for each name. A name that the vocabulary lacks is an error (P009), before anything was called.
"""

from __future__ import annotations

import codecs
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from rushlight.support.errors import RushlightError, error, fail

_KEY_PARTS = 1000  # members of a key that is a tuple, nested ones included: their hash takes all of them
_MOST_DIGITS = 1 << 16  # bytes of an integer
_MOST_DECIMALS = 4000


_FOUND_BY_TENSORS = ("D", "S", "M")  # errors of dtypes, shapes and memory: of a tensor that does not fit its storage


class Vocabulary(Protocol):
    """What a pickle may name, and what happens then."""

    def find(self, module: str, name: str) -> object:
        """Return what a name stands for; P009 for a name that is not allowed."""
        ...

    def call(self, function: object, args: tuple[Any, ...]) -> object:
        """Return what a call of such an object makes; P009 where it may not be called."""
        ...

    def new(self, cls: object, args: tuple[Any, ...]) -> object:
        """Return a new object of a class; P009 where it may not be made."""
        ...

    def build(self, instance: object, state: object) -> None:
        """Give an object its state; P009 where it has none."""
        ...

    @property
    def persistent(self) -> Callable[[Any], object]:
        """What returns the object that lies outside of the pickle under a key."""
        ...


class Malformed(Exception):
    """The bytes are no pickle."""


_OF_DAMAGE = (
    Malformed,
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    SyntaxError,
    RecursionError,
    struct.error,
)


class Unpickler:
    """Reads pickles one after the other; `position` is where the next one begins."""

    def __init__(
        self, data: bytes, vocabulary: Vocabulary, name: str, entry: str, position: int = 0, encoding: str = "utf-8"
    ) -> None:
        self.data = data
        self.position = position
        self.vocabulary = vocabulary
        self.encoding = encoding
        self._name = name
        self._entry = entry
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Return the next pickle's value; P002 where it is damaged."""
        self._stack, self._marks, self._memo = [], [], {}
        try:
            while True:
                code = self.take(1)[0]
                if code == _STOP:
                    return self._stack.pop()
                step = _STEPS.get(code)
                if step is None:
                    raise Malformed(f"opcode {code} at byte {self.position - 1}")
                step(self)
        except RushlightError as cause:
            if cause.code[0] in _FOUND_BY_TENSORS:
                self._damaged(str(cause).splitlines()[0], cause)
            cause.add_note(f"in the entry {self._entry} of {self._name}")
            raise
        except _OF_DAMAGE as cause:
            self._damaged(str(cause)[:200], cause)

    def _damaged(self, reason: str, cause: Exception) -> NoReturn:
        message = f"load: {self._name} is truncated or damaged"
        raise error("P002", message, entry=self._entry, reason=reason) from cause

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        end = self.position + count
        if end > len(self.data):
            raise Malformed("the pickle ends too early")
        start, self.position = self.position, end
        return self.data[start:end]

    def number(self, form: str) -> int:
        """Return the next number."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """Return text up to the next line break."""
        return self.raw_line().decode()

    def raw_line(self) -> bytes:
        """Return bytes up to the next line break."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise Malformed("a line without end")
        return self.take(end + 1 - self.position)[:-1]

    def push(self, value: object) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def pop(self) -> Any:
        """Take the last value from the stack."""
        return self._stack.pop()

    @property
    def top(self) -> Any:
        """The last value on the stack."""
        return self._stack[-1]

    def mark(self) -> None:
        """Begin a new stack, for members of a container."""
        self._marks.append(self._stack)
        self._stack = []

    def marked(self) -> list[Any]:
        """Return what was put on the stack since the last mark."""
        members = self._stack
        self._stack = self._marks.pop()
        return members

    def remember(self, index: int | None = None) -> None:
        """Give the last value a number."""
        self._memo[len(self._memo) if index is None else index] = self.top

    def recall(self, index: int) -> None:
        """Put the value of a number on the stack again."""
        self.push(self._memo[index])


def checked_key(key: object) -> Any:
    """Return a key; Malformed unless it can be hashed in few steps."""
    left, parts = [key], 0
    while left:
        part = left.pop()
        parts += 1
        if parts > _KEY_PARTS:
            raise Malformed("a key of too many parts")
        if isinstance(part, tuple):
            left.extend(part[: _KEY_PARTS + 1])
        elif type(part).__hash__ is None:
            raise Malformed(f"a key of type {type(part).__name__}")
    return key


def _long(data: bytes) -> int:
    if len(data) > _MOST_DIGITS:
        raise Malformed("an integer of too many digits")
    return int.from_bytes(data, "little", signed=True)


def _extend(reader: Unpickler, members: list[Any]) -> None:
    target = reader.top
    if not isinstance(target, list | deque):
        raise Malformed(f"{type(target).__name__} is no list")
    target.extend(members)


def _put(reader: Unpickler, pairs: list[Any]) -> None:
    target = reader.top
    if type(target) not in (dict, OrderedDict, Counter, defaultdict):
        raise Malformed(f"{type(target).__name__} is no dict")
    if len(pairs) % 2:
        raise Malformed("a key without value")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        target[checked_key(key)] = value


def _add(reader: Unpickler, members: list[Any]) -> None:
    target = reader.top
    if type(target) is not set:
        raise Malformed(f"{type(target).__name__} is no set")
    target.update(checked_key(member) for member in members)


def _name(reader: Unpickler, module: object, name: object) -> None:
    if not (isinstance(module, str) and isinstance(name, str)):
        raise Malformed("a name that is no text")
    reader.push(reader.vocabulary.find(module, name))


def _global(reader: Unpickler) -> None:
    module = reader.line()
    _name(reader, module, reader.line())


def _stack_global(reader: Unpickler) -> None:
    name = reader.pop()
    _name(reader, reader.pop(), name)


def _reduce(reader: Unpickler) -> None:
    args = _arguments(reader.pop())
    reader.push(reader.vocabulary.call(reader.pop(), args))


def _new(reader: Unpickler) -> None:
    args = _arguments(reader.pop())
    reader.push(reader.vocabulary.new(reader.pop(), args))


def _new_with_names(reader: Unpickler) -> None:
    if reader.pop() != {}:
        raise Malformed("named arguments")
    _new(reader)


def _arguments(value: object) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise Malformed("arguments that are no tuple")
    return value


def _build(reader: Unpickler) -> None:
    state = reader.pop()
    reader.vocabulary.build(reader.top, state)


def _protocol(reader: Unpickler) -> None:
    version = reader.take(1)[0]
    if version > 5:
        fail("P005", f"load: a pickle of protocol {version}, and 5 is the latest known")


def _shortened(reader: Unpickler, count: int) -> None:
    members = tuple([reader.pop() for _ in range(count)][::-1])
    reader.push(members)


def _text(reader: Unpickler, form: str) -> None:
    reader.push(str(reader.take(reader.number(form)), "utf-8", "surrogatepass"))


def _bytes(reader: Unpickler, form: str) -> None:
    reader.push(reader.take(reader.number(form)))


def _old_text(reader: Unpickler, form: str) -> None:
    """Text of Python 2, which may be bytes."""
    reader.push(_decoded(reader, reader.take(reader.number(form))))


def _decoded(reader: Unpickler, data: bytes) -> str | bytes:
    try:
        return data if reader.encoding == "bytes" else data.decode(reader.encoding)
    except UnicodeDecodeError:
        return data


def _quoted(reader: Unpickler) -> None:
    """Text of Python 2 as a literal in quotes."""
    text = reader.raw_line()
    if len(text) < 2 or text[0] != text[-1] or text[:1] not in (b"'", b'"'):
        raise Malformed("text without quotes")
    reader.push(_decoded(reader, codecs.escape_decode(text[1:-1])[0]))


def _integer(text: str) -> int:
    if len(text) > _MOST_DECIMALS:
        raise Malformed("an integer of too many digits")
    return int(text)


def _integer_line(reader: Unpickler) -> None:
    text = reader.line()
    reader.push(text == "01" if text in ("00", "01") else _integer(text))


def _pairs_of(members: list[Any]) -> Mapping[Any, Any]:
    if len(members) % 2:
        raise Malformed("a key without value")
    return {checked_key(key): value for key, value in zip(members[::2], members[1::2], strict=True)}


_STOP = ord(".")
_Step = Callable[[Unpickler], object]


def _constants(pairs: Iterable[tuple[str, object]]) -> dict[int, _Step]:
    return {ord(code): lambda reader, value=value: reader.push(value) for code, value in pairs}


_STEPS: dict[int, _Step] = {
    **_constants([("N", None), ("\x88", True), ("\x89", False), (")", ())]),
    ord("("): Unpickler.mark,
    ord("0"): Unpickler.pop,
    ord("1"): Unpickler.marked,
    ord("]"): lambda reader: reader.push([]),
    ord("}"): lambda reader: reader.push({}),
    0x8F: lambda reader: reader.push(set()),
    ord("l"): lambda reader: reader.push(reader.marked()),
    ord("d"): lambda reader: reader.push(_pairs_of(reader.marked())),
    ord("t"): lambda reader: reader.push(tuple(reader.marked())),
    0x91: lambda reader: reader.push(frozenset(checked_key(member) for member in reader.marked())),
    0x85: lambda reader: _shortened(reader, 1),
    0x86: lambda reader: _shortened(reader, 2),
    0x87: lambda reader: _shortened(reader, 3),
    ord("a"): lambda reader: _extend(reader, [reader.pop()]),
    ord("e"): lambda reader: _extend(reader, reader.marked()),
    ord("s"): lambda reader: _put(reader, [reader.pop(), reader.pop()][::-1]),
    ord("u"): lambda reader: _put(reader, reader.marked()),
    0x90: lambda reader: _add(reader, reader.marked()),
    ord("c"): _global,
    0x93: _stack_global,
    ord("R"): _reduce,
    0x81: _new,
    0x92: _new_with_names,
    ord("b"): _build,
    ord("Q"): lambda reader: reader.push(reader.vocabulary.persistent(reader.pop())),
    0x80: _protocol,
    0x95: lambda reader: reader.number("<Q"),
    ord("J"): lambda reader: reader.push(reader.number("<i")),
    ord("K"): lambda reader: reader.push(reader.number("<B")),
    ord("M"): lambda reader: reader.push(reader.number("<H")),
    ord("G"): lambda reader: reader.push(reader.number(">d")),
    ord("I"): _integer_line,
    ord("L"): lambda reader: reader.push(_integer(reader.line().rstrip("L"))),
    ord("F"): lambda reader: reader.push(float(reader.line())),
    0x8A: lambda reader: reader.push(_long(reader.take(reader.number("<B")))),
    0x8B: lambda reader: reader.push(_long(reader.take(reader.number("<I")))),
    ord("V"): lambda reader: reader.push(reader.raw_line().decode("raw-unicode-escape")),
    ord("S"): _quoted,
    ord("X"): lambda reader: _text(reader, "<I"),
    0x8C: lambda reader: _text(reader, "<B"),
    0x8D: lambda reader: _text(reader, "<Q"),
    ord("U"): lambda reader: _old_text(reader, "<B"),
    ord("T"): lambda reader: _old_text(reader, "<I"),
    ord("C"): lambda reader: _bytes(reader, "<B"),
    ord("B"): lambda reader: _bytes(reader, "<I"),
    0x8E: lambda reader: _bytes(reader, "<Q"),
    0x96: lambda reader: reader.push(bytearray(reader.take(reader.number("<Q")))),
    ord("q"): lambda reader: reader.remember(reader.number("<B")),
    ord("r"): lambda reader: reader.remember(reader.number("<I")),
    0x94: lambda reader: reader.remember(),
    ord("h"): lambda reader: reader.recall(reader.number("<B")),
    ord("j"): lambda reader: reader.recall(reader.number("<I")),
    ord("p"): lambda reader: reader.remember(_integer(reader.line())),
    ord("g"): lambda reader: reader.recall(_integer(reader.line())),
}
"""What each opcode does; those that import, call or persist in other ways are left out."""
