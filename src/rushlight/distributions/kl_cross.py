"""Divergences of two families: the expected cost of q's code under p, less the entropy of p.

What is needed of p are expectations of the statistics of q: the mean, the variance, the mean of log x, and so on.
"""

from __future__ import annotations

import math
from functools import singledispatch

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions.chances import Bernoulli
from rushlight.distributions.counts import Binomial, Poisson
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gammas import Gamma
from rushlight.distributions.half_line import Exponential
from rushlight.distributions.heavy_tails import Gumbel, Pareto
from rushlight.distributions.kl import register_kl
from rushlight.distributions.location_scale import Laplace, Normal, Uniform
from rushlight.distributions.parameters import EULER
from rushlight.distributions.relaxed import ContinuousBernoulli
from rushlight.distributions.simplex import Beta
from rushlight.support.errors import fail

__all__: list[str] = []

# Expectations under p.


@singledispatch
def mean_of_log(p: Distribution) -> Tensor:
    """Return the expectation of log x."""
    fail("A006", f"kl_divergence: no mean of logarithms for {type(p).__name__}")


@mean_of_log.register
def _(p: Beta) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@mean_of_log.register
def _(p: Exponential) -> Tensor:
    return -EULER - p.rate.log()


@mean_of_log.register
def _(p: Pareto) -> Tensor:
    return p.scale.log() + p.alpha.reciprocal()


@mean_of_log.register
def _(p: Uniform) -> Tensor:
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    """The mean of log x between two numbers, of which the lower one may be 0."""
    return (rl.xlogy(high, high) - rl.xlogy(low, low)) / (high - low) - 1


@singledispatch
def log_laplace(p: Distribution, at: Tensor) -> Tensor:
    """Return the logarithm of the expectation of exp(-at x)."""
    fail("A006", f"kl_divergence: no Laplace transform for {type(p).__name__}")


@log_laplace.register
def _(p: Exponential, at: Tensor) -> Tensor:
    return -(at / p.rate).log1p()


@log_laplace.register
def _(p: Gamma, at: Tensor) -> Tensor:
    return -p.concentration * (at / p.rate).log1p()


@log_laplace.register
def _(p: Gumbel, at: Tensor) -> Tensor:
    return (1 + p.scale * at).lgamma() - p.loc * at


@log_laplace.register
def _(p: Normal, at: Tensor) -> Tensor:
    return 0.5 * (p.scale * at).square() - p.loc * at


@log_laplace.register
def _(p: Uniform, at: Tensor) -> Tensor:
    width = (p.high - p.low) * at
    return (-(-width).expm1() / width).log() - p.low * at


# Divergences, by q.


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _from_normal(p: Distribution, q: Normal) -> Tensor:
    squares = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return 0.5 * (squares + math.log(2 * math.pi)) + q.scale.log() - p.entropy()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away, ratio = p.loc - q.loc, p.scale / q.scale
    inner = away / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * inner.square()).exp()
    far = away * rl.erf(math.sqrt(0.5) * inner)
    return -ratio.log() + (near + far) / q.scale - 0.5 + math.log(2) - 0.5 * math.log(2 * math.pi)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _from_exponential(p: Distribution, q: Exponential) -> Tensor:
    return _unless_below(p, q.rate * p.mean - q.rate.log() - p.entropy())


def _unless_below(p: Distribution, divergence: Tensor) -> Tensor:
    """Infinite where p is uniform with negative numbers too."""
    return divergence.masked_fill(p.low < 0, math.inf) if isinstance(p, Uniform) else divergence


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _from_gamma(p: Distribution, q: Gamma) -> Tensor:
    powers = (q.concentration - 1) * mean_of_log(p)
    constant = q.concentration.lgamma() - q.concentration * q.rate.log()
    return _unless_below(p, constant - powers + q.rate * p.mean - p.entropy())


@register_kl(Uniform, Beta)
def _from_beta(p: Uniform, q: Beta) -> Tensor:
    first, second = q.concentration1, q.concentration0
    powers = (first - 1) * mean_of_log(p) + (second - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    log_beta = first.lgamma() + second.lgamma() - (first + second).lgamma()
    return (log_beta - powers - p.entropy()).masked_fill(_leaves(p, 0.0, 1.0), math.inf)


def _leaves(p: Uniform, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Whether p has numbers outside an interval."""
    return (p.low < low) | (p.high > high)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _from_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    divergence = -p.mean * q.logits - (-q.probs).log1p() - q._log_norm() - p.entropy()
    return divergence.masked_fill(_leaves(p, 0.0, 1.0), math.inf) if isinstance(p, Uniform) else divergence


@register_kl(Pareto, Pareto)
@register_kl(Uniform, Pareto)
def _from_pareto(p: Pareto | Uniform, q: Pareto) -> Tensor:
    least = p.scale if isinstance(p, Pareto) else p.low
    divergence = (q.alpha + 1) * mean_of_log(p) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return divergence.masked_fill(least < q.scale, math.inf)


@register_kl(Uniform, Uniform)
def _from_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill(_leaves(p, q.low, q.high), math.inf)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_interval_from_uniform(p: Distribution, q: Uniform) -> Tensor:
    result = (q.high - q.low).log() - p.entropy()
    return result.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Gumbel, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _from_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    tail = (log_laplace(p, q.scale.reciprocal()) + q.loc / q.scale).exp()
    return q.scale.log() + (p.mean - q.loc) / q.scale + tail - p.entropy()


@register_kl(Bernoulli, Poisson)
def _bernoulli_from_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """Infinite: p has values where q has none."""
    return rl.full_like(p.mean + q.mean, math.inf)


for outside, inside in (
    ((Exponential, Gamma, Gumbel, Laplace, Normal, Pareto), (Beta, ContinuousBernoulli, Uniform)),
    ((Gumbel, Laplace, Normal), (Exponential, Gamma)),
    ((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal), (Pareto,)),
):
    for first in outside:
        for second in inside:
            register_kl(first, second)(_infinite)
