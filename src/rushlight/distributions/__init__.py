"""Distributions: sampling with gradients, densities, entropies, and divergences of pairs.

policy = rl.distributions.Categorical(logits=logits)
action = policy.sample()
loss = -policy.log_prob(action) * reward
"""

from rushlight.distributions import constraints, kl_pairs, parameters
from rushlight.distributions.chances import (
    Bernoulli,
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.wrapped import Independent, MixtureSameFamily
from rushlight.support.peer_names import absent_name

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "ExponentialFamily",
    "Independent",
    "Laplace",
    "MixtureSameFamily",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Uniform",
    "constraints",
    "kl_divergence",
    "kl_pairs",
    "parameters",
    "register_kl",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
