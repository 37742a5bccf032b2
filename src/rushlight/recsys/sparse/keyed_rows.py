"""The rows of keyed jagged tensors: what they hold, their lengths, offsets and batch sizes."""

from __future__ import annotations

import itertools
from typing import Self

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import is_compiling
from rushlight.recsys.sparse.rows import Rows
from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.errors import require

InverseIndices = tuple[list[str], Tensor]


class KeyedRows(Rows):
    """Rows key by key, with the size of each key's batch."""

    _keys: tuple[str, ...]
    _stride_per_key_per_rank: tuple[tuple[int, ...], ...] | None
    _inverse_indices: InverseIndices | None
    _offset_per_key: list[int] | None

    def _check_strides(self, stride: int | None) -> None:
        count, keys = self._segment_count(), len(self._keys)
        if self._stride_per_key_per_rank is not None:
            fits = len(self._stride_per_key_per_rank) == keys and sum(self.stride_per_key()) == count
        elif keys == 0:
            fits = count == 0
        else:
            fits = count % keys == 0 and (stride is None or stride * keys == count)
        message = "KeyedJaggedTensor: the number of lengths is not that of keys times the batch"
        require(fits, "E003", message, lengths=count, keys=keys, stride=stride)

    def _segment_count(self) -> int:
        if self._lengths is not None:
            return self._lengths.shape[0]
        assert self._offsets is not None
        return self._offsets.shape[0] - 1

    def sync(self) -> Self:
        """Make what `length_per_key` and `offset_per_key` give, and return this tensor."""
        self.offset_per_key()
        return self

    def keys(self) -> list[str]:
        """Return the keys in order."""
        return list(self._keys)

    def inverse_indices(self) -> InverseIndices:
        """Return, for keys, which row of its batch each example has. E005 where nothing says it."""
        require(self._inverse_indices is not None, "E005", "inverse_indices: this tensor has none")
        assert self._inverse_indices is not None
        return self._inverse_indices

    def inverse_indices_or_none(self) -> InverseIndices | None:
        """Return the inverse indices, or None."""
        return self._inverse_indices

    def variable_stride_per_key(self) -> bool:
        """Return whether batches have sizes of their own."""
        return self._stride_per_key_per_rank is not None

    def stride(self) -> int:
        """Return the size of the batch. Where keys have their own it is that of examples, or the largest one."""
        inverse = self._inverse_indices
        if self._stride_per_key_per_rank is not None and inverse is not None and inverse[1].shape[-1]:
            return inverse[1].shape[-1]
        if self._stride_per_key_per_rank is not None:
            return max(self.stride_per_key(), default=0)
        return self._segment_count() // len(self._keys) if self._keys else 0

    def stride_per_key(self) -> list[int]:
        """Return the size of each key's batch."""
        if self._stride_per_key_per_rank is not None:
            return [sum(each) for each in self._stride_per_key_per_rank]
        return [self.stride()] * len(self._keys)

    def stride_per_key_per_rank(self) -> list[list[int]]:
        """Return, for each key, how much of its batch comes from each rank."""
        if self._stride_per_key_per_rank is not None:
            return [list(each) for each in self._stride_per_key_per_rank]
        return [[stride] for stride in self.stride_per_key()]

    def offset_per_key(self) -> list[int]:
        """Return the place of each key's first value, and at last the number of values."""
        if self._offset_per_key is not None:
            return self._offset_per_key
        made: list[int] = self.key_offsets().tolist()
        if not is_compiling():
            self._offset_per_key = made
        return made

    def length_per_key(self) -> list[int]:
        """Return the number of each key's values."""
        offsets = self.offset_per_key()
        return [end - first for first, end in itertools.pairwise(offsets)]

    def length_per_key_or_none(self) -> list[int] | None:
        """Return the number of each key's values if the offsets of keys have been made."""
        return None if self._offset_per_key is None else self.length_per_key()

    def offset_per_key_or_none(self) -> list[int] | None:
        """Return the offsets of keys if they have been made."""
        return self._offset_per_key

    def lengths_offset_per_key(self) -> list[int]:
        """Return the place of each key's first length, and at last the number of lengths."""
        return prefix_sums(self.stride_per_key())

    def unsync(self) -> Self:
        """Forget the offsets of keys, and return this tensor."""
        self._offset_per_key = None
        return self

    def key_offsets(self) -> Tensor:
        """Return `offset_per_key` as a tensor: a graph then needs no number of it."""
        if self._stride_per_key_per_rank is None:
            return self.offsets()[rl.arange(len(self._keys) + 1) * self.stride()]
        return self.offsets()[rl.tensor(prefix_sums(self.stride_per_key()), dtype=rl.int64)]

    def index_per_key(self) -> dict[str, int]:
        """Return the place of each key."""
        return {key: place for place, key in enumerate(self._keys)}
