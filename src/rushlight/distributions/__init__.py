"""Distributions: sampling with gradients, densities, entropies, and divergences of pairs.

policy = rl.distributions.Categorical(logits=logits)
action = policy.sample()
loss = -policy.log_prob(action) * reward
"""

from rushlight.distributions import constraint_registry, constraints, kl, kl_cross, kl_pairs, parameters, transforms
from rushlight.distributions.chances import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from rushlight.distributions.circle import VonMises
from rushlight.distributions.constraint_registry import biject_to, transform_to
from rushlight.distributions.counts import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.gammas import Chi2, FisherSnedecor, Gamma, InverseGamma, StudentT
from rushlight.distributions.half_line import Exponential, HalfCauchy, HalfNormal, LogNormal
from rushlight.distributions.heavy_tails import GeneralizedPareto, Gumbel, Kumaraswamy, Pareto, Weibull
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.matrices import LKJCholesky, Wishart
from rushlight.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from rushlight.distributions.relaxed import (
    ContinuousBernoulli,
    LogisticNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from rushlight.distributions.simplex import Beta, Dirichlet
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from rushlight.distributions.wrapped import Independent, MixtureSameFamily
from rushlight.support.peer_names import absent_name

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraint_registry",
    "constraints",
    "identity_transform",
    "kl",
    "kl_cross",
    "kl_divergence",
    "kl_pairs",
    "parameters",
    "register_kl",
    "transform_to",
    "transforms",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
