"""Distributions made of others: several variables as one event, and mixtures of one family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.chances import Categorical
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.parameters import Shape, sum_rightmost
from rushlight.support.errors import fail, require

__all__ = ["Independent", "MixtureSameFamily"]


class Independent(Distribution):
    """A distribution whose last batch dims belong to its event: their log densities are added up.

    Independent(Normal(rl.zeros(2), rl.ones(2)), 1) is a normal distribution of vectors.
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        count = reinterpreted_batch_ndims
        have = len(base_distribution.batch_shape)
        if not 0 <= count <= have:
            fail("A002", f"Independent: the base has {have} batch dims, not {count}", base=str(base_distribution))
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        event = count + len(base_distribution.event_shape)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = count
        super().__init__(shape[: len(shape) - event], shape[len(shape) - event :], validate_args=validate_args)

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        return {"base_dist": self.base_dist.expand((*shape, *self.event_shape[: self.reinterpreted_batch_ndims]))}

    @property
    def has_rsample(self) -> bool:
        """Whether the base has samples with gradients."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        """Whether the base's values can be enumerated, and belong to it alone."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        """What the base's samples fulfil, for each event."""
        count = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, count) if count else self.base_dist.support

    @property
    def mean(self) -> Tensor:
        """The base's mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The base's likeliest value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The base's variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of the base's over each event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the sum of the base's over each event."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the base's values. A006 where several of its variables are one event."""
        if self.reinterpreted_batch_ndims:
            fail("A006", "Independent: values of several variables at once are not enumerated")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """One of several components, drawn for each sample: the last batch dim of `component_distribution` is theirs."""

    arg_constraints: Any = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        require(
            isinstance(mixture_distribution, Categorical), "A002", "MixtureSameFamily: the mixture must be Categorical"
        )
        components = tuple(component_distribution.batch_shape)
        count = mixture_distribution.param_shape[-1]
        require(components, "A002", "MixtureSameFamily: the components need a batch dim")
        require(components[-1] == count, "A002", "MixtureSameFamily: chances and components differ in number")
        rl.broadcast_shapes(components[:-1], tuple(mixture_distribution.batch_shape))
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(components[:-1], component_distribution.event_shape, validate_args=validate_args)

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        return {
            "_component_distribution": self.component_distribution.expand((*shape, self._num_component)),
            "_mixture_distribution": self.mixture_distribution.expand(shape),
        }

    @constraints.dependent_property
    def support(self) -> Constraint:
        """What every component may give."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The chances of components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        """The components' means, weighted."""
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of variances and the variance of means."""
        dim, weights = -1 - self._event_ndims, self._weights()
        away = self._component_distribution.mean - self.mean.unsqueeze(dim)
        return (weights * self._component_distribution.variance).sum(dim) + (weights * away.square()).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        below = self._component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the weighted sum of densities."""
        self._checked(value)
        each = self._component_distribution.log_prob(value.unsqueeze(-1 - self._event_ndims))
        return (each + rl.log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            lead = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
            dim = len(lead) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(lead)
            each = self._component_distribution.sample(lead)
            index = chosen.reshape(*chosen.shape, *[1] * (self._event_ndims + 1))
            index = index.expand(*chosen.shape, 1, *self._event_shape)
            return each.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self._mixture_distribution}, {self._component_distribution})"
