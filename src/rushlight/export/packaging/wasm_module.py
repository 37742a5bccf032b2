"""Writes a module of WebAssembly from one relocatable object, without a linker.

The module imports nothing. It has a memory of its own: constants first, then the stack, then what its caller places
from `heap_base` on. Reference: the WebAssembly core specification 2.0, chapter 5, and the tool conventions for linking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rushlight.support.errors import fail

_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _GLOBAL, _EXPORT, _ELEMENT, _CODE, _DATA, _DATA_COUNT = (
    *(0, 1, 2, 3, 4, 5, 6, 7),
    *(9, 10, 11, 12),
)
_SYMBOLS, _SEGMENTS = 8, 5
"""Parts of the section `linking`."""
_IS_FUNCTION, _IS_DATA, _IS_SECTION = 0, 1, 3
_UNDEFINED, _HAS_NAME = 0x10, 0x40
_I32, _MUTABLE, _FUNCTION_REFERENCE, _I32_CONST, _END = 0x7F, 1, 0x70, 0x41, 0x0B
_PAGE, _FIRST_ADDRESS, _STACK_BYTES, _ALIGNMENT = 1 << 16, 1024, 1 << 20, 64
# Kinds of relocations: an index or address as a padded number of variable length, or as four bytes.
_FUNCTION_INDEX, _TABLE_INDEX, _TABLE_WORD, _ADDRESS, _SIGNED_ADDRESS, _ADDRESS_WORD = range(6)
_TYPE_INDEX, _GLOBAL_INDEX, _TABLE_NUMBER = 6, 7, 20
_WITH_ADDEND = (_ADDRESS, _SIGNED_ADDRESS, _ADDRESS_WORD)


def wasm_module(obj: bytes, exported: Sequence[str]) -> bytes:
    """The module's bytes; `exported` are the functions that others see, beside `memory` and `heap_base`."""
    return _Writer(_Object(obj), exported).written()


class _Symbol(NamedTuple):
    """A symbol: a function's or global's `number`; or the number of a segment of data, and the `offset` in it."""

    kind: int
    flags: int
    name: str
    number: int
    offset: int = 0


class _Reader:
    """Numbers and names from a position on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def number(self, signed: bool = False) -> int:
        """A number of variable length."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def name(self) -> str:
        """A text with its length."""
        count = self.number()
        self.at += count
        return self.data[self.at - count : self.at].decode()


class _Object:
    """What a relocatable object says: sections by kind, symbols, alignments of data, relocations by section."""

    def __init__(self, data: bytes) -> None:
        assert data.startswith(_MAGIC), "no object of WebAssembly"
        self.sections: dict[int, bytes] = {}
        self.kinds: list[int] = []
        self.symbols: list[_Symbol] = []
        self.alignments: list[int] = []
        self.relocations: dict[int, list[tuple[int, int, int, int]]] = {}
        reader = _Reader(data, len(_MAGIC))
        while reader.at < len(data):
            kind = data[reader.at]
            reader.at += 1
            count = reader.number()
            body = data[reader.at : reader.at + count]
            reader.at += count
            self.kinds.append(kind)
            if kind == _CUSTOM:
                self._custom(_Reader(body))
            else:
                self.sections[kind] = body

    def _custom(self, reader: _Reader) -> None:
        name = reader.name()
        if name == "linking":
            self._linking(reader)
        elif name.startswith("reloc."):
            kind = self.kinds[reader.number()]
            self.relocations[kind] = [_relocation(reader) for _ in range(reader.number())]

    def _linking(self, reader: _Reader) -> None:
        version = reader.number()
        assert version == 2, "an unknown version of linking data"
        while reader.at < len(reader.data):
            part = reader.number()
            end = reader.number() + reader.at
            if part == _SYMBOLS:
                self.symbols = [_symbol(reader) for _ in range(reader.number())]
            elif part == _SEGMENTS:
                for _ in range(reader.number()):
                    reader.name()
                    self.alignments.append(1 << reader.number())
                    reader.number()
            reader.at = end

    def imports(self) -> Iterator[tuple[str, int]]:
        """The names and kinds of what it imports."""
        reader = _Reader(self.sections.get(_IMPORT, b"\0"))
        for _ in range(reader.number()):
            reader.name()
            name, kind = reader.name(), reader.number()
            for _ in range(_IMPORT_NUMBERS[kind](reader)):
                reader.number()
            yield name, kind


def _limits(reader: _Reader) -> int:
    return 2 if reader.number() & 1 else 1


def _table(reader: _Reader) -> int:
    reader.number()
    return _limits(reader)


_IMPORT_NUMBERS: dict[int, Callable[[_Reader], int]] = {
    0: lambda reader: 1,  # a function: its type
    1: _table,
    2: _limits,  # a memory
    3: lambda reader: 2,  # a global: its type, and whether it may change
}


def _symbol(reader: _Reader) -> _Symbol:
    kind, flags = reader.number(), reader.number()
    if kind == _IS_DATA:
        name = reader.name()
        if flags & _UNDEFINED:
            return _Symbol(kind, flags, name, -1)
        segment, offset = reader.number(), reader.number()
        reader.number()
        return _Symbol(kind, flags, name, segment, offset)
    index = reader.number()
    named = kind != _IS_SECTION and (not flags & _UNDEFINED or flags & _HAS_NAME)
    return _Symbol(kind, flags, reader.name() if named else "", index)


def _relocation(reader: _Reader) -> tuple[int, int, int, int]:
    """The kind, the offset in the section, the symbol's or type's index, and the addend."""
    kind, offset, index = reader.number(), reader.number(), reader.number()
    return kind, offset, index, reader.number(signed=True) if kind in _WITH_ADDEND else 0


class _Writer:
    def __init__(self, obj: _Object, exported: Sequence[str]) -> None:
        self.obj = obj
        self.exported = exported
        functions = sorted(name for name, kind in obj.imports() if kind == 0)
        if functions:
            fail("C005", f"package: the module needs unknown functions: {', '.join(functions)}")
        assert [name for name, kind in obj.imports() if kind == 3] in ([], ["__stack_pointer"]), "other globals"
        self.table = self._table_of()
        self.addresses, self.data_end = self._placed()

    def written(self) -> bytes:
        """The sections in the order of the specification."""
        stack = _aligned(self.data_end + _STACK_BYTES, _ALIGNMENT)
        pages = -(-stack // _PAGE) + 1
        table = _vector([bytes([_FUNCTION_REFERENCE, 0]) + _number(max(self.table.values(), default=0) + 1)])
        constants = [bytes([_I32, change, _I32_CONST]) + _signed(stack) + bytes([_END]) for change in (_MUTABLE, 0)]
        sections = [
            (_TYPE, self.obj.sections[_TYPE]),
            (_FUNCTION, self.obj.sections[_FUNCTION]),
            (_TABLE, table),
            (_MEMORY, _vector([b"\0" + _number(pages)])),
            (_GLOBAL, _vector(constants)),
            (_EXPORT, self._exports()),
            (_ELEMENT, self.obj.sections.get(_ELEMENT)),
            (_DATA_COUNT, self.obj.sections.get(_DATA_COUNT)),
            (_CODE, self._patched(_CODE)),
            (_DATA, self._data()),
        ]
        return _MAGIC + b"".join([bytes([kind]) + _sized(body) for kind, body in sections if body is not None])

    def _table_of(self) -> dict[int, int]:
        """The place in the table of each function that is called by its address."""
        body = self.obj.sections.get(_ELEMENT)
        if body is None:
            return {}
        reader = _Reader(body)
        count, flags = reader.number(), reader.number()
        assert (count, flags, reader.number()) == (1, 0, _I32_CONST), "an unknown form of elements"
        first = reader.number(signed=True)
        reader.number()
        return {reader.number(): first + place for place in range(reader.number())}

    def _segments(self, body: bytes) -> list[bytes]:
        reader = _Reader(body)
        segments: list[bytes] = []
        for _ in range(reader.number()):
            assert (reader.number(), reader.number()) == (0, _I32_CONST), "an unknown form of data"
            reader.number(signed=True)
            reader.number()
            count = reader.number()
            segments.append(body[reader.at : reader.at + count])
            reader.at += count
        return segments

    def _placed(self) -> tuple[list[int], int]:
        """Where each segment of data begins, and the end of all."""
        addresses: list[int] = []
        end = _FIRST_ADDRESS
        for alignment, data in zip(
            self.obj.alignments, self._segments(self.obj.sections.get(_DATA, b"\0")), strict=True
        ):
            addresses.append(_aligned(end, alignment))
            end = addresses[-1] + len(data)
        return addresses, end

    def _data(self) -> bytes | None:
        if _DATA not in self.obj.sections:
            return None
        segments = self._segments(self._patched(_DATA))
        return _vector(
            [
                bytes([0, _I32_CONST]) + _signed(address) + bytes([_END]) + _sized(data)
                for address, data in zip(self.addresses, segments, strict=True)
            ]
        )

    def _exports(self) -> bytes:
        names = {symbol.name: symbol.number for symbol in self.obj.symbols if symbol.kind == _IS_FUNCTION}
        functions = [_text(name) + b"\0" + _number(names[name]) for name in sorted(self.exported)]
        return _vector([*functions, _text("memory") + b"\2\0", _text("heap_base") + b"\3\1"])

    def _patched(self, section: int) -> bytes:
        """A section in which all relocations are resolved."""
        body = bytearray(self.obj.sections[section])
        for kind, offset, index, addend in self.obj.relocations.get(section, ()):
            value = self._value(kind, index, addend)
            if kind in (_TABLE_WORD, _ADDRESS_WORD):
                body[offset : offset + 4] = value.to_bytes(4, "little")
            else:
                body[offset : offset + 5] = _padded(value)
        return bytes(body)

    def _value(self, kind: int, index: int, addend: int) -> int:
        if kind == _TYPE_INDEX:
            return index
        if kind == _TABLE_NUMBER:
            return 0
        symbol = self.obj.symbols[index]
        if kind in _WITH_ADDEND and not symbol.flags & _UNDEFINED:
            return self.addresses[symbol.number] + symbol.offset + addend
        if kind in (_TABLE_INDEX, _TABLE_WORD):
            return self.table[symbol.number]
        if kind in (_FUNCTION_INDEX, _GLOBAL_INDEX):
            return symbol.number
        return fail("C005", f"package: the module needs an unknown symbol: {symbol.name}", relocation=kind)


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _number(value: int) -> bytes:
    """An unsigned number of variable length."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _signed(value: int) -> bytes:
    """A number that is not negative as a signed one."""
    made = bytearray()
    while value >= 0x40:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _padded(value: int) -> bytes:
    """A number below 2^31 in five bytes, the same signed and unsigned."""
    return bytes([value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)]) + bytes([value >> 28])


def _sized(body: bytes) -> bytes:
    return _number(len(body)) + body


def _text(name: str) -> bytes:
    return _sized(name.encode())


def _vector(parts: Sequence[bytes]) -> bytes:
    return _number(len(parts)) + b"".join(parts)
