"""From constraints to transforms: how unconstrained numbers reach a set of values.

biject_to(constraints.positive)(rl.randn(3))  # positive numbers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rushlight.distributions import constraints, transforms
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.transforms import Transform
from rushlight.support.errors import fail, require

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

F = TypeVar("F", bound=Callable[..., Any])


class ConstraintRegistry:
    """A table of functions that make a transform of a constraint, by the constraint's class."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register a function for a class of constraints or an instance's; without one, return a decorator."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        cls = type(constraint) if isinstance(constraint, Constraint) else constraint
        is_class = isinstance(cls, type) and issubclass(cls, Constraint)
        require(is_class, "A001", "ConstraintRegistry: a constraint or a class of them is expected", given=constraint)
        self._registry[cls] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return a transform from unconstrained numbers to a constraint. A006 where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            fail("A006", f"no transform is registered for {type(constraint).__name__}", hint="register() adds one")
        return factory(constraint)


biject_to = ConstraintRegistry()
"""Bijections."""
transform_to = ConstraintRegistry()
"""Transforms that need not be bijections, nor have a Jacobian."""


def both(constraint: object) -> Callable[[F], F]:
    """Return a decorator that registers a function in both tables."""

    def attach(function: F) -> F:
        biject_to.register(constraint, function)
        transform_to.register(constraint, function)
        return function

    return attach


@both(constraints.real)
def _real(constraint: Constraint) -> Transform:
    return transforms.identity_transform


@both(constraints.greater_than)
@both(constraints.greater_than_eq)
def _above(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@both(constraints.less_than)
def _below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@both(constraints.interval)
@both(constraints.half_open_interval)
def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if numbers and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.independent)
def _independent_bijection(constraint: Any) -> Transform:
    inner = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _independent(constraint: Any) -> Transform:
    inner = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)


@biject_to.register(constraints.simplex)
def _simplex_bijection(constraint: Constraint) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _simplex(constraint: Constraint) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint: Constraint) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _positive_definite(constraint: Constraint) -> Transform:
    return transforms.PositiveDefiniteTransform()


@both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Constraint) -> Transform:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _cat_bijection(constraint: Any) -> Transform:
    return transforms.CatTransform([biject_to(part) for part in constraint.cseq], constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _cat(constraint: Any) -> Transform:
    return transforms.CatTransform([transform_to(part) for part in constraint.cseq], constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _stack_bijection(constraint: Any) -> Transform:
    return transforms.StackTransform([biject_to(part) for part in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _stack(constraint: Any) -> Transform:
    return transforms.StackTransform([transform_to(part) for part in constraint.cseq], constraint.dim)
