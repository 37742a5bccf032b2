"""Checks of segments, graphs of functions on them, and sums of sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import is_compiling
from rushlight.eager.composite.segments import lengths_of
from rushlight.eager.dispatch import STATE
from rushlight.ops.index.ranged import offsets_within
from rushlight.ops.ragged import lengths_within
from rushlight.support.errors import fail, require


def as_graph(function: Callable[..., Any], kind: Hashable, *given: Any) -> Any:
    """Return what a function of a module gives, by a graph. Calls of another kind, or on another rank, have others."""
    return _compiled(function, kind, STATE.ranks)(*given)


@lru_cache(256)
def _compiled(function: Callable[..., Any], kind: Hashable, ranks: str | None) -> Any:
    """A function of its own for each kind, and for each rank, which may be a thread of this process."""
    del kind, ranks
    return rl.compile(lambda *given: function(*given))


def checked_segments(
    what: str, values: Tensor, lengths: Tensor | None, offsets: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return lengths and offsets. E003, E004 unless they cover the values; a graph asks at each call."""
    require(lengths is not None or offsets is not None, "E003", f"{what}: lengths or offsets are needed")
    if not is_compiling():
        _require_segments(what, values, lengths, offsets)
        return lengths, offsets
    count = values.shape[0]
    own = None if lengths is None else lengths_within(lengths, count)
    return own, None if offsets is None else offsets_within(offsets, count, whole=True)


def _require_segments(what: str, values: Tensor, lengths: Tensor | None, offsets: Tensor | None) -> None:
    for name, given in (("lengths", lengths), ("offsets", offsets)):
        if given is not None:
            fits = given.ndim == 1 and not given.dtype.is_floating_point
            require(fits, "E003", f"{what}: {name} are integers in one dim", given=given)
    if any(given is not None and given.device.type == "meta" for given in (values, lengths, offsets)):
        return
    if offsets is not None:
        require(offsets.shape[0] > 0, "E003", f"{what}: offsets begin with 0")
        _require_cover(what, values, offsets, int(offsets[0]), int(offsets[-1]))
    steps = lengths_of(offsets) if lengths is None and offsets is not None else lengths
    assert steps is not None
    least = int(steps.min()) if steps.shape[0] else 0
    if least < 0:
        place = int(steps.argmin())
        fail("E004", f"{what}: a length is negative", segment=place, length=least)
    if lengths is not None:
        total = int(lengths.sum())
        fits = total == values.shape[0]
        require(fits, "E003", f"{what}: lengths do not sum to the number of values", sum=total, values=values.shape[0])


def _require_cover(what: str, values: Tensor, offsets: Tensor, first: int, last: int) -> None:
    fits = first == 0 and last == values.shape[0]
    message = f"{what}: offsets go from 0 to the number of values"
    require(fits, "E003", message, first=first, last=last, values=values.shape[0])


def prefix_sums(sizes: Sequence[int]) -> list[int]:
    """0, and the sums of the first one, two, … sizes."""
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    return sums
