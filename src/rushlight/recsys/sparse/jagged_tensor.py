"""Rows of any length: values, and the lengths or offsets that divide them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.ops.ragged import padded_segments
from rushlight.recsys.sparse.rows import Rows, require_weights, same_rows
from rushlight.recsys.sparse.segments import checked_segments
from rushlight.utils._pytree import register_pytree_node


class JaggedTensor(Rows):
    """Values in rows of any length, each with a weight if there are `weights`.

    Rows are given by `lengths` or by `offsets`; the other is made when it is asked for. Errors: E003 and E004 where
    these do not divide the values.

    jagged = JaggedTensor(rl.tensor([1.0, 2.0, 3.0]), lengths=rl.tensor([2, 0, 1]))
    jagged.to_padded_dense()  # [[1, 2], [0, 0], [3, 0]]
    """

    def __init__(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        lengths, offsets = checked_segments("JaggedTensor", values, lengths, offsets)
        require_weights("JaggedTensor", values, weights)
        self._values, self._weights, self._lengths, self._offsets = values, weights, lengths, offsets

    @classmethod
    def of_parts(cls, parts: Sequence[Any]) -> JaggedTensor:
        """Return the jagged tensor of values, weights, lengths and offsets that divide them."""
        made = cls.__new__(cls)
        made._values, made._weights, made._lengths, made._offsets = parts
        return made

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: object = None,
        values_dtype: Any = None,
        weights_dtype: Any = None,
        lengths_dtype: Any = rl.int32,
    ) -> JaggedTensor:
        """Return a jagged tensor without rows."""
        weights = rl.empty(0, dtype=weights_dtype, device=device) if is_weighted else None
        values = rl.empty(0, dtype=values_dtype, device=device)
        return JaggedTensor.of_parts((values, weights, rl.zeros(0, dtype=lengths_dtype, device=device), None))

    @staticmethod
    def from_dense(values: Sequence[Tensor], weights: Sequence[Tensor] | None = None) -> JaggedTensor:
        """Return the rows of a list as one jagged tensor."""
        lengths = rl.tensor([row.shape[0] for row in values], dtype=rl.int32)
        return JaggedTensor(rl.cat(list(values)), None if weights is None else rl.cat(list(weights)), lengths=lengths)

    @staticmethod
    def from_dense_lengths(values: Tensor, lengths: Tensor, weights: Tensor | None = None) -> JaggedTensor:
        """Return the first `lengths[i]` elements of each row i of a dense tensor."""
        kept = rl.arange(values.shape[1], device=values.device) < lengths[:, None]
        return JaggedTensor(values[kept], None if weights is None else weights[kept], lengths=lengths)

    def to(self, device: object, non_blocking: bool = False) -> JaggedTensor:
        """Return the jagged tensor on a device."""
        del non_blocking
        return type(self).of_parts([None if part is None else part.to(device) for part in self.parts()])

    def to_dense(self) -> list[Tensor]:
        """Return the values of each row."""
        return list(self._values.split(self.lengths().tolist()))

    def to_dense_weights(self) -> list[Tensor]:
        """Return the weights of each row."""
        return list(self.weights().split(self.lengths().tolist()))

    def to_padded_dense(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """Return the rows padded, or cut, to `desired_length`, by default the longest one's."""
        return self._padded(self._values, desired_length, padding_value)

    def to_padded_dense_weights(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """Return the weights as `to_padded_dense` does the values."""
        return self._padded(self.weights(), desired_length, padding_value)

    def _padded(self, values: Tensor, length: int | None, padding: float) -> Tensor:
        if length is None:
            lengths = self.lengths()
            length = int(lengths.max()) if lengths.shape[0] else 0
        return padded_segments(values, self.offsets(), length, padding)

    def __repr__(self) -> str:
        return f"JaggedTensor({self._values!r}, lengths={self.lengths()!r}, weights={self._weights!r})"


def jt_is_equal(jt_1: object, jt_2: object) -> bool:
    """Return whether two jagged tensors have the same rows, with values and weights as `allclose` says."""
    if not isinstance(jt_1, JaggedTensor) or not isinstance(jt_2, JaggedTensor):
        return False
    return same_rows(jt_1, jt_2)


def _made(parts: Any, context: object) -> JaggedTensor:
    del context
    return JaggedTensor.of_parts(tuple(parts))


register_pytree_node(JaggedTensor, lambda jagged: (jagged.parts(), None), _made)
