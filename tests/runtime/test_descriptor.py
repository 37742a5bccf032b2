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


def test_pointers_lie_in_order():
    words, address = descriptor.pointers([64, 128, 1 << 46])
    assert words_at(address, 3) == list(words) == [64, 128, 1 << 46]


def test_a_sheet_has_descriptors_numbers_and_the_pointers_to_them():
    parts = [(1 | 7 << 8, 3, 1), (0,), (0,), (0,), (1 | 7 << 8, 3, 1)]
    sheets = descriptor.ArgumentBlocks(parts, [(1, float), (2, int), (3, complex)])
    sheets.fix(0, 1 << 40)
    sheet = sheets.fresh()
    assert [slot[1:] for slot in sheets.slots] == [("reals", 0), ("words", 14), ("reals", 1)]
    sheet.reals[0], sheet.words[14], sheet.reals[1], sheet.reals[2] = 2.5, -7, 1.0, -1.0
    addresses = words_at(sheet.pointer, len(parts))
    assert addresses == list(sheet.addresses)
    assert [words_at(address, 1 + len(part))[1:] for address, part in zip(addresses, parts, strict=True)] == [
        list(part) for part in parts
    ]
    first = [words_at(address, 1)[0] for address in addresses]
    assert first[0] == 1 << 40
    assert ctypes.c_double.from_address(first[1]).value == 2.5
    assert words_at(first[2], 1) == [-7]
    assert list((ctypes.c_double * 2).from_address(first[3])) == [1.0, -1.0]


def test_each_sheet_has_its_own_memory():
    sheets = descriptor.ArgumentBlocks([(0,)], [(0, float)])
    one, other = sheets.fresh(), sheets.fresh()
    one.reals[0], other.reals[0] = 1.0, 2.0
    assert words_at(one.addresses[0], 1) != words_at(other.addresses[0], 1)
    assert ctypes.c_double.from_address(one.words[0]).value == 1.0
