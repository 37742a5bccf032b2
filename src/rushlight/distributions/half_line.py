"""Numbers of the half line: LogNormal, HalfNormal, HalfCauchy and Exponential."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.location_scale import Cauchy, Normal
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform, ExpTransform

__all__ = ["Exponential", "HalfCauchy", "HalfNormal", "LogNormal"]


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal, with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self.base_dist.entropy() + self.loc


class HalfNormal(TransformedDistribution):
    """The magnitude of a normal number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The normal number's standard deviation."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rl.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.square() * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        density = self.base_dist.log_prob(value) + math.log(2)
        return rl.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self.base_dist.entropy() - math.log(2)


class HalfCauchy(TransformedDistribution):
    """The magnitude of a Cauchy number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The half of the width at half of the density."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return rl.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rl.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """The base's: infinite."""
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        value = rl.as_tensor(value, dtype=self.scale.dtype)
        density = self.base_dist.log_prob(value) + math.log(2)
        return rl.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self.base_dist.entropy() - math.log(2)


class Exponential(ExponentialFamily):
    """The time until an event that happens `rate` times in a unit of time."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if is_number(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rl.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.rate.dtype)
        return -(-drawn).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()
