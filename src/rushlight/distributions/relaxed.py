"""Chances made continuous: relaxed outcomes, logistic-normal vectors, and numbers of [0, 1] like coins."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.chances import BinaryDistribution, Categorical, OutcomeDistribution, log_odds_loss
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.location_scale import Normal
from rushlight.distributions.parameters import Number, Shape, broadcast_all, clamp_probs
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform, SigmoidTransform, StickBreakingTransform

__all__ = [
    "ContinuousBernoulli",
    "ExpRelaxedCategorical",
    "LogisticNormal",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(BinaryDistribution):
    """The log odds of RelaxedBernoulli's numbers (Maddison et al. 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(*shape))
        drawn = clamp_probs(rl.rand(shape, dtype=probs.dtype))
        odds = drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        return rl.as_tensor(self.temperature).log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers of (0, 1) that gather at the ends as the temperature falls; samples have gradients."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The chances."""
        return self.base_dist.probs


class ExpRelaxedCategorical(OutcomeDistribution):
    """The logarithms of RelaxedOneHotCategorical's vectors (Maddison et al. 2017)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        logits = self.logits
        drawn = clamp_probs(rl.rand(self._extended_shape(sample_shape), dtype=logits.dtype))
        scores = (logits - (-drawn.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        count = self._categorical.param_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        temperature = rl.as_tensor(self.temperature)
        scale = math.lgamma(count) + (count - 1) * temperature.log()
        score = logits - value * temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of a simplex that gather at its corners as the temperature falls; samples have gradients."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the chances."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The chances."""
        return self.base_dist.probs


class LogisticNormal(TransformedDistribution):
    """Points of a simplex, as a StickBreakingTransform makes them of normal vectors of one number less."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(
            base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args=validate_args
        )

    @property
    def loc(self) -> Tensor:
        """The means of the normal vectors."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal vectors."""
        return self.base_dist.base_dist.scale


class ContinuousBernoulli(BinaryDistribution, ExponentialFamily):
    """Numbers of [0, 1] with a density like Bernoulli's chance (Loaiza-Ganem and Cunningham 2019).

    Where `probs` lies within `lims`, formulas that divide by its distance from 1/2 give way to Taylor series.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        shape = self._take(probs, logits)
        super().__init__(shape, validate_args=validate_args)
        if probs is not None:
            self.__dict__["probs"] = clamp_probs(self.__dict__["probs"])

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape

    def _cut(self) -> tuple[Tensor, Tensor]:
        """Where the plain formulas are good, and the chances with another one elsewhere."""
        low, high = self._lims
        stable = (self.probs <= low) | (self.probs > high)
        return stable, rl.where(stable, self.probs, low)

    def _log_norm(self) -> Tensor:
        stable, cut = self._cut()
        below, above = rl.where(cut <= 0.5, cut, 0.0), rl.where(cut >= 0.5, cut, 1.0)
        half = rl.where(cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        plain = ((-cut).log1p() - cut.log()).abs().log() - half
        x = (self.probs - 0.5).square()
        return rl.where(stable, plain, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        stable, cut = self._cut()
        plain = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return rl.where(stable, plain, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        stable, cut = self._cut()
        odds = (-cut).log1p() - cut.log()
        plain = cut * (cut - 1.0) / (1.0 - 2.0 * cut).square() + 1.0 / odds.square()
        x = (self.probs - 0.5).square()
        return rl.where(stable, plain, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return self.icdf(rl.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -log_odds_loss(logits, value) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        self._checked(value)
        stable, cut = self._cut()
        plain = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = rl.where(stable, plain, value)
        return rl.where(value <= 0.0, 0.0, rl.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        stable, cut = self._cut()
        up = (-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()
        return rl.where(stable, up / (cut.log() - (-cut).log1p()), value)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        zero, one = (-self.probs).log1p(), self.probs.log()
        return self.mean * (zero - one) - self._log_norm() - zero

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        low, high = self._lims
        stable = (x <= low - 0.5) | (x > high - 0.5)
        cut = rl.where(stable, x, low - 0.5)
        series = 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0
        return rl.where(stable, cut.expm1().abs().log() - cut.abs().log(), series)
