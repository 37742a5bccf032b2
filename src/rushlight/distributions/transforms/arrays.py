"""Transforms of vectors and matrices: onto simplexes and factors of matrices, in parts, in other shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.parameters import sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix
from rushlight.distributions.transforms.numbers import Elementwise, clipped_sigmoid, softplus
from rushlight.distributions.transforms.transform import Transform
from rushlight.support.errors import require

pad = rl.nn.functional.pad


class ReshapeTransform(Transform):
    """The last dims of `in_shape` as `out_shape`."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = rl.Size(tuple(in_shape)), rl.Size(tuple(out_shape))
        fits = math.prod(self.in_shape) == math.prod(self.out_shape)
        require(fits, "A002", "ReshapeTransform: the shapes differ in number", shapes=(self.in_shape, self.out_shape))
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Constraint:
        """Events of `in_shape`."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        """Events of `out_shape`."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> ReshapeTransform:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return zeros."""
        return x.new_zeros(tuple(x.shape[: x.ndim - len(self.in_shape)]))

    def _exchanged(self, shape: Any, old: rl.Size, new: rl.Size) -> Any:
        shape = tuple(shape)
        cut = len(shape) - len(old)
        fits = cut >= 0 and shape[cut:] == tuple(old)
        require(fits, "A002", "ReshapeTransform: the shape does not fit", shape=shape, expected=old)
        return rl.Size((*shape[:cut], *new))

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with `out_shape` at the right."""
        return self._exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with `in_shape` at the right."""
        return self._exchanged(shape, self.out_shape, self.in_shape)


class SoftmaxTransform(Elementwise):
    """Vectors as points of a simplex, by their exponentials; not a bijection."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        powers = (x - x.amax(-1, True)).exp()
        return powers / powers.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape, which needs a dim."""
        require(len(shape) >= 1, "A002", "SoftmaxTransform: too few dims", shape=tuple(shape))
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape, which needs a dim."""
        return self.forward_shape(shape)


class StickBreakingTransform(Elementwise):
    """Vectors as points of a simplex of one dim more: each number breaks off a share of what is left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        offset = x.shape[-1] + 1 - rl.ones_like(x).cumsum(-1)
        share = clipped_sigmoid(x - offset.log())
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        offset = y.shape[-1] - rl.ones_like(parts).cumsum(-1)
        left = (1 - parts.cumsum(-1)).clamp(min=rl.finfo(y.dtype).tiny)
        return parts.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |det dy/dx|`."""
        offset = x.shape[-1] + 1 - rl.ones_like(x).cumsum(-1)
        x = x - offset.log()
        return (-x + rl.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with one number more."""
        require(len(shape) >= 1, "A002", "StickBreakingTransform: too few dims", shape=tuple(shape))
        return rl.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with one number less."""
        require(len(shape) >= 1, "A002", "StickBreakingTransform: too few dims", shape=tuple(shape))
        return rl.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Elementwise):
    """Matrices as lower Cholesky factors: the exponential of the diagonal, and what lies below it."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Elementwise):
    """Matrices as positive definite ones: the product of a LowerCholeskyTransform with its transpose."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rl.linalg.cholesky(y))


class CorrCholeskyTransform(Elementwise):
    """Vectors as Cholesky factors of correlation matrices: rows of length 1 (Lewandowski et al. 2009)."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = rl.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        partial = partial + rl.eye(partial.shape[-1], dtype=x.dtype)
        return partial * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `log |det dy/dx|` of the numbers below the diagonal."""
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        by_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + by_tanh

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the matrices."""
        require(len(shape) >= 1, "A002", "CorrCholeskyTransform: too few dims", shape=tuple(shape))
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        fits = size * (size - 1) // 2 == count
        require(fits, "A002", "CorrCholeskyTransform: no triangle has so many numbers", shape=tuple(shape))
        return rl.Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the vectors."""
        fits = len(shape) >= 2 and shape[-2] == shape[-1]
        require(fits, "A002", "CorrCholeskyTransform: the matrix is not square", shape=tuple(shape))
        return rl.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parts(Transform):
    """Base of transforms of parts along a dim, each by its own."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> bool:
        """Whether all are."""
        return all(transform.bijective for transform in self.transforms)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._split(x), strict=True)
        return self._joined([transform(part) for transform, part in pairs], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._split(y), strict=True)
        return self._joined([transform.inv(part) for transform, part in pairs], self.dim)


class CatTransform(_Parts):
    """Parts of these lengths along a dim, each by its own transform."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        require(len(self.lengths) == len(self.transforms), "A002", "CatTransform: each transform needs a length")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The largest number of dims of an event."""
        return max(transform.event_dim for transform in self.transforms)

    @property
    def length(self) -> int:
        """The size along the dim."""
        return sum(self.lengths)

    @property
    def domain(self) -> Constraint:
        """The domains of the parts."""
        return constraints.cat([transform.domain for transform in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        """The codomains of the parts."""
        return constraints.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> CatTransform:
        """Return the transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        fits = -x.ndim <= self.dim < x.ndim and x.shape[self.dim] == self.length
        require(fits, "A002", "CatTransform: the size along the dim is not the sum of lengths", x=x)
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: list[Tensor], dim: int) -> Tensor:
        return rl.cat(parts, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the parts, side by side; or their sum, where the dim belongs to an event."""
        terms: list[Tensor] = []
        for transform, before, after in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = transform.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - transform.event_dim))
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return rl.cat(terms, dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


class StackTransform(_Parts):
    """Slices along a dim, each by its own transform."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq]
        self.dim = dim

    @property
    def domain(self) -> Constraint:
        """The domains of the slices."""
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        """The codomains of the slices."""
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> StackTransform:
        """Return the transform with a cache of this size."""
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        fits = -x.ndim <= self.dim < x.ndim and x.shape[self.dim] == len(self.transforms)
        require(fits, "A002", "StackTransform: the size along the dim is not the number of transforms", x=x)
        return x.unbind(self.dim)

    def _joined(self, parts: list[Tensor], dim: int) -> Tensor:
        return rl.stack(parts, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the slices, along the dim."""
        triples = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return rl.stack(
            [transform.log_abs_det_jacobian(before, after) for transform, before, after in triples], self.dim
        )
