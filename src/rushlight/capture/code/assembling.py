"""Pieces of bytecode for code that goes on in the middle of a function: bytes of instructions, lines, handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from opcode import opmap

from rushlight.capture.code.instructions import decode

UNIT = 2  # bytes of an instruction
_NO_LOCATION = 0x80 | 15 << 3  # begins an entry of the table of locations; its last bits count instructions
_MOST_LOCATED = 8  # by one entry
_FIRST = 0x80  # the bit of the first byte of an entry of the table of handlers


def emitted(name: str, operand: int, units: int = 0) -> Iterator[int]:
    """The bytes of an instruction, with as many prefixes as its operand needs, or of as many units."""
    units = units or units_of(operand)
    for shift in range(units - 1, 0, -1):
        yield from (opmap["EXTENDED_ARG"], operand >> 8 * shift & 255)
    yield from (opmap[name], operand & 255)


def units_of(operand: int) -> int:
    """How many units an instruction has with its prefixes."""
    return 1 + max(operand.bit_length() - 1, 0) // 8


def unpacked(constant: int, count: int) -> Iterator[int]:
    """Pushes what an iterable among the constants holds, the last first."""
    yield from emitted("LOAD_CONST", constant)
    yield from emitted("UNPACK_SEQUENCE", count)
    yield from bytes(_CACHED)


def filled(names: Iterable[int], stack: Iterable[int], constant: int) -> Iterator[int]:
    """Fills in variables and the stack from iterables among the constants, from number `constant` on.

    `names` are the variables that the first iterable holds; each later one has so many values of the stack, from the
    top of a part down. Between two parts stands a null.
    """
    names = list(names)
    yield from unpacked(constant, len(names))
    for at in names:
        yield from emitted("STORE_FAST", at)
    for number, count in enumerate(stack, 1):
        if number > 1:
            yield from emitted("PUSH_NULL", 0)
        yield from unpacked(constant + number, count)


def unlocated(units: int) -> Iterator[int]:
    """The entries of the table of locations for instructions of no line."""
    for first in range(0, units, _MOST_LOCATED):
        yield _NO_LOCATION | min(units - first, _MOST_LOCATED) - 1


def handlers_encoded(entries: Iterable[tuple[int, int, int, int, bool]]) -> bytes:
    """The table of handlers: start, end and target in bytes, depth, and whether the origin is pushed, of each."""
    table = bytearray()
    for start, end, target, depth, pushes in entries:
        first = len(table)
        for number in (start // UNIT, (end - start) // UNIT, target // UNIT, depth << 1 | pushes):
            groups = range(max(number.bit_length() - 1, 0) // 6, -1, -1)
            table += bytes([number >> 6 * group & 63 | (64 if group else 0) for group in groups])
        table[first] |= _FIRST
    return bytes(table)


def _cache_of_unpacking() -> int:
    """The bytes behind an UNPACK_SEQUENCE that CPython keeps for itself."""

    def unpacks(pair: tuple[object, object]) -> object:
        first, second = pair
        return second, first

    code = decode(unpacks.__code__).instructions
    at = next(at for at, each in enumerate(code) if each.name == "UNPACK_SEQUENCE")
    return code[at + 1].offset - code[at].offset - UNIT


_CACHED = _cache_of_unpacking()
