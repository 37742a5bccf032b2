"""Distribution: the base class, with shapes, the checks of arguments, and what is derived from other methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.parameters import Shape, Undefined, lazy_property
from rushlight.eager.asserting import asks_values, require_values
from rushlight.support.errors import fail, require


class Distribution:
    """A family of random variables: `batch_shape` independent ones, each with values of `event_shape`.

    Subclasses list constraints of their parameters in `arg_constraints`, which are checked unless `validate_args` is
    False; a graph checks them at each call. A sample has the shape `sample_shape + batch_shape + event_shape`.
    """

    # What subclasses define as an attribute or as a property.
    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = {}
    support: Any = Undefined("support")
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether arguments are checked where a distribution is made without `validate_args`."""
        require(value in (True, False), "A002", "set_default_validate_args: a bool is expected")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Iterable[Any] = (),
        event_shape: Iterable[Any] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = rl.Size(tuple(batch_shape))
        self._event_shape = rl.Size(tuple(event_shape))
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and asks_values():
            self._check_arguments()

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            # A parameter that is computed when asked for follows from another, which is checked.
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            message = f"{type(self).__name__}: {name} does not satisfy its constraint"
            require_values(constraint.check(value), "A002", message, constraint=constraint, **{name: value})

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its batch dims expanded to a shape."""
        shape = rl.Size(tuple(batch_shape))
        new = type(self).__new__(type(self)) if _instance is None else _instance
        for name, value in self.__dict__.items():
            constraint = self.arg_constraints.get(name)
            if constraint is not None and isinstance(value, Tensor):
                event = constraint.event_dim
                new.__dict__[name] = value.expand(*shape, *value.shape[value.ndim - event :])
            elif not isinstance(getattr(type(self), name, None), lazy_property):
                new.__dict__[name] = value
        new.__dict__.update(_batch_shape=shape, _validate_args=self._validate_args, **self._expanded(shape))
        return new

    def _expanded(self, shape: rl.Size) -> Mapping[str, Any]:
        """Attributes of the expanded distribution that are no parameters, such as inner ones."""
        return {}

    @property
    def batch_shape(self) -> rl.Size:
        """The shape of the independent variables."""
        return self._batch_shape

    @property
    def event_shape(self) -> rl.Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        fail("A006", f"{type(self).__name__}: mean is not defined")

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        fail("A006", f"{type(self).__name__}: mode is not defined")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        fail("A006", f"{type(self).__name__}: variance is not defined")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients."""
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        fail("A006", f"{type(self).__name__}: samples have no gradients", hint="use sample()")

    def sample_n(self, n: int) -> Tensor:
        """Return n samples."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the chance, of a value."""
        fail("A006", f"{type(self).__name__}: log_prob is not defined")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the chance of a sample up to the value."""
        fail("A006", f"{type(self).__name__}: cdf is not defined")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose `cdf` this is."""
        fail("A006", f"{type(self).__name__}: icdf is not defined")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values, along a new first dim, expanded over the batch dims or not."""
        fail("A006", f"{type(self).__name__}: the support cannot be enumerated")

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        fail("A006", f"{type(self).__name__}: entropy is not defined")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Shape = ()) -> tuple[Any, ...]:
        """The shape of samples."""
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return (*shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Any) -> None:
        """Fail unless a value is a tensor that may be a sample."""
        if not isinstance(value, Tensor):
            fail("A002", "the value for log_prob is no tensor", value=value)
        event = len(self._event_shape)
        if tuple(value.shape[value.ndim - event :]) != tuple(self._event_shape):
            fail("A002", "the value's last dims are no event", value=value, event_shape=tuple(self._event_shape))
        for size, expected in zip(reversed(value.shape), reversed(self._extended_shape()), strict=False):
            if size != 1 and expected != 1 and size != expected:
                fail("A002", "the value does not broadcast with batch and event dims", value=value, shape=expected)
        support = self.support
        message = f"{type(self).__name__}: the value does not lie in the support"
        require_values(support.check(value), "A002", message, support=support, value=value)

    def _checked(self, value: Tensor) -> None:
        if self._validate_args and asks_values():
            self._validate_sample(value)

    def __repr__(self) -> str:
        parameters = [name for name in self.arg_constraints if name in self.__dict__]
        texts: list[str] = []
        for name in parameters:
            value = self.__dict__[name]
            texts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(texts)})"


class ExponentialFamily(Distribution):
    """Distributions whose log density is linear in statistics of the value, with natural parameters."""

    _mean_carrier_measure: Any = Undefined("the carrier measure")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        fail("A006", f"{type(self).__name__}: natural parameters are not defined")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        fail("A006", f"{type(self).__name__}: the log normalizer is not defined")

    def entropy(self) -> Tensor:
        """Return the entropy, by the gradient of the log normalizer (a Bregman divergence)."""
        natural = [param.detach().requires_grad_() for param in self._natural_params]
        with rl.enable_grad():
            normalizer = self._log_normalizer(*natural)
            gradients = rl.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients, strict=True):
            inner = (parameter * gradient).reshape(*self._batch_shape, -1)
            result = result - inner.sum(-1)
        return result
