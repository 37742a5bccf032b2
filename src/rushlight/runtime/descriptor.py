"""Descriptors: how native code sees a tensor, and arrays of pointers to them.

A descriptor is int64 words in memory: data address, rank | dtype code << 8, the sizes, the strides in elements. Both
kinds are `array.array`s: whoever passes an address on keeps the array alive.
"""

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

HEADER_WORDS = 2


def describe(address: int, dtype_code: int, shape: Sequence[int], strides: Sequence[int]) -> tuple["array[int]", int]:
    """The descriptor of a tensor whose first element is at `address`, and the descriptor's own address."""
    words = array("q", [address, len(shape) | dtype_code << 8, *shape, *strides])
    return words, words.buffer_info()[0]


def read(address: int, rank: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """What a descriptor says: the address of the first element, the sizes, the strides in elements."""
    words = (ctypes.c_int64 * (HEADER_WORDS + 2 * rank)).from_address(address)
    sizes = HEADER_WORDS + rank
    return words[0], tuple(words[HEADER_WORDS:sizes]), tuple(words[sizes:])


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last element of a tensor."""
    return 0 if 0 in shape else 1 + sum([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])


def pointers(addresses: Iterable[int]) -> tuple["array[int]", int]:
    """The array of descriptor addresses that an entry takes, and where it lies."""
    words = array("q", addresses)
    return words, words.buffer_info()[0]


class ArgumentBlock:
    """What one call passes: its descriptors in a row, memory for float operands, and the `pointer` to it all."""

    __slots__ = ("addresses", "pointer", "reals", "words")

    def __init__(self, words: "array[int]", reals: "array[float]", offsets: Iterable[int]) -> None:
        base = words.buffer_info()[0]
        self.words = words
        self.reals = reals
        self.addresses = array("q", [base + offset for offset in offsets])
        self.pointer = self.addresses.buffer_info()[0]


class Slot(NamedTuple):
    """Where a number lies: the operand's position, the area of the sheet, and from which item on."""

    position: int
    area: str
    at: int


def number_slots(numbers: Iterable[tuple[int, type]], first: int) -> list[Slot]:
    """Where operands lie that are numbers, given by position and class.

    An int or bool takes a word after the `first` words of a sheet, which its descriptors have; a float takes one of its
    `reals`, a complex two.
    """
    slots: list[Slot] = []
    taken = {"words": first, "reals": 0}
    for position, kind in numbers:
        area = "words" if issubclass(kind, int) else "reals"
        slots.append(Slot(position, area, taken[area]))
        taken[area] += 2 if kind is complex else 1
    return slots


class ArgumentBlocks:
    """The sheets of all calls that pass equal descriptors but for addresses: made once, then filled in and put back.

    A call takes one out of `free`, or a fresh one, and appends it when it is done, so that calls on several threads, or
    within each other, have each their own. One that a signal's handler keeps from coming back is simply garbage.
    """

    __slots__ = ("_offsets", "_template", "free", "slots", "starts")

    def __init__(self, parts: Iterable[Sequence[int]], numbers: Iterable[tuple[int, type]] = ()) -> None:
        """`parts` are descriptors without addresses. `numbers` has the position and class of those for numbers."""
        words: list[int] = []
        self.starts: list[int] = []
        for part in parts:
            self.starts.append(len(words))
            words.extend((0, *part))
        self.slots = number_slots(numbers, len(words))
        self._offsets = [8 * start for start in self.starts]
        self._template = array("q", words + [0 for slot in self.slots if slot.area == "words"])
        self.free: list[ArgumentBlock] = []

    def fix(self, position: int, address: int) -> None:
        """Says the address of an operand that is the same at every call."""
        self._template[self.starts[position]] = address

    def fresh(self) -> ArgumentBlock:
        """Another sheet."""
        words = self._template[:]
        reals = array("d", [0.0 for slot in self.slots if slot.area == "reals" for _ in range(2)])
        bases = {"words": words.buffer_info()[0], "reals": reals.buffer_info()[0]}
        for slot in self.slots:
            words[self.starts[slot.position]] = bases[slot.area] + 8 * slot.at
        return ArgumentBlock(words, reals, self._offsets)
