"""Distributions over a finite number of outcomes, by `probs` or by `logits`: one of the two is given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.parameters import (
    Number,
    Shape,
    broadcast_all,
    is_number,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.support.errors import require

__all__ = ["Bernoulli", "Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


def log_odds_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return `-log p(target)` of two outcomes with these log odds, exact also far from 0."""
    return rl.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")


def require_one(name: str, probs: object, logits: object) -> None:
    """Fail with A002 unless exactly one of `probs` and `logits` is given."""
    require((probs is None) != (logits is None), "A002", f"{name}: either probs or logits is given, and not both")


class BinaryDistribution(Distribution):
    """What distributions of one chance share: `probs` and `logits`, of which one is given and the other follows."""

    _binary = True

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The chances."""
        return logits_to_probs(self.logits, is_binary=True)

    def _take(self, probs: Number | None, logits: Number | None) -> tuple[Any, ...]:
        """Keeps the one that is given; returns the batch shape."""
        require_one(type(self).__name__, probs, logits)
        if probs is not None:
            self.__dict__["probs"] = broadcast_all(probs)[0]
        else:
            self.__dict__["logits"] = broadcast_all(logits)[0]
        return () if is_number(probs if logits is None else logits) else tuple(self._param.shape)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]


class Bernoulli(BinaryDistribution, ExponentialFamily):
    """1 with chance `probs`, else 0.

    Bernoulli(logits=rl.tensor(0.0)).probs  # 0.5
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0.0

    def __init__(
        self, probs: Number | None = None, logits: Number | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `probs`."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are equally likely."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return likelier.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            return rl.bernoulli(self.probs.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -log_odds_loss(logits, value)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return log_odds_loss(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1 along a new first dim."""
        values = rl.arange(2, dtype=self._param.dtype).reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp().log1p()


class Categorical(Distribution):
    """The index of one of several outcomes, with chances along the last dim.

    `probs` need not add up to 1, nor `logits` be logarithms of chances that do: both are normalised.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        require_one(type(self).__name__, probs, logits)
        given = logits if probs is None else probs
        assert given is not None
        require(given.ndim >= 1, "A002", f"{type(self).__name__}: the parameter needs a dim", given=given)
        if probs is not None:
            self.probs = given / given.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the chances."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The chances."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """The indices of outcomes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        """NaN: an average of indices says nothing."""
        return rl.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        """The index of the likeliest outcome."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: a spread of indices says nothing."""
        return rl.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            lead = (sample_shape,) if isinstance(sample_shape, int) else sample_shape
            drawn = rl.multinomial(rows, math.prod(lead), True)
            return drawn.mT.reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        index = value.long().unsqueeze(-1)
        index, logits = rl.broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        smallest = rl.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=smallest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the indices along a new first dim."""
        values = rl.arange(self._num_events).reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class OutcomeDistribution(Distribution):
    """What distributions of vectors with an element for each outcome share: chances that a Categorical holds."""

    _categorical: Categorical

    def _check_arguments(self) -> None:
        """The Categorical has checked the one that is given. The other is computed when it is first asked for."""

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        return {"_categorical": self._categorical.expand(shape)}

    @property
    def probs(self) -> Tensor:
        """The chances."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the chances."""
        return self._categorical.logits

    @property
    def param_shape(self) -> rl.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(OutcomeDistribution):
    """As Categorical, with vectors of zeros and a one in place of indices."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        inner = self._categorical
        super().__init__(inner.batch_shape, inner.param_shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `probs`."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The vector of the likeliest outcome."""
        return rl.nn.functional.one_hot(self._categorical.mode, self.event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        drawn = self._categorical.sample(sample_shape)
        return rl.nn.functional.one_hot(drawn, self.event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the chance."""
        self._checked(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the vectors along a new first dim."""
        count = self.event_shape[0]
        values = rl.eye(count, dtype=self.probs.dtype).reshape(count, *[1] * len(self.batch_shape), count)
        return values.expand(count, *self.batch_shape, count) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As OneHotCategorical; samples have the gradient that `probs` have."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples through which gradients reach `probs` unchanged."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
