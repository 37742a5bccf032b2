"""Descriptors hold what native code reads."""

import ctypes

import pytest

from rushlight.runtime import descriptor


def words_at(address, count):
    return list((ctypes.c_int64 * count).from_address(address))


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((2, 3), (3, 1)), ((0, 4, 1), (4, 1, 0)), ((2, 2), (-2, 1))]
)
def test_words_are_address_header_sizes_strides(shape, strides):
    rank = len(shape)
    expected = [1 << 46, rank | 7 << 8, *shape, *strides]
    words, address = descriptor.describe(1 << 46, 7, shape, strides)
    assert words_at(address, 2 + 2 * rank) == list(words) == expected
    form = descriptor.layout(7, shape, strides)
    words, address = descriptor.at(form, 1 << 46)
    assert words_at(address, 2 + 2 * rank) == expected
    assert form[0] == 0


def test_pointers_lie_in_order():
    words, address = descriptor.pointers([64, 128, 1 << 46])
    assert words_at(address, 3) == list(words) == [64, 128, 1 << 46]
