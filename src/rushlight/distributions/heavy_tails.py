"""Extreme values and heavy tails: Gumbel, Weibull, Pareto, GeneralizedPareto, and Kumaraswamy's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.half_line import Exponential
from rushlight.distributions.location_scale import Uniform
from rushlight.distributions.parameters import EULER, Number, Shape, broadcast_all, is_number
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform, PowerTransform

__all__ = ["GeneralizedPareto", "Gumbel", "Kumaraswamy", "Pareto", "Weibull"]


def open_uniform(like: Tensor, validate_args: bool | None) -> Uniform:
    """Return a uniform distribution of (0, 1), both ends left out, so that logarithms are finite."""
    limits = rl.finfo(like.dtype)
    low, high = rl.full_like(like, limits.tiny), rl.full_like(like, 1 - limits.eps)
    return Uniform(low, high, validate_args=validate_args)


class Gumbel(TransformedDistribution):
    """The largest of many numbers: density exp(-(z + exp(-z))) / scale, with z = (x - loc) / scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        base = open_uniform(self.loc.new_zeros(()) if is_number(loc, scale) else self.loc, validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        turned = AffineTransform(0, -rl.ones_like(self.scale))
        return [ExpTransform().inv, turned, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        new = type(self)(self.loc.expand(shape), self.scale.expand(shape), validate_args=False)
        return {"base_dist": new.base_dist, "transforms": new.transforms}

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.square()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self.scale.log() + (1 + EULER)


class Weibull(TransformedDistribution):
    """`scale` times an exponential number to the power `1 / concentration`."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(rl.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        new = type(self)(self.scale.expand(shape), self.concentration.expand(shape), validate_args=False)
        inner = {"base_dist": new.base_dist, "transforms": new.transforms}
        return {**inner, "concentration_reciprocal": new.concentration_reciprocal}

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * rl.lgamma(1 + self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        near = (self.concentration - 1) / self.concentration
        return self.scale * near ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        second = rl.lgamma(1 + 2 * self.concentration_reciprocal).exp()
        return self.scale.square() * (second - (2 * rl.lgamma(1 + self.concentration_reciprocal)).exp())

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return EULER * (1 - self.concentration_reciprocal) + (self.scale * self.concentration_reciprocal).log() + 1


class Pareto(TransformedDistribution):
    """Numbers from `scale` on, whose tail falls as a power `alpha`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Number, alpha: Number, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        new = type(self)(self.scale.expand(shape), self.alpha.expand(shape), validate_args=False)
        return {"base_dist": new.base_dist, "transforms": new.transforms}

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where alpha is at most 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where alpha is at most 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """The numbers from `scale` on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """What exceeds a threshold `loc`: tails are exponential (concentration 0), heavier (above 0) or end (below)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = () if is_number(loc, scale, concentration) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    def _plain(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 there."""
        zero = rl.isclose(self.concentration, rl.zeros_like(self.concentration))
        return zero, rl.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return self.icdf(rl.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        y = (value - self.loc) / self.scale
        zero, safe = self._plain()
        tail = (1 / safe + 1) * (safe * y).log1p()
        density = -self.scale.log() - rl.where(zero, y, tail)
        inside = (y >= 0) & ((self.concentration >= 0) | (y <= -1 / safe))
        return rl.where(inside, density, -math.inf)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance of a sample beyond the value."""
        self._checked(value)
        y = (value - self.loc) / self.scale
        zero, safe = self._plain()
        return rl.where(zero, -y, -(safe * y).log1p() / safe)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance of a sample up to the value."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        zero, safe = self._plain()
        left = (-value).log1p()
        return self.loc + self.scale * rl.where(zero, -left, (-safe * left).expm1() / safe)

    @property
    def mean(self) -> Tensor:
        """The mean; infinite from a concentration of 1 on."""
        finite = self.concentration < 1
        safe = rl.where(finite, self.concentration, 0.5)
        return rl.where(finite, self.loc + self.scale / (1 - safe), math.inf)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite from a concentration of 1/2 on."""
        finite = self.concentration < 0.5
        safe = rl.where(finite, self.concentration, 0.25)
        return rl.where(finite, self.scale.square() / ((1 - safe).square() * (1 - 2 * safe)), math.inf)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self.scale.log() + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """The numbers from `loc` on, up to an end where the concentration is negative."""
        if bool((self.concentration >= 0).all()):
            return constraints.greater_than_eq(self.loc)
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, rl.where(self.concentration < 0, end, math.inf))


class Kumaraswamy(TransformedDistribution):
    """Numbers of (0, 1), with a density like Beta's and a plain chance: 1 - (1 - x^a)^b."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Number, concentration0: Number, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            rl.zeros_like(self.concentration0), rl.ones_like(self.concentration0), validate_args=validate_args
        )
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        one = AffineTransform(1.0, -1.0)
        powers = [
            PowerTransform(concentration.reciprocal()) for concentration in (self.concentration0, self.concentration1)
        ]
        return [powers[0], one, powers[1]]

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        new = type(self)(self.concentration1.expand(shape), self.concentration0.expand(shape), validate_args=False)
        return {"base_dist": new.base_dist, "transforms": new.transforms}

    def _moment(self, power: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        first = 1 + power / a
        return (b.log() + rl.lgamma(first) + rl.lgamma(b) - rl.lgamma(first + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN where that is an end."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return mode.masked_fill((a < 1) | (b < 1), math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        a, b = self.concentration1, self.concentration0
        harmonic = rl.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
