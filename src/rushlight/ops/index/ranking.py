"""Where elements stand in order: stable sorts by digits, and few ranks selected without sorting.

NaN is the largest, equal elements keep their order, and the two zeros are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ops.dims import Array

SELECTED = 8  # at most one element in so many is selected; more are taken from the sorted ones
GROUPS = 4  # of elements, for each that is selected
GROUPED = 4  # elements that a group has at least
WORTH_KEYS = 1024  # elements from which on a sort of keys made of them is sooner done than one by comparisons
BLOCK = 8192  # places that are made at once
BY_DIGITS = 16384  # elements of a row of 64 bits from which on digits are counted sooner than elements compared


def ranked(array: Array, start: int, count: int, descending: bool) -> Array:
    """Where the elements of `count` ranks from `start` on stand along the last dim.

    Few are selected, not sorted.
    """
    size = array.shape[-1]
    rank = size - start - count if descending else start
    if count and array.size and count * SELECTED <= size:
        rows = np.ascontiguousarray(array).reshape(-1, size)
        return _selected(rows, rank, count, descending).reshape(*array.shape[:-1], count)
    if not descending:
        return stable_order(array)[..., rank : rank + count]
    backwards = stable_order(np.flip(array, -1))[..., rank : rank + count]
    return size - 1 - np.flip(backwards, -1)


def _selected(rows: Array, rank: int, count: int, descending: bool) -> Array:
    """The places of `count` ascending ranks from `rank` on in each row, among few that may have one.

    In descending order equal elements keep their order too: that is the ascending order of all elements backwards,
    read backwards.
    """
    size = rows.shape[-1]
    # NaN is the largest, and no comparison with it holds: those that are too many are sorted behind.
    below, above = _outside(rows, rank, count)
    flat = np.flatnonzero(~above if below is None else ~below if above is None else ~(below | above))
    values = rows.reshape(-1)[flat]
    if descending:
        flat, values = rows.size - 1 - flat[::-1], values[::-1]
    row, place = np.divmod(flat, size)
    held = np.bincount(row, minlength=len(rows))
    if above is None:
        first = held - count
    elif below is None:
        first = np.zeros_like(held)
    else:
        passed = np.count_nonzero(below, axis=-1)
        first = rank - (passed[::-1] if descending else passed)
    ordered = _ordered_rows(values, row, held)
    chosen = place[np.take_along_axis(ordered, first[:, None] + np.arange(count), -1)]
    return size - 1 - chosen[::-1, ::-1] if descending else chosen


def _ordered_rows(values: Array, row: Array, held: Array) -> Array:
    """Where the values of each row, which lie behind each other, stand in order.

    The result has as many columns as the longest row has values.
    """
    begin = np.cumsum(held) - held
    table = np.full((len(held), held.max()), _greatest(values.dtype))
    table[row, np.arange(len(values)) - begin[row]] = values
    # Stable, so that what fills a row up stays behind equal values, and NaN behind NaN.
    return np.argsort(table, axis=-1, kind="stable") + begin[:, None]


def _greatest(dtype: np.dtype[Any]) -> Any:
    """What no value of a dtype is ordered behind."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return dtype.type(True) if dtype.kind == "b" else dtype.type(np.nan)


def _outside(rows: Array, start: int, count: int) -> tuple[Any, Any]:
    """Which elements are surely below, and above, `count` ranks from `start` on; None where no ranks are."""
    last = start + count - 1
    at_start, at_end = start == 0, last == rows.shape[-1] - 1
    if at_start is not at_end and rows.shape[-1] >= GROUPED * GROUPS * count:
        bound = _group_bound(rows, count, at_end)[:, None]
        return (rows < bound, None) if at_end else (None, rows > bound)
    ranks = {*(() if at_start and not at_end else (start,)), *(() if at_end else (last,))}
    parted = np.partition(rows, sorted(ranks), axis=-1)
    above = None if at_end else rows > parted[:, last, None]
    return (None if at_start and not at_end else rows < parted[:, start, None]), above


def _group_bound(rows: Array, count: int, largest: bool) -> Array:
    """A bound for each row that `count` elements reach, or more.

    It is the `count`-th of the largest, or smallest, elements of groups: finding these takes one look at each element,
    where a partition moves them. With four groups for each rank that is wanted, 1.15 elements for each reach the bound.
    """
    groups = GROUPS * count
    width = rows.shape[-1] // groups
    grouped = rows[:, : width * groups].reshape(len(rows), width, groups)
    # The smallest pass over NaN, which is the largest.
    ends = grouped.max(1) if largest else np.fmin.reduce(grouped, 1)
    rank = groups - count if largest else count - 1
    return np.partition(ends, rank, axis=-1)[:, rank]


def stable_order(array: Array) -> Array:
    """Where the elements of the last dim stand in ascending order."""
    if array.size < WORTH_KEYS or array.dtype.kind == "b":
        return np.argsort(array, axis=-1, kind="stable")
    keys = np.ascontiguousarray(_integers(array) if array.dtype.kind == "f" else array)
    if keys.itemsize > 2:
        packed = _order_by_packed_keys(keys)
        if packed is not None:
            return packed
        if array.shape[-1] >= BY_DIGITS:
            return _order_by_digits(keys)
    return np.argsort(keys, axis=-1, kind="stable")  # numpy sorts 16 bits by counting


def _order_by_packed_keys(keys: Array) -> Array | None:
    """The order by one sort of keys with their places; None where 63 bits do not hold both.

    No two are equal, so numpy's unstable sort by vectors does.
    """
    bits = (keys.shape[-1] - 1).bit_length()
    least = keys.min()
    if int(keys.max()) - int(least) >> (63 - bits):
        return None
    if keys.itemsize == 4:
        packed = keys.astype(np.int64)
        packed -= int(least)
    else:
        packed = (keys - least).view(np.int64)
    packed <<= bits
    for start in range(0, keys.shape[-1], BLOCK):  # pages of one more array would be new ones at each call
        packed[..., start : start + BLOCK] |= np.arange(start, min(start + BLOCK, keys.shape[-1]))
    packed.sort(axis=-1)
    packed &= (1 << bits) - 1
    return packed


def _order_by_digits(keys: Array) -> Array:
    """The order by digits of 16 bits, from the lowest. Each pass counts, and keeps the order of the last."""
    digits = keys.view(np.uint16).reshape(*keys.shape, keys.itemsize // 2)
    order: Array | None = None
    for place in range(digits.shape[-1]):
        digit = np.ascontiguousarray(digits[..., place])
        if order is not None and digit.min() == digit.max():
            continue
        signed = place == digits.shape[-1] - 1 and keys.dtype.kind == "i"
        digit = digit.view(np.int16) if signed else digit
        if order is None:
            order = np.argsort(digit, axis=-1, kind="stable")
        else:
            following = np.argsort(np.take_along_axis(digit, order, -1), axis=-1, kind="stable")
            order = np.take_along_axis(order, following, -1)
    assert order is not None
    return order


def _integers(array: Array) -> Array:
    """Floats as signed integers in the same order: those below zero have all bits but the sign's turned round."""
    bits = np.dtype(f"i{array.dtype.itemsize}")
    keys = (array + array.dtype.type(0)).view(bits)  # -0.0 + 0.0 is 0.0
    broken = np.isnan(array)
    if broken.any():
        keys[broken] = np.iinfo(bits).max
    return keys ^ (keys >> (8 * bits.itemsize - 1) & np.iinfo(bits).max)
