"""Descriptors: how native code sees a tensor, and arrays of pointers to them.

A descriptor is int64 words in memory: data address, rank | dtype code << 8, the sizes, the strides in elements. Both
kinds are `array.array`s: whoever passes an address on keeps the array alive.
"""

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


def at(form: "array[int]", address: int) -> tuple["array[int]", int]:
    """A copy of a layout with its address filled in, and where the copy lies."""
    words = form[:]
    words[0] = address
    return words, words.buffer_info()[0]


def pointers(addresses: Iterable[int]) -> tuple["array[int]", int]:
    """The array of descriptor addresses that an entry takes, and where it lies."""
    words = array("q", addresses)
    return words, words.buffer_info()[0]
