"""Random numbers of gamma, Dirichlet and von Mises distributions, drawn by rejection on the host.

Gradients are implicit (Figurnov, Mohamed and Mnih 2018): where F(x; a) is the distribution function and f the density,
a sample moves with its parameter by dx/da = -(dF/da) / f(x). Both are integrals of the density times its score,
f(t) (log t - E log t), from one end to x. Divided by f(x) the integrand is log-concave in z = log t, or in the
log odds of t, and the side of x is taken on which it keeps its sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import float64
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, compute_array
from rushlight.ops.pointwise.comparison import logical_and, logical_or
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.elementary import exp, expm1, log, log1p, sqrt
from rushlight.ops.pointwise.rounding import maximum, minimum
from rushlight.ops.pointwise.selection import to_dtype, where
from rushlight.ops.promote import broadcast, device_of
from rushlight.ops.random_counts import generator_of
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.special.gamma import digamma
from rushlight.ops.special.incomplete import decaying_nodes, gamma_slope
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require

_FACTS = Fact.RANDOM | Fact.HOST | Fact.REFUSING
_STATE = "Tensor? seed=None, Tensor? ordinal=None"

# A power series is taken up to this argument, where this many terms suffice.
_BETA_SERIES, _BETA_TERMS = 0.55, 44


def _log_gammas(shapes: Array, random: np.random.Generator) -> Array:
    """Logarithms of gamma numbers, which do not underflow for small shapes: of Gamma(a + 1) U^(1/a)."""
    small = shapes < 1
    drawn = np.log(random.standard_gamma(shapes + small))
    with np.errstate(divide="ignore"):
        return drawn + np.where(small, np.log1p(-random.random(shapes.shape)) / shapes, 0.0)


def _shapes_of(input: Array, op: str) -> Array:
    shapes = compute_array(input).astype(np.float64)
    require(bool(np.all(shapes >= 0)), "A002", f"{op}: concentrations are numbers of 0 and more")
    return shapes


def _rounded(drawn: Array, like: Array) -> Array:
    """Numbers in the dtype of their parameter, at least its smallest normal number, as PyTorch has it."""
    least = float(np.finfo(like.dtype).tiny) if like.dtype.kind == "f" else 2.0**-126
    return np.maximum(drawn, least).astype(like.dtype)


standard_gamma = define(
    f"standard_gamma(Tensor input, *, {_STATE}) -> Tensor",
    "Gamma numbers of rate 1, each with its element as the concentration.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@standard_gamma.meta
def standard_gamma_meta(input: TensorType, seed: TensorType, ordinal: TensorType) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@standard_gamma.ref
def standard_gamma_ref(input: Array, seed: ArrayLike, ordinal: ArrayLike) -> Array:
    shapes = _shapes_of(input, "standard_gamma")
    return _rounded(np.exp(_log_gammas(shapes, generator_of(seed, ordinal))), input)


@standard_gamma.vjp
def standard_gamma_vjp(g: Value, input: Value, out: Value) -> Gradients:
    return g * to_dtype(gamma_slope(to_dtype(input, float64), to_dtype(out, float64)), input.dtype), None, None


@standard_gamma.samples
def standard_gamma_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.abs(rng.standard_normal((3, 5))).astype(np.float32), seed=42, ordinal=7, domain="probability")


dirichlet = define(
    f"dirichlet(Tensor input, *, {_STATE}) -> Tensor",
    "Vectors of non-negative numbers that add up to 1, with the concentrations along the last dim.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@dirichlet.meta
def dirichlet_meta(input: TensorType, seed: TensorType, ordinal: TensorType) -> TensorType:
    require(input.shape, "S002", "dirichlet: the concentrations need a dim", input=input)
    return TensorType(input.shape, input.dtype, input.device)


@dirichlet.ref
def dirichlet_ref(input: Array, seed: ArrayLike, ordinal: ArrayLike) -> Array:
    logs = _log_gammas(_shapes_of(input, "dirichlet"), generator_of(seed, ordinal))
    parts = np.exp(logs - logs.max(-1, keepdims=True, initial=-np.inf))
    # Below 1, as PyTorch has it: a part of 1 has no density.
    gap = float(np.finfo(input.dtype).epsneg) if input.dtype.kind == "f" else 2.0**-8
    return _rounded(np.minimum(parts / parts.sum(-1, keepdims=True), 1 - gap), input)


@dirichlet.vjp
def dirichlet_vjp(g: Value, input: Value, out: Value) -> Gradients:
    wide, drawn, up = to_dtype(input, float64), to_dtype(out, float64), to_dtype(g, float64)
    slopes = beta_slope(wide, sum_(wide, (-1,), True) - wide, drawn)
    # The other parts shrink in proportion, so that all still add up to 1.
    return to_dtype((up - sum_(drawn * up, (-1,), True)) * slopes, input.dtype), None, None


@dirichlet.samples
def dirichlet_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.abs(rng.standard_normal((3, 5))).astype(np.float32), seed=42, ordinal=7, domain="probability")


von_mises = define(
    f"von_mises(Tensor loc, Tensor concentration, *, {_STATE}) -> Tensor",
    "Angles of [-pi, pi] around `loc`, with densities of exp(concentration cos(angle - loc)).",
    facts=_FACTS | Fact.NONDIFFERENTIABLE,
    dtypes="float",
    variants="",
)


@von_mises.meta
def von_mises_meta(loc: TensorType, concentration: TensorType, seed: TensorType, ordinal: TensorType) -> TensorType:
    fits = loc.dtype is concentration.dtype
    require(fits, "D002", "von_mises: loc and concentration differ in dtype", loc=loc, concentration=concentration)
    return TensorType(broadcast(loc.shape, concentration.shape), loc.dtype, device_of(loc, concentration))


@von_mises.ref
def von_mises_ref(loc: Array, concentration: Array, seed: ArrayLike, ordinal: ArrayLike) -> Array:
    centers, kappas = compute_array(loc).astype(np.float64), compute_array(concentration).astype(np.float64)
    fits = bool(np.all(kappas >= 0) and np.all(np.isfinite(centers)))
    require(fits, "A002", "von_mises: centers are finite, and concentrations are numbers of 0 and more")
    drawn: Any = generator_of(seed, ordinal).vonmises(0.0, np.broadcast_arrays(kappas, centers)[0]) + centers
    return np.asarray((drawn + np.pi) % (2 * np.pi) - np.pi).astype(loc.dtype)


@von_mises.samples
def von_mises_samples(rng: np.random.Generator) -> Iterator[Sample]:
    loc, kappa = rng.standard_normal((2, 3)).astype(np.float32), rng.random(3).astype(np.float32)
    yield Sample(loc, kappa, seed=42, ordinal=7, domain="probability")


# How samples move with their parameters.


def beta_slope(a: Value, b: Value, x: Value) -> Value:
    """How a number x of Beta(a, b) moves with a, divided by 1 - x, of float64 values. 0 where x is 0 or 1."""
    inside = logical_and(x > 0, x < 1)
    x = where(inside, x, 0.5)
    rest = 1.0 - x
    score = log(x) - (digamma(a) - digamma(a + b))
    near_one = rest * (a + 1.0) < _BETA_SERIES
    sign = where(logical_or(score >= 0, near_one), 1.0, -1.0)
    tilt = a * rest - b * x
    width = 1.0 / (abs_(tilt) + sqrt((a + b) * x * rest))
    # Near 1 the integrand falls as slowly as exp(-b z).
    width = where(near_one, 1.0 / maximum(b, -tilt), width)
    nodes, weights = decaying_nodes(x)
    z = unsqueeze(sign * width, -1) * nodes
    # log(1 - x + x exp(z)): how much the logarithm of 1 - t falls.
    falls = where(
        z > 0,
        z + log1p(unsqueeze(rest, -1) * expm1(-abs_(z))),
        log1p(unsqueeze(x, -1) * expm1(-abs_(z))),
    )
    density = exp(unsqueeze(a, -1) * z - unsqueeze(a + b, -1) * falls)
    integral = x * width * sign * sum_(density * (unsqueeze(score, -1) + z - falls) * weights, (-1,), False)
    use_series = x * (b + 1.0) < _BETA_SERIES
    series = _beta_series(a, b, where(use_series, x, minimum(x, _BETA_SERIES / (b + 1.0))))
    return where(inside, where(use_series, series, integral), 0.0)


def _beta_series(a: Value, b: Value, x: Value) -> Value:
    """`beta_slope` of small x, by the power series of the distribution function."""
    above = log(x) - (digamma(a) - digamma(a + b))
    total = (log(x) - (digamma(a + 1.0) - digamma(a + b))) / a
    power = (1.0 - b) * x
    for term in range(1, _BETA_TERMS):
        total = total + power / (a + float(term)) * (above - 1.0 / (a + float(term)))
        power = power * x * (float(term + 1) - b) * (1.0 / (term + 1))
    return -x * exp(-b * log1p(-x)) * total
