"""Divergences of pairs of families: those of chances, of location and scale, and of wrapped distributions."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions.chances import Bernoulli, Categorical, OneHotCategorical
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.parameters import sum_rightmost
from rushlight.distributions.wrapped import Independent
from rushlight.support.errors import require

__all__: list[str] = []


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = rl.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    other = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return one + other.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill((q.probs == 0).expand_as(terms), math.inf)
    return terms.masked_fill((p.probs == 0).expand_as(terms), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    away = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    away = (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    # Chyzak and Nielsen 2019.
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    entropy = (math.sqrt(2 * math.pi) * q.scale / width).log()
    away = ((p.high + p.low - 2 * q.loc) / 2).square()
    return entropy + (width.square() / 12 + away) / (2 * q.scale.square())


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    variance = q.scale.square()
    ratio = p.scale.square() / variance
    away = 0.5 * (p.loc - q.loc).square() / variance
    return -p.scale.log() + q.scale.log() + 0.5 * math.log(0.5 * math.pi) - 1 + ratio + away


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away, ratio = p.loc - q.loc, p.scale / q.scale
    inner = away / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * inner.square()).exp()
    far = away * rl.erf(math.sqrt(0.5) * inner)
    return -ratio.log() + (near + far) / q.scale - 0.5 + math.log(2) - 0.5 * math.log(2 * math.pi)


@register_kl(Normal, Uniform)
@register_kl(Laplace, Uniform)
def _outside(p: Normal | Laplace, q: Uniform) -> Tensor:
    """Infinite: p has values where q has none."""
    return rl.full_like(p.loc + q.low, math.inf)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    count = p.reinterpreted_batch_ndims
    require(count == q.reinterpreted_batch_ndims, "A006", "kl_divergence: events of different numbers of batch dims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), count)
