"""Divergences of two distributions of one family."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions.chances import Bernoulli, Categorical, OneHotCategorical
from rushlight.distributions.counts import Binomial, Geometric, Poisson
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.gammas import Gamma, InverseGamma
from rushlight.distributions.half_line import Exponential, HalfNormal
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.location_scale import Cauchy, Laplace, Normal
from rushlight.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal, log_diagonal
from rushlight.distributions.parameters import sum_rightmost
from rushlight.distributions.simplex import Beta, Dirichlet
from rushlight.distributions.transformed import TransformedDistribution
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


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    count = p.reinterpreted_batch_ndims
    require(count == q.reinterpreted_batch_ndims, "A006", "kl_divergence: events of different numbers of batch dims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), count)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    same = p.transforms == q.transforms and p.event_shape == q.event_shape
    require(same, "A006", "kl_divergence: distributions with different transforms")
    inner = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(inner, inner.ndim - len(rl.broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))))


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    require(type(p) is type(q), "A006", f"kl_divergence: no rule for {type(p).__name__} and {type(q).__name__}")
    ours = [param.detach().requires_grad_() for param in p._natural_params]
    with rl.enable_grad():
        normalizer = p._log_normalizer(*ours)
        gradients = rl.autograd.grad(normalizer.sum(), ours, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, gradient in zip(ours, q._natural_params, gradients, strict=True):
        inner = (other - mine) * gradient
        result = result - sum_rightmost(inner, inner.ndim - result.ndim)
    return result


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    # With more trials of q, an expectation of logarithms of binomial coefficients is left.
    if p._trials is None or q._trials is None:
        fewer = bool((q.total_count <= p.total_count).all())
    else:
        fewer = q._trials <= p._trials
    require(fewer, "A006", "kl_divergence: a Binomial of more trials", p=p.total_count, q=q.total_count)
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return rl.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    scales = q.concentration * (p.rate / q.rate).log() + p.concentration * (q.rate / p.rate - 1)
    shapes = (p.concentration - q.concentration) * p.concentration.digamma()
    return scales + shapes + q.concentration.lgamma() - p.concentration.lgamma()


@register_kl(InverseGamma, InverseGamma)
def _inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    return _gamma(p.base_dist, q.base_dist)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    ours, other = p.concentration, q.concentration
    total = ours.sum(-1)
    normalizers = total.lgamma() - other.sum(-1).lgamma() + (other.lgamma() - ours.lgamma()).sum(-1)
    return normalizers + ((ours - other) * (ours.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._parts(), q._parts())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


GaussianVectors = MultivariateNormal | LowRankMultivariateNormal


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _gaussian_vectors(p: GaussianVectors, q: GaussianVectors) -> Tensor:
    size = p.event_shape[0]
    require(size == q.event_shape[0], "A002", "kl_divergence: vectors differ in length", p=size, q=q.event_shape[0])
    away = (q.loc - p.loc).unsqueeze(-1)
    squares = _squared_lengths(q, p.scale_tril) + _squared_lengths(q, away)
    return _half_log_det(q) - _half_log_det(p) + 0.5 * (squares - size)


def _squared_lengths(q: GaussianVectors, columns: Tensor) -> Tensor:
    """The sum of squares of Mahalanobis' lengths of columns."""
    if isinstance(q, MultivariateNormal):
        return rl.linalg.solve_triangular(q.scale_tril, columns, upper=False).square().sum((-2, -1))
    return ((q.precision_matrix @ columns) * columns).sum((-2, -1))


def _half_log_det(p: GaussianVectors) -> Tensor:
    return log_diagonal(p.scale_tril) if isinstance(p, MultivariateNormal) else 0.5 * p._log_det()
