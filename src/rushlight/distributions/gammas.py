"""Gamma and what is made of gamma numbers: Chi2, InverseGamma, FisherSnedecor and StudentT."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform
from rushlight.ops.record import OPERATORS

__all__ = ["Chi2", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


def gamma_numbers(concentration: Tensor, rate: Tensor | float = 1.0) -> Tensor:
    """Return gamma numbers, one for each element; gradients reach both parameters."""
    drawn: Tensor = OPERATORS["standard_gamma"](concentration)
    return (drawn / rate).clamp(min=rl.finfo(drawn.dtype).tiny)


class Gamma(ExponentialFamily):
    """The time until the `concentration`-th event, of those that happen `rate` times in a unit of time.

    Gamma(2.0, 3.0).mean  # 0.6667
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(self, concentration: Number, rate: Number, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = () if is_number(concentration, rate) else self.concentration.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return gamma_numbers(self.concentration.expand(*self._extended_shape(sample_shape)), self.rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value = rl.as_tensor(value, dtype=self.rate.dtype)
        self._checked(value)
        power = rl.xlogy(self.concentration - 1, value)
        return rl.xlogy(self.concentration, self.rate) + power - self.rate * value - self.concentration.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        return rl.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1.0 - shape) * shape.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The sum of `df` squares of standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Number, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its batch dims expanded to a shape."""
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(*batch_shape), self.rate.expand(*batch_shape)
        return new

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma number."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Number, rate: Number, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The gamma number's concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The gamma number's rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean; infinite for concentrations up to 1."""
        mean = self.rate / (self.concentration - 1)
        return rl.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite for concentrations up to 2."""
        variance = (self.rate / (self.concentration - 1)).square() / (self.concentration - 2)
        return rl.where(self.concentration > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class FisherSnedecor(Distribution):
    """The quotient of two Chi2 numbers, each divided by its degrees of freedom: Fisher's F."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Number, df2: Number, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(() if is_number(df1, df2) else self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN up to two degrees of freedom."""
        second = rl.where(self.df2 > 2, self.df2, math.nan)
        return second / (second - 2)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN up to two degrees of freedom."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return rl.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN up to four degrees of freedom."""
        first, second = self.df1, rl.where(self.df2 > 4, self.df2, math.nan)
        return 2 * second.square() * (first + second - 2) / (first * (second - 2).square() * (second - 4))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape = self._extended_shape(sample_shape)
        halves = [(0.5 * df).expand(*shape) for df in (self.df1, self.df2)]
        upper, lower = [gamma_numbers(half, half) for half in halves]
        return (upper / lower).clamp(min=rl.finfo(self.df1.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        first, second = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        constant = (first + second).lgamma() - first.lgamma() - second.lgamma()
        power = first * ratio.log() + (first - 1) * value.log()
        return constant + power - (first + second) * (ratio * value).log1p()


class StudentT(Distribution):
    """A normal number whose variance is an inverse gamma number: heavier tails, the fewer degrees of freedom `df`."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Number, loc: Number = 0.0, scale: Number = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(() if is_number(df, loc, scale) else self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `loc`; NaN up to one degree of freedom."""
        return rl.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite up to two degrees of freedom, NaN up to one."""
        variance = rl.where(self.df > 2, self.scale.square() * self.df / (self.df - 2), math.inf)
        return rl.where(self.df > 1, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = rl.randn(shape, dtype=self.df.dtype)
        half = (0.5 * self.df).expand(*shape)
        return self.loc + self.scale * drawn * gamma_numbers(half, half).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        half = 0.5 * (self.df + 1)
        away = ((value - self.loc) / self.scale).square() / self.df
        constant = self.scale.log() + 0.5 * (math.pi * self.df).log() + (0.5 * self.df).lgamma() - half.lgamma()
        return -half * away.log1p() - constant

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        half, rest = 0.5 * (self.df + 1), 0.5 * self.df
        log_beta = rest.lgamma() + 0.5 * math.log(math.pi) - half.lgamma()
        return self.scale.log() + half * (half.digamma() - rest.digamma()) + 0.5 * self.df.log() + log_beta
