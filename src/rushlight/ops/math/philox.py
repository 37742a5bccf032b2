"""Philox4x32-10 and what is drawn from its words.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.ir.dtype import DType, bfloat16, float16, float32, float64, int32, int64, uint32, uint64
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, constant, fma
from rushlight.ops.math.logarithm import log
from rushlight.ops.math.trigonometry import cos_of_quarter

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF

Words = tuple[Scalar, Scalar, Scalar, Scalar]
ArrayWords = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def philox(counter: Words, key: tuple[Scalar, Scalar]) -> Words:
    """Return four random 32-bit words for a 128-bit counter and a 64-bit key.

    All are uint32 scalars, low words first.
    """
    a, b, c, d = counter
    first, second = key
    left, right = [constant(value, uint32) for value in _MULTIPLIERS]
    for _ in range(_ROUNDS):
        high, low = apply("mulhi", a, left), a * left
        other_high, other_low = apply("mulhi", c, right), c * right
        a, b, c, d = other_high ^ b ^ first, other_low, high ^ d ^ second, low
        first, second = first + _WEYL[0], second + _WEYL[1]
    return a, b, c, d


def philox_array(counter: ArrayWords, key: tuple[Any, Any]) -> ArrayWords:
    """`philox` on uint32 arrays."""
    a, b, c, d = [np.asarray(word, np.uint64) for word in counter]
    first, second = int(key[0]), int(key[1])
    for _ in range(_ROUNDS):
        left, right = a * np.uint64(_MULTIPLIERS[0]), c * np.uint64(_MULTIPLIERS[1])
        shift, mask = np.uint64(32), np.uint64(_MASK)
        a, b = (right >> shift) ^ b ^ np.uint64(first), right & mask
        c, d = (left >> shift) ^ d ^ np.uint64(second), left & mask
        first, second = (first + _WEYL[0]) & _MASK, (second + _WEYL[1]) & _MASK
    return tuple([word.astype(np.uint32) for word in (a, b, c, d)])  # pyright: ignore[reportReturnType] - four of them


def halves(value: Scalar) -> tuple[Scalar, Scalar]:
    """The low and high words of a 64-bit integer."""
    wide = cast(value, uint64)
    return cast(wide, uint32), cast(wide >> 32, uint32)


def words_of(seed: Scalar, ordinal: Scalar, position: Scalar) -> Words:
    """The random words of one element of one call."""
    return philox((*halves(position), *halves(ordinal)), halves(seed))


def words_of_array(seed: int, ordinal: int, count: int) -> ArrayWords:
    """The random words of elements 0 to count - 1 of one call."""
    position = np.arange(count, dtype=np.uint64)
    low, high = position.astype(np.uint32), (position >> np.uint64(32)).astype(np.uint32)
    call = [np.full(count, (ordinal >> shift) & _MASK, np.uint32) for shift in (0, 32)]
    return philox_array((low, high, call[0], call[1]), (seed & _MASK, (seed >> 32) & _MASK))


def joined(low: Scalar, high: Scalar) -> Scalar:
    """A 64-bit integer from two words."""
    return cast(low, uint64) | (cast(high, uint64) << 32)


# Bits of a uniform number: as many as the dtype's fraction holds, so that 1.0 never comes up.
UNIFORM_BITS: dict[DType, int] = {bfloat16: 8, float16: 11, float32: 24, float64: 53}


def turned(words: Words) -> Words:
    """The words with the last two first: another number from the same call, of those that take two."""
    return (*words[2:], *words[:2])


def uniform(words: Words, dtype: DType) -> Scalar:
    """A number of [0, 1) in the dtype in which `dtype` is computed, every one of 2^bits equally likely."""
    bits = UNIFORM_BITS[dtype]
    if dtype is float64:
        return cast(joined(words[0], words[1]) >> (64 - bits), float64) * 2.0**-bits
    return cast(words[0] >> (32 - bits), float32) * 2.0**-bits


def normal(words: Words, dtype: DType) -> Scalar:
    """A normally distributed number (Box and Muller), in the dtype in which `dtype` is computed."""
    radius, rest, quadrant = _polar(words, dtype)
    return radius * cos_of_quarter(rest, quadrant)


def normal_parts(words: Words, dtype: DType) -> tuple[Scalar, Scalar]:
    """The parts of a normally distributed complex number of variance 1, half of which each part has."""
    radius, rest, quadrant = _polar(words, dtype)
    radius = radius * 0.5**0.5
    return radius * cos_of_quarter(rest, quadrant), radius * cos_of_quarter(rest, quadrant + 3)


def _polar(words: Words, dtype: DType) -> tuple[Scalar, Scalar, Scalar]:
    """The length of a pair of normally distributed numbers, and its angle: a quarter of a turn and the rest."""
    if dtype is float64:
        length = fma(cast(joined(words[0], words[1]), float64), _c(2.0**-64), _c(2.0**-65))
        turn, width, wide = joined(words[2], words[3]), 64, float64
    else:
        length = fma(cast(words[0], float32), _s(2.0**-32), _s(2.0**-33))
        turn, width, wide = words[1], 32, float32
    quarter = turn + (1 << (width - 3))
    quadrant = quarter >> (width - 2)
    rest = cast(bitcast(turn - (quadrant << (width - 2)), int64 if width == 64 else int32), wide)
    radius = apply("sqrt", log(length) * -2.0)
    return radius, rest * (2.0 * np.pi * 2.0**-width), quadrant


def _c(value: float) -> Scalar:
    return constant(value, float64)


def _s(value: float) -> Scalar:
    return constant(value, float32)
