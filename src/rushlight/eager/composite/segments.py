"""Lengths, offsets and places of segments that lie one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.eager import functions as ops
from rushlight.eager.creation import arange
from rushlight.ops.segments import segment_numbers

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


def offsets_of(lengths: Tensor) -> Tensor:
    """Where segments begin, and where the last one ends: one number more than there are segments."""
    return ops.cat([lengths.new_zeros(1), lengths.cumsum(0).to(lengths.dtype)])


def lengths_of(offsets: Tensor) -> Tensor:
    """How long segments are."""
    return offsets[1:] - offsets[:-1]


def taken_segments(starts: Tensor, lengths: Tensor, count: int) -> Tensor:
    """The places of `count` values of segments, one segment after the other.

    taken_segments(rl.tensor([5, 0]), rl.tensor([2, 1]), 3)  # 5, 6, 0
    """
    offsets = offsets_of(lengths.long())
    numbers = segment_numbers(offsets, count)
    shift = starts.long() - offsets[:-1]
    return shift[numbers] + arange(count, device=starts.device)
