"""Transform: the base class of functions of samples, with inverse and Jacobian, and compositions of them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.parameters import Undefined, sum_rightmost
from rushlight.support.errors import fail, require


class Transform:
    """A function of tensors that knows its inverse and the logarithm of its Jacobian's determinant.

    `domain` and `codomain` are constraints. With `cache_size=1` the last input and result are kept, so that the
    inverse of a result is its very input.
    """

    # What subclasses define as an attribute or as a property.
    bijective: Any = False
    domain: Any
    codomain: Any
    sign: Any = Undefined("the sign")

    def __init__(self, cache_size: int = 0) -> None:
        require(cache_size in (0, 1), "A002", "Transform: cache_size is 0 or 1", cache_size=cache_size)
        self._cache_size = cache_size
        self._inv: weakref.ref[Transform] | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """The number of dims of one value, where input and result have as many."""
        same = self.domain.event_dim == self.codomain.event_dim
        require(same, "A002", f"{type(self).__name__}: domain and codomain have events of different dims")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse."""
        if rl.compiler.is_compiling():  # a graph makes one where it needs one
            return InverseTransform(self)
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        cls = type(self)
        if cls.__init__ is not Transform.__init__:
            fail("A006", f"{cls.__name__}: with_cache is not defined")
        return cls(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(type(self))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the transform of a tensor."""
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        fail("A006", f"{type(self).__name__}: there is no rule")

    def _inverse(self, y: Tensor) -> Tensor:
        fail("A006", f"{type(self).__name__}: there is no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |det dy/dx|` of an input and its result."""
        fail("A006", f"{type(self).__name__}: log_abs_det_jacobian is not defined")

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result, of that of the input."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the input, of that of the result."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class InverseTransform(Transform):
    """The inverse of a transform; it shares that one's cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv_transform = transform

    @property
    def domain(self) -> Constraint:
        """The transform's codomain."""
        return self._inv_transform.codomain

    @property
    def codomain(self) -> Constraint:
        """The transform's domain."""
        return self._inv_transform.domain

    @property
    def bijective(self) -> bool:
        """Whether the transform is."""
        return self._inv_transform.bijective

    @property
    def sign(self) -> Any:
        """The transform's sign."""
        return self._inv_transform.sign

    @property
    def inv(self) -> Transform:
        """The transform."""
        return self._inv_transform

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the inverse of the transform with a cache."""
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InverseTransform) and self._inv_transform == other._inv_transform

    def __hash__(self) -> int:
        return hash((InverseTransform, self._inv_transform))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the input that the transform turns into x."""
        return self._inv_transform._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv_transform(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the negative of the transform's."""
        return -self._inv_transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the transform's input."""
        return self._inv_transform.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the transform's result."""
        return self._inv_transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"InverseTransform({self._inv_transform!r})"


class ComposeTransform(Transform):
    """Several transforms, one after another."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((ComposeTransform, len(self.parts)))

    @property
    def domain(self) -> Constraint:
        """The first one's domain, with as many dims of an event as later ones need."""
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return constraints.independent(first, event_dim - first.event_dim) if event_dim > first.event_dim else first

    @property
    def codomain(self) -> Constraint:
        """The last one's codomain, with as many dims of an event as earlier ones need."""
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return constraints.independent(last, event_dim - last.event_dim) if event_dim > last.event_dim else last

    @property
    def bijective(self) -> bool:
        """Whether all are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of signs."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        """The inverses, the last one first."""
        if rl.compiler.is_compiling():
            return ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> ComposeTransform:
        """Return the composition with a cache of this size."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the last transform makes of what the others made."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of those of the parts."""
        if not self.parts:
            return rl.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event_dim, total = self.domain.event_dim, None
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            term = sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
        assert total is not None
        return total

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the result, of that of the input."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the input, of that of the result."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join([repr(part) for part in self.parts])
        return f"ComposeTransform(\n    {inner}\n)"


class IndependentTransform(Transform):
    """A transform of which so many further dims are one event: its Jacobians are added up over them."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> IndependentTransform:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @property
    def domain(self) -> Constraint:
        """The base's domain, of larger events."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        """The base's codomain, of larger events."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        """Whether the base is."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's sign."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        require(x.ndim >= self.domain.event_dim, "A002", "IndependentTransform: too few dims", x=x)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        require(y.ndim >= self.codomain.event_dim, "A002", "IndependentTransform: too few dims", y=y)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the base's over each event."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the base's result."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the base's input."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


identity_transform = ComposeTransform([])
