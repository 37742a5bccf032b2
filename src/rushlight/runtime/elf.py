"""Reading relocatable ELF files: the sections, symbols and relocations of what LLVM emits.

64-bit little-endian files only, which is what every target here emits. Reference: the System V ABI, chapter 4.
"""

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from rushlight.support.errors import fail

MACHINE_X86_64 = 62
MACHINE_AARCH64 = 183

SECTION_PROGBITS = 1
SECTION_SYMTAB = 2
SECTION_RELA = 4
SECTION_NOBITS = 8

FLAG_ALLOC = 0x2
FLAG_EXECUTE = 0x4
FLAG_TLS = 0x400

UNDEFINED = 0
ABSOLUTE = 0xFFF1
COMMON = 0xFFF2

_BINDINGS_SEEN_OUTSIDE = (1, 2)  # global, weak
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


class Section(NamedTuple):
    """One section header. `target` is the section that relocations apply to, `offset` a position in the file."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    target: int
    alignment: int


class Symbol(NamedTuple):
    """One symbol; `section` is an index, or one of `UNDEFINED`, `ABSOLUTE`, `COMMON`."""

    name: str
    external: bool
    section: int
    value: int


class ElfObject:
    """A relocatable ELF file held in memory."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
            fail("X001", "load: not a 64-bit little-endian ELF object")
        self.data = data
        fields = _HEADER.unpack_from(data)
        self.machine: int = fields[2]
        table, count, self._names_index = fields[6], fields[12], fields[13]
        if table + count * _SECTION.size > len(data):
            fail("X001", "load: the ELF object is cut short")
        self._table: int = table
        self._count: int = count

    @cached_property
    def sections(self) -> list[Section]:
        """All sections, in file order; index 0 is the empty one."""
        end = self._table + self._count * _SECTION.size
        rows = list(_SECTION.iter_unpack(self.data[self._table : end]))
        names = rows[self._names_index]
        text = self.data[names[4] : names[4] + names[5]]
        return [
            Section(_name_at(text, name), kind, flags, offset, size, link, info, max(alignment, 1))
            for name, kind, flags, _address, offset, size, link, info, alignment, _entry in rows
        ]

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The symbol table, index 0 (the empty symbol) included."""
        for section in self.sections:
            if section.kind == SECTION_SYMTAB:
                text = self.contents(self.sections[section.link])
                return [
                    Symbol(_name_at(text, name), info >> 4 in _BINDINGS_SEEN_OUTSIDE, index, value)
                    for name, info, _other, index, value, _size in _SYMBOL.iter_unpack(self.contents(section))
                ]
        return []

    def contents(self, section: Section) -> bytes:
        """The bytes of a section, as the file holds them."""
        return self.data[section.offset : section.offset + section.size]

    def relocations(self, section: Section) -> Iterator[tuple[int, int, int, int]]:
        """(offset, kind, symbol index, addend) of each entry of a relocation section."""
        for offset, info, addend in _RELA.iter_unpack(self.contents(section)):
            yield offset, info & 0xFFFFFFFF, info >> 32, addend

    def undefined(self) -> set[str]:
        """Names that the object uses and does not define."""
        return {symbol.name for symbol in self.symbols if symbol.section == UNDEFINED and symbol.name}

    def defined(self) -> list[str]:
        """Names that the object offers to others."""
        return [symbol.name for symbol in self.symbols if symbol.external and symbol.section != UNDEFINED]


def _name_at(text: bytes, start: int) -> str:
    return text[start : text.index(b"\0", start)].decode()
