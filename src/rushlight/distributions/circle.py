"""VonMises: angles."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number
from rushlight.ops.record import OPERATORS

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles of [-pi, pi] around `loc`: the normal distribution of the circle.

    VonMises(0.0, 4.0).variance  # 0.1365
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(() if is_number(loc, concentration) else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean direction: `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean of directions."""
        return 1 - rl.special.i1e(self.concentration) / rl.special.i0e(self.concentration)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return OPERATORS["von_mises"](self.loc.expand(*shape), self.concentration.expand(*shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        # I0 without its exponential: cos - 1 is 0 at the mode.
        away = (value - self.loc) / 2
        bend = -2 * self.concentration * away.sin().square()
        return bend - math.log(2 * math.pi) - rl.special.i0e(self.concentration).log()
