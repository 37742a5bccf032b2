"""Normal, Laplace, Cauchy and Uniform: a fixed shape of density, moved and stretched."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number

__all__ = ["Cauchy", "Laplace", "Normal", "Uniform"]


class Normal(ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    Normal(0.0, 1.0).log_prob(rl.tensor(0.0))  # -0.9189
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(() if is_number(loc, scale) else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation: `scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The square of `scale`."""
        return self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + rl.randn(shape, dtype=self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        distance = (value - self.loc) / self.scale
        return -0.5 * distance.square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return 0.5 * (1 + rl.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return self.loc + self.scale * rl.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(Distribution):
    """The Laplace distribution: exponential on both sides of `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(() if is_number(loc, scale) else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        # Twice a uniform number around 0, kept inside (-1, 1).
        drawn = rl.rand(shape, dtype=dtype) * (2 - rl.finfo(dtype).eps) + (rl.finfo(dtype).eps / 2 - 1)
        return self.loc - self.scale * drawn.sign() * (-drawn.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return 1 + (2 * self.scale).log()


class Cauchy(Distribution):
    """The Cauchy (Lorentz) distribution: a quotient of two normal numbers; it has no mean."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(() if is_number(loc, scale) else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return rl.full(self._extended_shape(), math.nan, dtype=self.loc.dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return rl.full(self._extended_shape(), math.inf, dtype=self.loc.dtype)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + self.scale * rl.tan(math.pi * (drawn - 0.5))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        distance = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - distance.square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return rl.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return rl.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Numbers of [low, high), all equally likely."""

    has_rsample = True

    def __init__(self, low: Number, high: Number, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(() if is_number(low, high) else self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        """What the parameters fulfil: `low` lies below `high`."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """The numbers from `low` to `high`."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is likelier than others."""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return (self.high - self.low).log()
