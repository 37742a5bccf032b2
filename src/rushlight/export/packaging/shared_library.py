"""Writes an ELF shared library from one x86-64 object, without a linker.

The library needs no other library: what the object would take from C's is in it. Segments are headers and constants;
code; and tables of addresses, which the loader fills in and then makes read-only. Reference: the System V ABI, chapters
4 and 5, and its x86-64 supplement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rushlight.runtime import elf
from rushlight.support.errors import fail

_PAGE = 4096
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_WORD = struct.Struct("<Q")
_INT = struct.Struct("<i")

_LOAD, _DYNAMIC_SEGMENT, _STACK, _READ_ONLY_AFTER = 1, 2, 0x6474E551, 0x6474E552
_EXECUTE, _WRITE, _READ = 1, 2, 4
_GLOBAL_FUNCTION = 1 << 4 | 2
# Tags of the dynamic section.
_TAGS = {"hash": 4, "strings": 5, "symbols": 6, "relocations": 7}
_RELOCATIONS_SIZE, _RELOCATION_SIZE, _STRINGS_SIZE, _SYMBOL_SIZE, _NAME, _RELATIVE_COUNT = 8, 9, 10, 11, 14, 0x6FFFFFF9


def shared_library(obj: bytes, name: str, exported: Sequence[str]) -> bytes:
    """The library's bytes; `name` is what it calls itself, `exported` are the functions that others see."""
    return _Writer(elf.ElfObject(obj), name, exported).written()


class _Writer:
    def __init__(self, obj: elf.ElfObject, name: str, exported: Sequence[str]) -> None:
        self.obj = obj
        self.exported = sorted(exported)
        self.offsets: dict[int, int] = {}
        self.slots: dict[int, int] = {}
        self.fixed: list[tuple[int, int]] = []  # where an address is stored, and which
        strings = b"\0" + b"".join(text.encode() + b"\0" for text in [*self.exported, name])
        self.strings = strings
        self.name_at = strings.index(name.encode() + b"\0", 1)
        missing = sorted(obj.undefined())
        if missing:
            fail("C005", f"package: the library needs unknown symbols: {', '.join(missing)}")

    def written(self) -> bytes:
        """Lays the file out, copies sections, and resolves what refers to what."""
        relocations = self.obj.loaded_relocations()
        absolute = sum(kind == elf.RELOCATION_ABSOLUTE64 for _, _, kind, _, _ in relocations)
        slots = dict.fromkeys(symbol for _, _, kind, symbol, _ in relocations if kind in elf.RELOCATIONS_GOT)
        tables = self._place_tables(absolute + len(slots))
        read_end = self.obj.place(
            self.offsets, tables["end"], lambda flags: not flags & (elf.FLAG_EXECUTE | elf.FLAG_WRITE)
        )
        code = elf.align(read_end, _PAGE)
        code_end = self.obj.place(self.offsets, code, lambda flags: bool(flags & elf.FLAG_EXECUTE))
        data = elf.align(code_end, _PAGE)
        data_end = elf.align(self.obj.place(self.offsets, data, lambda flags: bool(flags & elf.FLAG_WRITE)), 8)
        for symbol in slots:
            self.slots[symbol] = data_end
            data_end += 8
        dynamic, data_end = data_end, data_end + _DYNAMIC.size * 12
        image = bytearray(data_end)
        self.obj.copy_sections(self.offsets, image)
        for symbol, slot in self.slots.items():
            self.fixed.append((slot, self._address(symbol)))
        for relocation in relocations:
            self._relocate(image, *relocation)
        self._write_tables(image, tables, dynamic)
        segments = [
            (_LOAD, _READ, 0, read_end),
            (_LOAD, _READ | _EXECUTE, code, code_end),
            (_LOAD, _READ | _WRITE, data, data_end),
            (_DYNAMIC_SEGMENT, _READ | _WRITE, dynamic, data_end),
            (_READ_ONLY_AFTER, _READ, data, elf.align(data_end, _PAGE)),
            (_STACK, _READ | _WRITE, 0, 0),
        ]
        self._write_headers(image, segments)
        return bytes(image)

    def _place_tables(self, relocations: int) -> dict[str, int]:
        """Where the tables of the first segment lie, after the headers."""
        count = len(self.exported) + 1
        sizes = {
            "symbols": elf.SYMBOL.size * count,
            "relocations": elf.RELA.size * relocations,
            "hash": 4 * (3 + count),
            "strings": len(self.strings),
        }
        at = elf.HEADER.size + 6 * _SEGMENT.size
        tables: dict[str, int] = {}
        for table, size in sizes.items():
            tables[table] = at
            at = elf.align(at + size, 8)
        tables["end"] = at
        return tables

    def _address(self, index: int) -> int:
        symbol = self.obj.symbols[index]
        return self.offsets[symbol.section] + symbol.value

    def _relocate(self, image: bytearray, section: int, offset: int, kind: int, symbol: int, addend: int) -> None:
        at = self.offsets[section] + offset
        if kind in elf.RELOCATIONS_PC32:
            _INT.pack_into(image, at, self._address(symbol) + addend - at)
        elif kind in elf.RELOCATIONS_GOT:
            _INT.pack_into(image, at, self.slots[symbol] + addend - at)
        elif kind == elf.RELOCATION_PC64:
            _WORD.pack_into(image, at, (self._address(symbol) + addend - at) & 0xFFFFFFFFFFFFFFFF)
        elif kind == elf.RELOCATION_ABSOLUTE64:
            self.fixed.append((at, self._address(symbol) + addend))
        else:
            fail("X001", f"package: the object has a relocation of kind {kind}")

    def _write_tables(self, image: bytearray, tables: dict[str, int], dynamic: int) -> None:
        addresses = {
            symbol.name: self._address(at)
            for at, symbol in enumerate(self.obj.symbols)
            if symbol.external and symbol.section in self.offsets
        }
        at = tables["symbols"] + elf.SYMBOL.size
        for name in self.exported:
            # A section index other than 0 says "defined"; the file has no table of sections.
            start = self.strings.index(b"\0" + name.encode() + b"\0") + 1
            elf.SYMBOL.pack_into(image, at, start, _GLOBAL_FUNCTION, 0, 1, addresses[name], 0)
            at += elf.SYMBOL.size
        for number, (place, value) in enumerate(sorted(self.fixed)):
            at = tables["relocations"] + number * elf.RELA.size
            elf.RELA.pack_into(image, at, place, elf.RELOCATION_RELATIVE, value)
        # One bucket: a chain through all symbols.
        count = len(self.exported) + 1
        chain = [1, count, 1 if count > 1 else 0, 0, *[*range(2, count), 0][: count - 1]]
        struct.pack_into(f"<{len(chain)}I", image, tables["hash"], *chain)
        image[tables["strings"] : tables["strings"] + len(self.strings)] = self.strings
        entries = [
            (_NAME, self.name_at),
            *[(tag, tables[table]) for table, tag in _TAGS.items()],
            (_STRINGS_SIZE, len(self.strings)),
            (_SYMBOL_SIZE, elf.SYMBOL.size),
            (_RELOCATIONS_SIZE, elf.RELA.size * len(self.fixed)),
            (_RELOCATION_SIZE, elf.RELA.size),
            (_RELATIVE_COUNT, len(self.fixed)),
            (0, 0),
        ]
        for number, entry in enumerate(entries):
            _DYNAMIC.pack_into(image, dynamic + number * _DYNAMIC.size, *entry)

    def _write_headers(self, image: bytearray, segments: Sequence[tuple[int, int, int, int]]) -> None:
        identity = b"\x7fELF\x02\x01\x01" + bytes(9)
        count = len(segments)
        shared, current = 3, 1
        elf.HEADER.pack_into(
            image,
            0,
            identity,
            shared,
            self.obj.machine,
            current,
            0,
            elf.HEADER.size,
            0,
            0,
            elf.HEADER.size,
            _SEGMENT.size,
            count,
            0,
            0,
            0,
        )
        for number, (kind, flags, start, end) in enumerate(segments):
            alignment = 16 if kind == _STACK else 8 if kind == _DYNAMIC_SEGMENT else _PAGE
            size = end - start
            place = elf.HEADER.size + number * _SEGMENT.size
            in_file = min(size, len(image) - start)
            _SEGMENT.pack_into(image, place, kind, flags, start, start, start, in_file, size, alignment)
