"""What jagged tensors share: values in rows of any length, and the lengths or offsets that divide them."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import is_compiling
from rushlight.eager.composite.segments import lengths_of, offsets_of
from rushlight.support.errors import fail, require


class Rows:
    """Values with lengths or offsets of rows; what was not given is made when asked for."""

    _values: Tensor
    _weights: Tensor | None
    _lengths: Tensor | None
    _offsets: Tensor | None

    def values(self) -> Tensor:
        """Return the values of all rows."""
        return self._values

    def weights(self) -> Tensor:
        """Return the weights of all values. E005 if there are none."""
        if self._weights is None:
            fail("E005", "weights: these values have none", hint="ask weights_or_none(), or give weights")
        return self._weights

    def weights_or_none(self) -> Tensor | None:
        """Return the weights, or None."""
        return self._weights

    def lengths(self) -> Tensor:
        """Return the length of each row."""
        if self._lengths is not None:
            return self._lengths
        assert self._offsets is not None
        made = lengths_of(self._offsets)
        if not is_compiling():  # what a trace makes is its own
            self._lengths = made
        return made

    def lengths_or_none(self) -> Tensor | None:
        """Return the lengths if they have been made."""
        return self._lengths

    def offsets(self) -> Tensor:
        """Return where each row begins, and at last where the last one ends."""
        if self._offsets is not None:
            return self._offsets
        assert self._lengths is not None
        made = offsets_of(self._lengths)
        if not is_compiling():  # what a trace makes is its own
            self._offsets = made
        return made

    def offsets_or_none(self) -> Tensor | None:
        """Return the offsets if they have been made."""
        return self._offsets

    def device(self) -> Any:
        """Return the device of the values."""
        return self._values.device

    def size_in_bytes(self) -> int:
        """Return the bytes of all tensors that have been made."""
        return sum([part.numel() * part.element_size() for part in self.parts() if part is not None])

    def record_stream(self, stream: object) -> None:
        """Do nothing: there are no streams."""
        del stream

    def parts(self) -> list[Tensor | None]:
        """Return values, weights, lengths and offsets, as far as they have been made."""
        return [self._values, self._weights, self._lengths, self._offsets]


def same_rows(one: Rows, other: Rows) -> bool:
    """Return whether values, weights and lengths of two are alike."""
    pairs = [
        (one.values(), other.values()),
        (one.weights_or_none(), other.weights_or_none()),
        (one.lengths(), other.lengths()),
    ]
    return all(_alike(ours, theirs) for ours, theirs in pairs)


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.dtype == other.dtype and bool(rl.allclose(one, other))


def require_weights(what: str, values: Tensor, weights: Tensor | None) -> None:
    """E003 unless there is a weight for each value, or none at all."""
    fits = weights is None or weights.shape[0] == values.shape[0]
    require(fits, "E003", f"{what}: a weight for each value is needed", values=values.shape, weights=weights)
