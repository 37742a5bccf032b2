"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.parameters import Number
from rushlight.distributions.transforms.transform import Transform

softplus = rl.nn.functional.softplus


def clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid, kept inside (0, 1)."""
    limits = rl.finfo(x.dtype)
    return rl.sigmoid(x).clamp(limits.tiny, 1.0 - limits.eps)


class Elementwise(Transform):
    """Base of transforms without parameters, all of which are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    def __hash__(self) -> int:
        return hash(type(self))


class ExpTransform(Elementwise):
    """`exp(x)`."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |dy/dx|`."""
        return x


class PowerTransform(Transform):
    """`x ** exponent` of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else rl.tensor(exponent)

    def with_cache(self, cache_size: int = 1) -> PowerTransform:
        """Return the transform with a cache of this size."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def __hash__(self) -> int:
        return hash(PowerTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |dy/dx|`."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape, broadcast with the exponent's."""
        return rl.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape, broadcast with the exponent's."""
        return rl.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))


class SigmoidTransform(Elementwise):
    """`1 / (1 + exp(-x))`."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = rl.finfo(y.dtype)
        y = y.clamp(limits.tiny, 1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |dy/dx|`."""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Elementwise):
    """`log(1 + exp(x))`."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |dy/dx|`."""
        return -softplus(-x)


class TanhTransform(Elementwise):
    """`tanh(x)`."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return rl.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |dy/dx|`: log(1 - tanh(x)²) in a form that is exact far from 0."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Elementwise):
    """`|x|`."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """`loc + scale * x`, of numbers or of events with `event_dim` dims."""

    bijective = True

    def __init__(self, loc: Number, scale: Number, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """The number of dims of one value."""
        return self._event_dim

    def with_cache(self, cache_size: int = 1) -> AffineTransform:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    @property
    def domain(self) -> Constraint:
        """All numbers, or events of them."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def codomain(self) -> Constraint:
        """All numbers, or events of them."""
        return self.domain

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((rl.as_tensor(one) == rl.as_tensor(two)).all()) for one, two in pairs)

    def __hash__(self) -> int:
        return hash(AffineTransform)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |scale|`, added up over each event."""
        if isinstance(self.scale, Tensor):
            each = rl.broadcast_to(self.scale.abs().log(), self.forward_shape(x.shape))
        else:
            each = rl.full_like(x, math.log(abs(self.scale)))
        return each.flatten(each.ndim - self._event_dim).sum(-1) if self._event_dim else each

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape, broadcast with loc and scale."""
        shapes = [tuple(parameter.shape) for parameter in (self.loc, self.scale) if isinstance(parameter, Tensor)]
        return rl.broadcast_shapes(tuple(shape), *shapes)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape, broadcast with loc and scale."""
        return self.forward_shape(shape)


class CumulativeDistributionTransform(Transform):
    """The chance of a sample up to x: numbers of a distribution become uniform ones."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        """What the distribution's samples fulfil."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> CumulativeDistributionTransform:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
