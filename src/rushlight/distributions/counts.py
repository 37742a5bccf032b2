"""Distributions of counts: Poisson, Geometric, Binomial, NegativeBinomial and Multinomial."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.chances import (
    BinaryDistribution,
    Categorical,
    OutcomeDistribution,
    log_odds_loss,
    require_one,
)
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.gammas import gamma_numbers
from rushlight.distributions.parameters import Number, Shape, broadcast_all, is_number
from rushlight.eager.asserting import asks_values, require_values
from rushlight.support.errors import require

__all__ = ["Binomial", "Geometric", "Multinomial", "NegativeBinomial", "Poisson"]


class Poisson(ExponentialFamily):
    """The number of events in a unit of time, of those that happen `rate` times on average.

    Poisson(3.0).variance  # 3.0
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if is_number(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `rate`."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance: `rate`."""
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            return rl.poisson(self.rate.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return rl.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class Geometric(BinaryDistribution):
    """How many trials fail before the first success, where each succeeds with chance `probs`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Number | None = None, logits: Number | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and asks_values():
            require_values(self.probs > 0, "A002", "Geometric: probs must be greater than 0", probs=self.probs)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rl.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype)
            return ((-drawn).log1p() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)
        return value * (-probs.masked_fill(certain, 0)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return log_odds_loss(self.logits, self.probs) / self.probs


class TrialCounts(BinaryDistribution):
    """What counts of trials share: `total_count`, broadcast with the chance."""

    total_count: Tensor
    _trials: int | None  # the number of trials of all, where it was given as an int

    def _take_trials(self, total_count: Number, probs: Number | None, logits: Number | None) -> tuple[Any, ...]:
        """Keeps the count, and the one parameter that is given; returns the batch shape."""
        require_one(type(self).__name__, probs, logits)
        self._trials = total_count if isinstance(total_count, int) else None
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (chance,) = broadcast_all(given)
        count = rl.as_tensor(total_count, dtype=chance.dtype)
        self.total_count, self.__dict__[name] = rl.broadcast_tensors(count, chance)
        return tuple(self.total_count.shape)

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape


class Binomial(TrialCounts):
    """How many of `total_count` trials succeed, where each does with chance `probs`."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Number = 1,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take_trials(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """The counts up to `total_count`."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return rl.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.binomial(self.total_count.expand(*shape), self.probs.expand(*shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        count = self.total_count
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        return ways + value * self.logits + count * rl.nn.functional.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`. A006 where counts of trials differ."""
        chances = self.log_prob(self.enumerate_support(False))
        return -(chances.exp() * chances).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the counts along a new first dim. A006 where counts of trials differ."""
        most = self._trials
        if most is None:
            most = int(self.total_count.max())
            require(most == int(self.total_count.min()), "A006", "Binomial: counts of trials differ", most=most)
        values = rl.arange(most + 1, dtype=self._param.dtype).reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class NegativeBinomial(TrialCounts):
    """How many trials succeed before `total_count` ones fail, where each succeeds with chance `probs`."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take_trials(total_count, probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.mean / rl.sigmoid(-self.logits)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            count = self.total_count.expand(*self._extended_shape(sample_shape))
            return rl.poisson(gamma_numbers(count, (-self.logits).exp()))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        log_sigmoid = rl.nn.functional.logsigmoid
        likelihood = self.total_count * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        both = self.total_count + value
        # No success before no failure is certain.
        ways = both.lgamma() - (value + 1).lgamma() - self.total_count.lgamma()
        return likelihood + ways.masked_fill(both == 0, 0.0)


class Multinomial(OutcomeDistribution):
    """How often each outcome is drawn in `total_count` trials, with chances along the last dim."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        require(isinstance(total_count, int), "A006", "Multinomial: one number of trials for all", given=total_count)
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        inner = self._categorical
        super().__init__(inner.batch_shape, inner.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Counts that add up to at most `total_count`."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        shape = self._extended_shape(sample_shape)
        lead = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        with rl.no_grad():
            drawn = self._categorical.sample((*lead, self.total_count))
            chosen = rl.movedim(drawn, len(lead), -1)
            counts = rl.zeros(shape, dtype=self.probs.dtype)
            return counts.scatter_add(-1, chosen, rl.ones(chosen.shape, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = (value == 0) & (logits == -math.inf)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits.masked_fill(impossible, 0.0) * value).sum(-1)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        counts = Binomial(self.total_count, self.probs, validate_args=False)
        values = counts.enumerate_support(False)
        orders = (counts.log_prob(values).exp() * (values + 1).lgamma()).sum((0, -1))
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + orders
