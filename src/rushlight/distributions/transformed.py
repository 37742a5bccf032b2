"""TransformedDistribution: samples of a distribution, sent through transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.parameters import Shape, sum_rightmost
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.wrapped import Independent
from rushlight.support.errors import fail

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of `transforms(x)`, of samples x of a base; its density follows from the Jacobian.

    TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]) is a log-normal distribution.
    """

    arg_constraints: Any = {}
    base_dist: Any

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        for transform in self.transforms:
            if not isinstance(transform, Transform):
                fail("A001", "TransformedDistribution: a transform or a list of them is expected", given=transform)
        composed = ComposeTransform(self.transforms)
        domain = composed.domain.event_dim
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        own = len(base_distribution.event_shape)
        if len(shape) < domain:
            fail("A002", f"TransformedDistribution: the base needs {domain} dims", shape=shape)
        result = tuple(composed.forward_shape(rl.Size(shape)))
        wide = tuple(composed.inverse_shape(rl.Size(result)))
        if wide != shape:
            base_distribution = base_distribution.expand(wide[: len(wide) - own])
        if domain > own:
            base_distribution = Independent(base_distribution, domain - own)
        self.base_dist = base_distribution
        self.has_rsample = base_distribution.has_rsample
        event = max(composed.codomain.event_dim, own + composed.codomain.event_dim - domain)
        cut = len(result) - event
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        inner = ComposeTransform(self.transforms).inverse_shape(rl.Size((*shape, *self.event_shape)))
        cut = len(inner) - len(self.base_dist.event_shape)
        return {"base_dist": self.base_dist.expand(tuple(inner)[:cut])}

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        """The last transform's codomain, or the base's support without transforms."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density: the base's, less that of the Jacobian."""
        self._checked(value)
        event_dim, total, y = len(self.event_shape), None, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            term = sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            total = -term if total is None else total - term
            y = x
        base = sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))
        return base if total is None else total + base

    def _turned(self, chance: Tensor) -> Tensor:
        """A chance of values up to one, where transforms that fall turn the order round."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return chance if isinstance(sign, int) and sign == 1 else sign * (chance - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        self.base_dist._checked(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        value = self.base_dist.icdf(self._turned(value))
        for transform in self.transforms:
            value = transform(value)
        return value
