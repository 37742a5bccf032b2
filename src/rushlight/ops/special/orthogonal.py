"""Orthogonal polynomials of degrees that each element has: recurrences on the host, as long as the highest degree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.type import TensorType, row_major
from rushlight.ops.pointwise.definition import FLOAT, Array, computed, sample_array, typed_result
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require

# The polynomial of degree 1, and that of degree k + 1 from k, x and those of the degrees k and k - 1.
First = Callable[[Array], Array]
Step = Callable[[int, Array, Array, Array], Array]


def _chebyshev(k: int, x: Array, value: Array, before: Array) -> Array:
    del k
    return 2 * x * value - before


FAMILIES: dict[str, tuple[First, Step]] = {
    "chebyshev_t": (lambda x: x, _chebyshev),
    "chebyshev_u": (lambda x: 2 * x, _chebyshev),
    "chebyshev_v": (lambda x: 2 * x - 1, _chebyshev),
    "chebyshev_w": (lambda x: 2 * x + 1, _chebyshev),
    "hermite_h": (lambda x: 2 * x, lambda k, x, value, before: 2 * x * value - 2 * k * before),
    "hermite_he": (lambda x: x, lambda k, x, value, before: x * value - k * before),
    "laguerre_l": (lambda x: 1 - x, lambda k, x, value, before: ((2 * k + 1 - x) * value - k * before) / (k + 1)),
    "legendre_p": (lambda x: x, lambda k, x, value, before: ((2 * k + 1) * x * value - k * before) / (k + 1)),
}

polynomial = define(
    "special_polynomial(Tensor input, Tensor n, str family, bool shifted=False) -> Tensor",
    "The orthogonal polynomial of a family and degree n, at 2 input - 1 where shifted. It has no derivative, as in "
    "PyTorch.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE | Fact.LEADING,
    dtypes="real",
    variants="function out",
)


@polynomial.meta
def polynomial_meta(input: TensorType, n: TensorType, family: str, shifted: bool) -> TensorType:
    require(family in FAMILIES, "A002", f"special: the families are {', '.join(FAMILIES)}", family=family)
    return row_major(typed_result(polynomial, [input, n], FLOAT))


@polynomial.ref
def polynomial_ref(input: ArrayLike, n: ArrayLike, family: str, shifted: bool) -> Array:
    def function(x: Array, n: Array) -> Array:
        wide = x.astype(np.longdouble)
        return _recurrence(2 * wide - 1 if shifted else wide, n, *FAMILIES[family])

    return computed(polynomial, function, [input, n], FLOAT)


def _recurrence(x: Array, n: Array, first: First, step: Step) -> Array:
    """The polynomial of each element's degree: 0 for a negative one, and fractions are cut off."""
    x, degree = np.broadcast_arrays(x, np.trunc(np.asarray(n).astype(np.float64)))
    before, value = np.ones_like(x), first(x)
    result = np.where(degree == 0, before, np.where(degree == 1, value, 0))
    top = int(np.max(degree, initial=0, where=np.isfinite(degree)))
    for k in range(1, top):
        before, value = value, step(k, x, value, before)
        result = np.where(degree == k + 1, value, result)
    return result


@polynomial.samples
def polynomial_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for family in ("chebyshev_u", "laguerre_l"):
        yield Sample(sample_array(rng, (3, 5)), rng.integers(0, 6, (5,)).astype(np.float32), family)
    yield Sample(sample_array(rng, (4,)), 4, "hermite_he", shifted=True)
