"""Jagged rows by key: the ids of sparse features, batch by batch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.composite.segments import lengths_of, taken_segments
from rushlight.nn import Module
from rushlight.recsys.sparse.jagged_tensor import JaggedTensor
from rushlight.recsys.sparse.keyed_rows import InverseIndices, KeyedRows
from rushlight.recsys.sparse.keyed_tensor import place_of, require_keys
from rushlight.recsys.sparse.rows import require_weights, same_rows
from rushlight.recsys.sparse.segments import checked_segments, prefix_sums
from rushlight.support.errors import require
from rushlight.utils._pytree import register_pytree_node


class KeyedJaggedTensor(KeyedRows):
    """A batch of jagged rows for each key: those of the first key, then those of the second, and so on.

    Rows are given by `lengths` or by `offsets` of all keys. A batch has one size for all keys, or with
    `stride_per_key_per_rank` a size for each key (and for each rank that a part of it comes from). Errors: E002 for a
    key that is there twice, E003 and E004 where lengths do not divide the values. What follows from these, such as
    `length_per_key`, is found from them, and not taken at its word.

    ids = KeyedJaggedTensor(["user", "item"], rl.tensor([7, 3, 3, 9]), lengths=rl.tensor([1, 1, 0, 2]))
    ids["item"].to_dense()  # [[], [3, 9]]
    """

    def __init__(
        self,
        keys: Sequence[str],
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Sequence[Sequence[int]] | Tensor | None = None,
        stride_per_key: Sequence[int] | None = None,
        length_per_key: Sequence[int] | None = None,
        lengths_offset_per_key: Sequence[int] | None = None,
        offset_per_key: Sequence[int] | None = None,
        index_per_key: Mapping[str, int] | None = None,
        jt_dict: Mapping[str, JaggedTensor] | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> None:
        del stride_per_key, length_per_key, lengths_offset_per_key, offset_per_key, index_per_key, jt_dict
        require_keys("KeyedJaggedTensor", keys)
        lengths, offsets = checked_segments("KeyedJaggedTensor", values, lengths, offsets)
        require_weights("KeyedJaggedTensor", values, weights)
        self._keys, self._values, self._weights = tuple(keys), values, weights
        self._lengths, self._offsets = lengths, offsets
        strides = stride_per_key_per_rank
        own = strides.tolist() if isinstance(strides, Tensor) else strides
        self._stride_per_key_per_rank = None if own is None else tuple([tuple(each) for each in own])
        self._inverse_indices, self._offset_per_key = inverse_indices, None
        self._check_strides(stride)

    @classmethod
    def of_parts(cls, parts: Sequence[Any], keys: tuple[str, ...], strides: Any) -> KeyedJaggedTensor:
        """Return the tensor of values, weights, lengths and offsets that divide them, and inverse indices."""
        made = cls.__new__(cls)
        made._values, made._weights, made._lengths, made._offsets = parts[:4]
        made._inverse_indices = parts[4] if len(parts) > 4 else None
        made._keys, made._stride_per_key_per_rank, made._offset_per_key = keys, strides, None
        return made

    @staticmethod
    def from_lengths_sync(
        keys: Sequence[str],
        values: Tensor,
        lengths: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Sequence[Sequence[int]] | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> KeyedJaggedTensor:
        """Return the tensor of lengths, with the offsets of keys made at once."""
        return KeyedJaggedTensor(
            keys, values, weights, lengths, None, stride, stride_per_key_per_rank, inverse_indices=inverse_indices
        ).sync()

    @staticmethod
    def from_offsets_sync(
        keys: Sequence[str],
        values: Tensor,
        offsets: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Sequence[Sequence[int]] | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> KeyedJaggedTensor:
        """Return the tensor of offsets, with those of keys made at once."""
        return KeyedJaggedTensor(
            keys, values, weights, None, offsets, stride, stride_per_key_per_rank, inverse_indices=inverse_indices
        ).sync()

    @staticmethod
    def from_jt_dict(jt_dict: Mapping[str, JaggedTensor]) -> KeyedJaggedTensor:
        """Return the jagged tensors of keys as one. Batches may have several sizes; all or none have weights."""
        parts = list(jt_dict.values())
        require(parts, "E003", "from_jt_dict: there is no jagged tensor")
        weights = [part.weights_or_none() for part in parts]
        weighted = [weight for weight in weights if weight is not None]
        require(len(weighted) in (0, len(parts)), "E003", "from_jt_dict: all or none of the tensors have weights")
        lengths = [part.lengths() for part in parts]
        strides = [[length.shape[0]] for length in lengths]
        same = all(stride == strides[0] for stride in strides)
        values = rl.cat([part.values() for part in parts])
        joined = rl.cat(weighted) if weighted else None
        return KeyedJaggedTensor(
            list(jt_dict), values, joined, rl.cat(lengths), stride_per_key_per_rank=None if same else strides
        )

    @staticmethod
    def concat(kjt_list: Sequence[KeyedJaggedTensor]) -> KeyedJaggedTensor:
        """Return the keys of several tensors in one, which all have weights, or none has."""
        require(kjt_list, "E003", "concat: there is no tensor")
        weighted = [part._weights for part in kjt_list if part._weights is not None]
        require(len(weighted) in (0, len(kjt_list)), "E003", "concat: all or none of the tensors have weights")
        varies = any(part.variable_stride_per_key() for part in kjt_list)
        batches = {part.stride() for part in kjt_list if part._keys} if not varies else set[int]()
        strides = None
        if varies or len(batches) > 1:
            strides = [each for part in kjt_list for each in part.stride_per_key_per_rank()]
        return KeyedJaggedTensor(
            [key for part in kjt_list for key in part._keys],
            rl.cat([part._values for part in kjt_list]),
            rl.cat(weighted) if weighted else None,
            rl.cat([part.lengths() for part in kjt_list]),
            stride_per_key_per_rank=strides,
        )

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: object = None,
        values_dtype: Any = None,
        weights_dtype: Any = None,
        lengths_dtype: Any = rl.int32,
    ) -> KeyedJaggedTensor:
        """Return a tensor without keys."""
        jagged = JaggedTensor.empty(is_weighted, device, values_dtype, weights_dtype, lengths_dtype)
        return KeyedJaggedTensor([], jagged.values(), jagged.weights_or_none(), jagged.lengths())

    @staticmethod
    def empty_like(kjt: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return a tensor without keys, of the same dtypes."""
        weights = kjt._weights
        lengths = kjt.lengths().new_zeros(0)
        none = None if weights is None else weights.new_zeros(0)
        return KeyedJaggedTensor([], kjt._values.new_zeros(0), none, lengths)

    def __getitem__(self, key: str) -> JaggedTensor:
        place = place_of(self._keys, key)
        (part,) = self._parts([place, place + 1])
        return JaggedTensor.of_parts(part.parts())

    def to_dict(self, compute_offsets: bool = True) -> dict[str, JaggedTensor]:
        """Return the rows by key; values and weights are views, and offsets are made when they are asked for."""
        del compute_offsets
        parts = self._parts(range(len(self._keys) + 1))
        return {key: JaggedTensor.of_parts(part.parts()) for key, part in zip(self._keys, parts, strict=True)}

    def _parts(self, ends: Sequence[int]) -> list[KeyedJaggedTensor]:
        """The keys between each two places; where keys begin is asked once for all parts."""
        places, strides, lengths = self.offset_per_key(), prefix_sums(self.stride_per_key()), self.lengths()
        parts: list[KeyedJaggedTensor] = []
        for first, end in itertools.pairwise(ends):
            low, high = places[first], places[end]
            weights = None if self._weights is None else self._weights[low:high]
            own = None if self._stride_per_key_per_rank is None else self._stride_per_key_per_rank[first:end]
            rows = self._values[low:high], weights, lengths[strides[first] : strides[end]], None
            made = KeyedJaggedTensor.of_parts(rows, self._keys[first:end], own)
            made._offset_per_key = [place - low for place in places[first : end + 1]]
            parts.append(made)
        return parts

    def split(self, segments: Sequence[int]) -> list[KeyedJaggedTensor]:
        """Return tensors of so many keys each, in order; values and weights are views."""
        ends = prefix_sums(segments)
        fits = ends[-1] == len(self._keys) and all(count >= 0 for count in segments)
        message = "split: segments do not sum to the number of keys"
        require(fits, "E003", message, segments=list(segments), keys=len(self._keys))
        return self._parts(ends)

    def permute(self, indices: Sequence[int], indices_tensor: Tensor | None = None) -> KeyedJaggedTensor:
        """Return the keys at some places, in that order; one may be there twice. One kernel moves values."""
        del indices_tensor
        count = len(self._keys)
        inside = all(0 <= place < count for place in indices)
        require(inside, "E005", "permute: there is no key at a place", indices=list(indices), keys=count)
        return self.repeated(indices, [self._keys[place] for place in indices])

    def repeated(self, indices: Sequence[int], names: Sequence[str]) -> KeyedJaggedTensor:
        """Return the keys at some places, of which one may be there several times, under other names."""
        order = rl.tensor(list(indices), dtype=rl.int64)
        bounds = self.key_offsets().long()
        starts, lengths = bounds[:-1][order], lengths_of(bounds)[order]
        whole = sorted(indices) == list(range(len(self._keys)))
        places = taken_segments(starts, lengths, self._values.shape[0] if whole else lengths.sum().item())
        own = self._stride_per_key_per_rank
        return KeyedJaggedTensor.of_parts(
            (
                self._values[places],
                None if self._weights is None else self._weights[places],
                self._permuted_lengths(order, indices),
                None,
                self._inverse_indices,
            ),
            tuple(names),
            None if own is None else tuple([own[place] for place in indices]),
        )

    def expanded(self) -> KeyedJaggedTensor:
        """Return the tensor of all examples: each key's batch has the rows that its inverse indices name."""
        names, inverse = self.inverse_indices()
        firsts = prefix_sums(self.stride_per_key())
        rows = rl.cat(
            [first + inverse[place_of(names, key)].long() for first, key in zip(firsts, self._keys, strict=False)]
        )
        lengths = self.lengths().long()[rows]
        places = taken_segments(self.offsets()[rows], lengths, int(lengths.sum()))
        weights = None if self._weights is None else self._weights[places]
        return KeyedJaggedTensor.of_parts((self._values[places], weights, lengths, None), self._keys, None)

    def _permuted_lengths(self, order: Tensor, indices: Sequence[int]) -> Tensor:
        lengths = self.lengths()
        if self._stride_per_key_per_rank is None:
            return lengths.reshape(len(self._keys), self.stride())[order].reshape(-1)
        strides = self.stride_per_key()
        starts = rl.tensor(prefix_sums(strides)[:-1], dtype=rl.int64)[order]
        chosen = [strides[place] for place in indices]
        return lengths[taken_segments(starts, rl.tensor(chosen, dtype=rl.int64), sum(chosen))]

    def with_values(self, values: Tensor) -> KeyedJaggedTensor:
        """Return the same rows with other values."""
        parts = values, self._weights, self._lengths, self._offsets, self._inverse_indices
        return KeyedJaggedTensor.of_parts(parts, self._keys, self._stride_per_key_per_rank)

    def with_weights(self, weights: Tensor) -> KeyedJaggedTensor:
        """Return the same rows with other weights."""
        parts = self._values, weights, self._lengths, self._offsets, self._inverse_indices
        return KeyedJaggedTensor.of_parts(parts, self._keys, self._stride_per_key_per_rank)

    def flatten_lengths(self) -> KeyedJaggedTensor:
        """Return this tensor with lengths in one dim, as they always are here."""
        return self

    def to(self, device: object, non_blocking: bool = False, dtype: Any = None) -> KeyedJaggedTensor:
        """Return the tensor on a device; `dtype` is that of its weights."""
        del non_blocking
        values, weights, *divided = [None if part is None else part.to(device) for part in self.parts()]
        if weights is not None and dtype is not None:
            weights = weights.to(dtype)
        parts = [values, weights, *divided, self._inverse_indices]
        return KeyedJaggedTensor.of_parts(parts, self._keys, self._stride_per_key_per_rank)

    def pin_memory(self) -> KeyedJaggedTensor:
        """Return this tensor: there is no pinned memory."""
        return self

    def __repr__(self) -> str:
        rows = ", ".join(
            [f"{key!r}: {stride} rows" for key, stride in zip(self._keys, self.stride_per_key(), strict=True)]
        )
        return f"KeyedJaggedTensor({{{rows}}}, {self._values!r}, lengths={self.lengths()!r}, weights={self._weights!r})"


def kjt_is_equal(kjt_1: object, kjt_2: object) -> bool:
    """Return whether two tensors have the same keys and rows, with values and weights as `allclose` says."""
    if not isinstance(kjt_1, KeyedJaggedTensor) or not isinstance(kjt_2, KeyedJaggedTensor):
        return False
    same = kjt_1.keys() == kjt_2.keys() and kjt_1.stride_per_key() == kjt_2.stride_per_key()
    return same and same_rows(kjt_1, kjt_2)


class ComputeKJTToJTDict(Module):
    """`to_dict` as a module."""

    def forward(self, keyed_jagged_tensor: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Return the rows by key."""
        return keyed_jagged_tensor.to_dict()


class ComputeJTDictToKJT(Module):
    """`from_jt_dict` as a module."""

    def forward(self, jt_dict: Mapping[str, JaggedTensor]) -> KeyedJaggedTensor:
        """Return the jagged tensors as one."""
        return KeyedJaggedTensor.from_jt_dict(jt_dict)


def _flatten(keyed: KeyedJaggedTensor) -> tuple[list[Any], Any]:
    strides = keyed.stride_per_key_per_rank() if keyed.variable_stride_per_key() else None
    own = None if strides is None else tuple([tuple(each) for each in strides])
    return [*keyed.parts(), keyed.inverse_indices_or_none()], (tuple(keyed.keys()), own)


def _made(parts: Any, context: Any) -> KeyedJaggedTensor:
    return KeyedJaggedTensor.of_parts(tuple(parts), *context)


register_pytree_node(KeyedJaggedTensor, _flatten, _made)
