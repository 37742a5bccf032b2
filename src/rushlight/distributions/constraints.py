"""Sets of values: what parameters and samples of distributions may be.

    constraints.positive.check(rl.tensor([1.0, -1.0]))  # tensor([True, False])

A constraint's `check` answers for each event: `event_dim` dims at the right belong to one event and are reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import fail, require

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values, of which `event_dim` dims at the right make one."""

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Say for each event whether it lies in the set."""
        fail("A006", f"{type(self).__name__}: check is not defined")

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters: nothing can be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Fail: the set is not known."""
        fail("A006", "constraints.dependent: what a value has to fulfil depends on other parameters")


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property whose value is a constraint that depends on the instance."""

    def __init__(
        self, fn: Callable[[Any], Constraint] | None = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> Any:
        """Return the property of a function: how it decorates one with arguments."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: object) -> bool:
    """Return whether a constraint depends on other parameters, so that it cannot be checked."""
    return isinstance(constraint, _Dependent)


class independent(Constraint):  # noqa: N801 - PyTorch's name
    """A constraint of which so many further dims are one event: all of it has to fulfil it."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Say for each event whether all of it lies in the base's set."""
        result = self.base_constraint.check(value)
        extra = self.reinterpreted_batch_ndims
        if result.ndim < extra:
            have = self.base_constraint.event_dim + result.ndim
            fail("A002", f"independent: the value needs {self.event_dim} dims, and has {have}", value=value)
        return result if not extra else result.flatten(result.ndim - extra).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: what the components' support holds, without the components' dim."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Say for each event whether every component may give it."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.ndim < self.event_dim:
            fail("A002", f"mixture: the value needs {self.event_dim} dims", value=value)
        return result.flatten(value.ndim - self.event_dim).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros and a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _IntegerInterval(Constraint):
    """Integers from lower to upper."""

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return f"IntegerInterval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _IntegerAtLeast(Constraint):
    """Integers from a bound on."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)

    def __repr__(self) -> str:
        return f"IntegerGreaterThan(lower_bound={self.lower_bound})"


class _Real(Constraint):
    """Numbers: everything but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class greater_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        """Say for each number whether it lies above the bound."""
        return value > self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThan(lower_bound={self.lower_bound})"


class greater_than_eq(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers from a bound on."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        """Say for each number whether it is not below the bound."""
        return value >= self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThanEq(lower_bound={self.lower_bound})"


class less_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Say for each number whether it lies below the bound."""
        return value < self.upper_bound

    def __repr__(self) -> str:
        return f"LessThan(upper_bound={self.upper_bound})"


class interval(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers from lower to upper, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Say for each number whether it lies between the bounds."""
        return (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return f"Interval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class half_open_interval(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers from lower on and below upper."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Say for each number whether it lies between the bounds, the upper one left out."""
        return (value >= self.lower_bound) & (value < self.upper_bound)

    def __repr__(self) -> str:
        return f"HalfOpenInterval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _Simplex(Constraint):
    """Vectors of non-negative numbers that add up to 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts that add up to at most a bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(value.ndim - 2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower Cholesky factors whose rows have length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        error = ((value * value).sum(-1) - 1.0).abs()
        tolerance = rl.finfo(value.dtype).eps * value.shape[-1] * 10
        return lower_cholesky.check(value) & (error <= tolerance).all(-1)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return rl.full(tuple(value.shape[:-2]), _is_square(value), dtype=rl.bool)


def _is_square(value: Tensor) -> bool:
    return value.ndim >= 2 and value.shape[-1] == value.shape[-2]


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        if not _is_square(value):
            return super().check(value)
        return rl.isclose(value, value.mT, atol=1e-6).flatten(value.ndim - 2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        fits = super().check(value)
        if not _is_square(value):
            return fits
        return fits & (rl.linalg.eigvalsh(rl.where(fits[..., None, None], value, 0.0)) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        fits = super().check(value)
        return fits & (rl.linalg.cholesky_ex(value).info == 0) if _is_square(value) else fits


class cat(Constraint):  # noqa: N801 - PyTorch's name
    """Parts along a dim, each with a constraint of its own, of these lengths."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        require(len(self.lengths) == len(self.cseq), "A002", "constraints.cat: each constraint needs a length")
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        self.event_dim = max(part.event_dim for part in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Say for each element whether it lies in the set of its part."""
        parts = value.split(self.lengths, self.dim)
        return rl.cat([one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim)


class stack(Constraint):  # noqa: N801 - PyTorch's name
    """Slices along a dim, each with a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        self.event_dim = max(part.event_dim for part in self.cseq) + (dim + self.cseq[0].event_dim < 0)

    def check(self, value: Tensor) -> Tensor:
        """Say for each element whether it lies in the set of its slice."""
        slices = value.unbind(self.dim)
        return rl.stack([one.check(part) for one, part in zip(self.cseq, slices, strict=True)], self.dim)


boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerAtLeast(0)
positive_integer: Constraint = _IntegerAtLeast(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = greater_than(0.0)
nonnegative: Constraint = greater_than_eq(0.0)
unit_interval: Constraint = interval(0.0, 1.0)
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
multinomial = _Multinomial
dependent = _Dependent()
