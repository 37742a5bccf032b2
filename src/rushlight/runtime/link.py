"""Linking one x86-64 ELF object into this process, without LLVM.

A process whose kernels are all cached never needs llvmlite: importing it takes longer than linking a thousand objects
(some 80 ms against 60 µs each). Only what LLVM emits for position-independent code is known here; an object with
anything else raises `UnsupportedObject`, and the caller asks LLVM's linker.
"""

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable, Mapping

from rushlight.runtime import elf

_PAGE = mmap.PAGESIZE
_KNOWN = (elf.RELOCATION_ABSOLUTE64, elf.RELOCATION_PC64, *elf.RELOCATIONS_PC32, *elf.RELOCATIONS_GOT)

_TO_BE_RUN = (".ctors", ".dtors", ".init_array", ".fini_array")

_JUMP = struct.Struct("<6sQxx")  # jmp *0(%rip), then the address
_JUMP_CODE = b"\xff\x25\0\0\0\0"
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")


class UnsupportedObject(Exception):
    """The object holds something that only LLVM's linker knows; never shown to a user."""


class Image:
    """A linked object in executable memory, unmapped when the last reference goes."""

    __slots__ = ("_memory", "addresses")

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory = memory
        self.addresses = addresses


def can_link_here() -> bool:
    """Whether this process may link objects by itself: x86-64 with POSIX memory protection and ELF conventions."""
    return sys.platform in ("linux", "freebsd") and os.uname().machine == "x86_64"


def link(obj: elf.ElfObject, symbols: Mapping[str, int]) -> Image:
    """Copy the object into fresh memory, resolve every reference and make the code executable."""
    if obj.machine != elf.MACHINE_X86_64:
        raise UnsupportedObject("not an x86-64 object")
    return _Linker(obj, symbols).run()


class _Linker:
    """One run: lay sections out (code, jump stubs | data, address slots), copy, relocate, protect."""

    def __init__(self, obj: elf.ElfObject, symbols: Mapping[str, int]) -> None:
        self.obj = obj
        self.symbols = symbols
        self.offsets: dict[int, int] = {}  # section index -> offset in the image
        self.stubs: dict[int, int] = {}  # symbol index -> offset of its jump stub
        self.slots: dict[int, int] = {}  # symbol index -> offset of its address slot
        self.code_end = 0
        self.size = 0
        self.base = 0

    def run(self) -> Image:
        """Link and return the image."""
        self._require_known_sections()
        relocations = self.obj.loaded_relocations()
        self._lay_out(relocations)
        memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.obj.copy_sections(self.offsets, memory)
        for index, offset in self.stubs.items():
            _JUMP.pack_into(memory, offset, _JUMP_CODE, self._address(index))
        for index, offset in self.slots.items():
            _U64.pack_into(memory, offset, self._address(index))
        for relocation in relocations:
            self._relocate(memory, *relocation)
        _protect(self.base, self.code_end)
        exported = {
            symbol.name: self._address(index)
            for index, symbol in enumerate(self.obj.symbols)
            if symbol.external and symbol.section != elf.UNDEFINED
        }
        return Image(memory, exported)

    def _require_known_sections(self) -> None:
        for section in self.obj.sections:
            if not section.is_loaded:
                continue
            known_kind = section.kind in (elf.SECTION_PROGBITS, elf.SECTION_NOBITS) and not section.flags & elf.FLAG_TLS
            if not known_kind or section.name.startswith(_TO_BE_RUN):
                raise UnsupportedObject(f"section {section.name} of kind {section.kind}")

    def _lay_out(self, relocations: list[elf.Relocation]) -> None:
        obj, symbols = self.obj, self.obj.symbols
        if any(symbol.section == elf.COMMON for symbol in symbols):
            raise UnsupportedObject("common symbols")
        position = obj.place(self.offsets, 0, lambda flags: bool(flags & elf.FLAG_EXECUTE))
        for section, _offset, kind, symbol, _addend in relocations:
            if kind not in _KNOWN:
                raise UnsupportedObject(f"relocation kind {kind} in {obj.sections[section].name}")
            if kind in elf.RELOCATIONS_PC32 and symbols[symbol].section == elf.UNDEFINED and symbol not in self.stubs:
                position = elf.align(position, _JUMP.size)
                self.stubs[symbol] = position
                position += _JUMP.size
        self.code_end = elf.align(position, _PAGE)
        position = obj.place(self.offsets, self.code_end, lambda flags: not flags & elf.FLAG_EXECUTE)
        position = elf.align(position, _U64.size)
        for _section, _offset, kind, symbol, _addend in relocations:
            if kind in elf.RELOCATIONS_GOT and symbol not in self.slots:
                self.slots[symbol] = position
                position += _U64.size
        self.size = max(elf.align(position, _PAGE), _PAGE)

    def _address(self, index: int) -> int:
        symbol = self.obj.symbols[index]
        if symbol.section == elf.UNDEFINED:
            return self.symbols[symbol.name]
        if symbol.section == elf.ABSOLUTE:
            return symbol.value
        return self.base + self.offsets[symbol.section] + symbol.value

    def _relocate(self, memory: mmap.mmap, section: int, offset: int, kind: int, symbol: int, addend: int) -> None:
        address = self.offsets[section] + offset
        if kind in elf.RELOCATIONS_GOT:
            _I32.pack_into(memory, address, self.slots[symbol] + addend - address)
        elif kind in elf.RELOCATIONS_PC32:
            stub = self.stubs.get(symbol)
            target = self._address(symbol) - self.base if stub is None else stub
            _I32.pack_into(memory, address, target + addend - address)
        elif kind == elf.RELOCATION_PC64:
            distance = self._address(symbol) + addend - (self.base + address)
            _U64.pack_into(memory, address, distance & 0xFFFFFFFFFFFFFFFF)
        else:
            _U64.pack_into(memory, address, (self._address(symbol) + addend) & 0xFFFFFFFFFFFFFFFF)


@functools.cache
def _mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _protect(address: int, size: int) -> None:
    if not size:
        return
    if _mprotect()(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise UnsupportedObject(f"the system refuses executable memory (errno {ctypes.get_errno()})")
