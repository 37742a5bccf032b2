"""Dirichlet and Beta: parts of a whole."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

__all__ = ["Beta", "Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors of positive numbers that add up to 1, with concentrations along the last dim.

    Dirichlet(rl.tensor([1.0, 3.0])).mean  # tensor([0.25, 0.75])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        require(concentration.ndim >= 1, "A002", "Dirichlet: the concentration needs a dim", given=concentration)
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; the first corner where all concentrations are below 1, as PyTorch has it."""
        above = (self.concentration - 1).clamp(min=0)
        corner = (rl.arange(self.event_shape[0]) == 0).to(above.dtype).expand(above.shape)
        below = (self.concentration < 1).all(-1, keepdim=True)
        return rl.where(below, corner, above / above.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        """The variance of each part."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return OPERATORS["dirichlet"](self.concentration.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        powers = rl.xlogy(self.concentration - 1, value).sum(-1)
        return powers + self.concentration.sum(-1).lgamma() - self.concentration.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        total, count = self.concentration.sum(-1), self.event_shape[0]
        log_beta = self.concentration.lgamma().sum(-1) - total.lgamma()
        powers = ((self.concentration - 1) * self.concentration.digamma()).sum(-1)
        return log_beta - (count - total) * total.digamma() - powers

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].lgamma().sum(-1) - natural_params[0].sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The first part of two, with a Dirichlet distribution of both."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Number, concentration0: Number, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        shape = () if is_number(concentration1, concentration0) else self.concentration1.shape
        super().__init__(shape, validate_args=validate_args)

    def _parts(self) -> Dirichlet:
        return Dirichlet(rl.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; 1 where both concentrations are below 1, as PyTorch has it."""
        return self._parts().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        return self._parts().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        first, second = self.concentration1, self.concentration0
        powers = rl.xlogy(first - 1, value) + rl.special.xlog1py(second - 1, -value)
        return powers + (first + second).lgamma() - first.lgamma() - second.lgamma()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self._parts().entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
