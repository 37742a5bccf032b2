"""Descriptors: how native code sees a tensor, and arrays of pointers to them.

A descriptor is int64 words in memory: data address, rank | dtype code << 8, the sizes, the strides in elements. Both
kinds are `array.array`s: whoever passes an address on keeps the array alive.
"""

import ctypes
from array import array
from collections.abc import Iterable, Sequence

RANK_BITS = 8
HEADER_WORDS = 2


def describe(address: int, dtype_code: int, shape: Sequence[int], strides: Sequence[int]) -> tuple["array[int]", int]:
    """The descriptor of a tensor whose first element is at `address`, and where the descriptor itself lies."""
    words = array("q", [address, len(shape) | dtype_code << 8, *shape, *strides])
    return words, words.buffer_info()[0]


def layout(dtype_code: int, shape: Sequence[int], strides: Sequence[int]) -> "array[int]":
    """A descriptor without an address, to make many of one shape from with `at`: half the cost of `describe`."""
    return array("q", [0, len(shape) | dtype_code << 8, *shape, *strides])


def read(address: int, rank: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """What a descriptor says: the address of the first element, the sizes, the strides in elements."""
    words = (ctypes.c_int64 * (HEADER_WORDS + 2 * rank)).from_address(address)
    sizes = HEADER_WORDS + rank
    return words[0], tuple(words[HEADER_WORDS:sizes]), tuple(words[sizes:])


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last element of a tensor."""
    return 0 if 0 in shape else 1 + sum([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])


def at(form: "array[int]", address: int) -> tuple["array[int]", int]:
    """A copy of a layout with its address filled in, and where the copy lies."""
    words = form[:]
    words[0] = address
    return words, words.buffer_info()[0]


def pointers(addresses: Iterable[int]) -> tuple["array[int]", int]:
    """The array of descriptor addresses that an entry takes, and where it lies."""
    words = array("q", addresses)
    return words, words.buffer_info()[0]
