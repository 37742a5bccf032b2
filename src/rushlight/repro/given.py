"""Inputs of a graph as text: layout and dtype, with the elements, or with what they were like."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rushlight.build.reference import Array
from rushlight.ir.dtype import BY_NAME, DType
from rushlight.runtime.descriptor import extent

MOST_BYTES = 1 << 14
"""Inputs of floats up to this size are kept as they are."""
MOST_INDEX_BYTES = 1 << 20
"""So are integers, which may be indices, up to this one."""


class Drawn(NamedTuple):
    """What the elements of a large input were like: others are drawn from the seed."""

    mean: float
    deviation: float
    low: float
    high: float
    seed: int


class Given(NamedTuple):
    """One input. `data` are its elements in row-major order, compressed; without `data` and `drawn` all are zero."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data: str = ""
    drawn: Drawn | None = None

    @staticmethod
    def of(array: Array, dtype: DType, seed: int) -> Given:
        """The input that an array is; `seed` is for drawing elements like its."""
        plain = Given(dtype.name, array.shape, strides_of(array))
        most = MOST_BYTES if dtype.numpy.kind in "fV" else MOST_INDEX_BYTES
        if array.nbytes <= most or dtype.numpy.kind == "c":
            data = zlib.compress(np.ascontiguousarray(array).tobytes(), 9)
            return plain._replace(data=base64.b85encode(data).decode())
        return plain._replace(drawn=_like(array, seed))

    def array(self) -> Array:
        """The input as an array with that layout, in memory of its own."""
        made = laid_out(self.shape, self.strides, BY_NAME[self.dtype].numpy)
        if self.data:
            elements = np.frombuffer(zlib.decompress(base64.b85decode(self.data)), made.dtype)
            made[...] = elements.reshape(self.shape)
        elif self.drawn is not None:
            made[...] = _drawn(self.drawn, self.shape, made.dtype)
        return made


def strides_of(array: Array) -> tuple[int, ...]:
    """The strides of an array in elements."""
    return tuple([stride // max(array.itemsize, 1) for stride in array.strides])


def laid_out(shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """Zeros with strides in elements, where some may be 0."""
    memory = np.zeros(max(1, extent(tuple(shape), tuple(strides))), dtype)
    steps = [stride * memory.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(memory, tuple(shape), steps)


def copied(array: Array) -> Array:
    """A copy with the same strides."""
    made = laid_out(array.shape, strides_of(array), array.dtype)
    made[...] = array
    return made


def _like(array: Array, seed: int) -> Drawn:
    with np.errstate(all="ignore"):
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
    if not finite.size:
        return Drawn(0.0, 0.0, 0.0, 0.0, seed)
    return Drawn(float(finite.mean()), float(finite.std()), float(finite.min()), float(finite.max()), seed)


def _drawn(like: Drawn, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    random = np.random.default_rng(like.seed)
    if dtype.kind == "b":
        return random.random(shape) < like.mean
    if dtype.kind in "iu":
        return random.integers(int(like.low), int(like.high), shape, endpoint=True).astype(dtype)
    return np.clip(random.normal(like.mean, like.deviation, shape), like.low, like.high).astype(dtype)
