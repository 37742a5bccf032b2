"""Relocatable ELF files: the sections, symbols and relocations of what LLVM emits, and where sections are placed.

64-bit little-endian files only, which is what every target here emits. Reference: the System V ABI, chapter 4.
"""

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from rushlight.support.errors import fail

MACHINE_X86_64 = 62
MACHINE_AARCH64 = 183
MACHINE_AMDGPU = 224

SECTION_PROGBITS = 1
SECTION_SYMTAB = 2
SECTION_RELA = 4
SECTION_NOBITS = 8

FLAG_WRITE = 0x1
FLAG_ALLOC = 0x2
FLAG_EXECUTE = 0x4
FLAG_TLS = 0x400

UNDEFINED = 0
ABSOLUTE = 0xFFF1
COMMON = 0xFFF2

# Relocation kinds of the x86-64 psABI.
RELOCATION_ABSOLUTE64 = 1
RELOCATIONS_PC32 = (2, 4)  # PC32, PLT32
RELOCATION_RELATIVE = 8
RELOCATIONS_GOT = (9, 41, 42)  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
RELOCATION_PC64 = 24

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")

_BINDINGS_SEEN_OUTSIDE = (1, 2)  # global, weak
_SECTION = struct.Struct("<IIQQQQIIQQ")

Relocation = tuple[int, int, int, int, int]
"""The section that it applies to, the offset in it, the kind, the symbol's index, and the addend."""


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

    @property
    def is_loaded(self) -> bool:
        """Whether it is part of what is linked; unwind tables are not: no exception crosses native code."""
        return bool(self.flags & FLAG_ALLOC) and self.name != ".eh_frame"


class Symbol(NamedTuple):
    """One symbol; `section` is an index, or one of `UNDEFINED`, `ABSOLUTE`, `COMMON`."""

    name: str
    external: bool
    section: int
    value: int


class ElfObject:
    """A relocatable ELF file held in memory."""

    def __init__(self, data: bytes) -> None:
        if len(data) < HEADER.size or data[:6] != b"\x7fELF\x02\x01":
            fail("X001", "load: not a 64-bit little-endian ELF object")
        self.data = data
        fields = HEADER.unpack_from(data)
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
                    for name, info, _other, index, value, _size in SYMBOL.iter_unpack(self.contents(section))
                ]
        return []

    def contents(self, section: Section) -> bytes:
        """The bytes of a section, as the file holds them."""
        return self.data[section.offset : section.offset + section.size]

    def relocations(self, section: Section) -> Iterator[tuple[int, int, int, int]]:
        """(offset, kind, symbol index, addend) of each entry of a relocation section."""
        for offset, info, addend in RELA.iter_unpack(self.contents(section)):
            yield offset, info & 0xFFFFFFFF, info >> 32, addend

    def loaded_relocations(self) -> list[Relocation]:
        """Every relocation of a section that is loaded."""
        sections = self.sections
        return [
            (section.target, offset, kind, symbol, addend)
            for section in sections
            if section.kind == SECTION_RELA and sections[section.target].is_loaded
            for offset, kind, symbol, addend in self.relocations(section)
        ]

    def place(self, offsets: dict[int, int], position: int, belongs: Callable[[int], bool]) -> int:
        """Adds the offsets of loaded sections with such flags, from a position on; returns where they end."""
        for index, section in enumerate(self.sections):
            if section.is_loaded and belongs(section.flags):
                position = offsets[index] = align(position, section.alignment)
                position += section.size
        return position

    def copy_sections(self, offsets: Mapping[int, int], image: bytearray | mmap.mmap) -> None:
        """Copies the contents of sections to their offsets."""
        for index, offset in offsets.items():
            section = self.sections[index]
            if section.kind != SECTION_NOBITS:
                image[offset : offset + section.size] = self.contents(section)

    def undefined(self) -> set[str]:
        """Names that the object uses and does not define."""
        return {symbol.name for symbol in self.symbols if symbol.section == UNDEFINED and symbol.name}

    def defined(self) -> list[str]:
        """Names that the object offers to others."""
        return [symbol.name for symbol in self.symbols if symbol.external and symbol.section != UNDEFINED]


def align(position: int, alignment: int) -> int:
    """The first multiple of an alignment from a position on."""
    return -(-position // alignment) * alignment


def _name_at(text: bytes, start: int) -> str:
    return text[start : text.index(b"\0", start)].decode()
