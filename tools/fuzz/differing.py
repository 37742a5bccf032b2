"""A difference from PyTorch as data, the rule that explains one, and what rules ask of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np

import rushlight
from rushlight.support.frozen import frozen
from tools.fuzz.program import COMPLEX, FLOATS, Array, Input, Program
from tools.fuzz.running import Outcome, Value, run

_HUGE = 1e9  # beyond it terms are taken for extremes, which do not cancel


@frozen(eq=False)
class Difference:
    """A program, the outcome here, PyTorch's, and what differs in words."""

    program: Program
    actual: Outcome
    expected: Outcome
    detail: str


@frozen(eq=False)
class Rule:
    """A deviation: the name of its row in docs/deviations.md, and whether it explains a difference."""

    name: str
    applies: Callable[[Difference], bool]


def extreme(difference: Difference, limit: float) -> bool:
    """Whether an operand has a float that is not finite, or larger than the limit."""
    arrays = [given.array for given in difference.program.inputs if given.dtype in (*FLOATS, *COMPLEX)]
    return any(bool(np.any(~(np.abs(array.astype(np.complex128)) < limit))) for array in arrays)


def overlaps(given: Input) -> bool:
    """Whether two elements are one in memory."""
    offsets = np.zeros((), np.int64)
    for size, stride in zip(given.shape, given.strides, strict=True):
        offsets = offsets[..., None] + np.arange(size) * stride
    return np.unique(offsets).size < offsets.size


def called(difference: Difference, *names: str) -> bool:
    """Whether the last statement calls one of these, each a regular expression, or its in-place form."""
    return re.search(rf"\b({'|'.join(names)})_?\(", difference.program.statements[-1]) is not None


def apart_at_infinity(difference: Difference) -> bool:
    """Whether results differ only where one of the two is not finite."""
    pairs = unlike_elements(difference)
    return all(bool(np.all(~(np.isfinite(one) & np.isfinite(other)))) for one, other in pairs)


def unlike_elements(difference: Difference) -> list[tuple[Array, Array]]:
    """Elements of results that are further apart than rounding explains, of them or of larger terms that cancel."""
    found: list[tuple[Array, Array]] = []
    for one, other in zip(difference.actual.values, difference.expected.values, strict=False):
        if one.shape == other.shape and one.array.dtype.kind in "fV":
            a, b = one.array.astype(np.float64), other.array.astype(np.float64)
            largest = np.max(np.abs(b), initial=0.0, where=np.abs(b) < _HUGE)
            near = 0.02 * np.abs(b) + float(ml_dtypes.finfo(one.array.dtype).eps) * largest
            with np.errstate(all="ignore"):
                apart = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= near))
            found.append((a[apart], b[apart]))
    return found


_STRIDED = re.compile(r"^(v\d+) = (v\d+)\.as_strided\(")


def beyond_operand(difference: Difference) -> bool:
    """Gradients of a write through a view by strides that shows more than its operand does."""
    program = difference.program
    pairs = [match.groups() for match in map(_STRIDED.match, program.statements) if match is not None]
    if not pairs or not difference.detail.startswith("gradient") or difference.actual.error is not None:
        return False
    names = [name for pair in pairs for name in pair]
    starts = tuple([f"w{place} = {name}.storage_offset()" for place, name in enumerate(names)])
    asked = (*names, *[start.partition(" ")[0] for start in starts])
    shown = run(replace(program, statements=(*program.statements, *starts), results=asked), rushlight).values
    ranges = [_range(value, int(start.array)) for value, start in zip(shown, shown[len(names) :], strict=False)]
    views = [*zip(ranges[::2], ranges[1::2], strict=True)]
    return any(view[0] < base[0] or view[1] > base[1] for view, base in views)


def _range(value: Value, start: int) -> tuple[int, int]:
    """The places of a storage from the first to behind the last that a tensor shows."""
    if 0 in value.shape:
        return start, start
    return start, start + 1 + sum([(size - 1) * step for size, step in zip(value.shape, value.strides, strict=True)])
