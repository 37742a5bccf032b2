"""Normal distributions of vectors, with a covariance matrix of full or of low rank."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.parameters import Shape, lazy_property
from rushlight.support.errors import require

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def squared_length(factor: Tensor, vector: Tensor) -> Tensor:
    """Return `|factor⁻¹ vector|²` of lower triangular matrices: Mahalanobis' distance, squared."""
    return rl.linalg.solve_triangular(factor, vector.unsqueeze(-1), upper=False).squeeze(-1).square().sum(-1)


def log_diagonal(factor: Tensor) -> Tensor:
    """Return the sum of logarithms of the diagonal: half of the log determinant of `factor @ factor.mT`."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def inverse_of(factor: Tensor) -> Tensor:
    """Return the inverse of `factor @ factor.mT`."""
    return rl.cholesky_inverse(factor)


def factor_of_inverse(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the inverse of a positive definite matrix."""
    turned = rl.linalg.cholesky(rl.flip(matrix, (-2, -1)))
    factor = rl.flip(turned, (-2, -1)).mT
    size = rl.eye(matrix.shape[-1], dtype=matrix.dtype)
    return rl.linalg.solve_triangular(factor, size.expand(matrix.shape), upper=False)


class MatrixParameter(Distribution):
    """Base of distributions of a positive definite matrix: one form is given, the others follow."""

    _unbroadcasted_scale_tril: Tensor

    def _take_matrix(self, shape: tuple[Any, ...], batch: tuple[Any, ...], **given: Tensor | None) -> None:
        """Keep the one that is given, broadcast, and its lower factor."""
        name, matrix = next((name, matrix) for name, matrix in given.items() if matrix is not None)
        assert matrix is not None
        self.__dict__[name] = matrix.expand(*batch, *shape)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = rl.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_inverse(matrix)

    def _matrix_shape(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor."""
        return self._unbroadcasted_scale_tril.expand(*self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The matrix."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(*self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the matrix."""
        return inverse_of(self._unbroadcasted_scale_tril).expand(*self._matrix_shape())


def require_one_matrix(name: str, **given: Tensor | None) -> Tensor:
    """Fail with A002 unless exactly one matrix is given; return it."""
    matrices = [matrix for matrix in given.values() if matrix is not None]
    require(len(matrices) == 1, "A002", f"{name}: exactly one of {', '.join(given)} is given")
    require(matrices[0].ndim >= 2, "A002", f"{name}: the matrix needs two dims", given=matrices[0])
    return matrices[0]


class MultivariateNormal(MatrixParameter):
    """Normal vectors, by mean and covariance matrix, its inverse or its lower Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        require(loc.ndim >= 1, "A002", "MultivariateNormal: loc needs a dim", loc=loc)
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        matrix = require_one_matrix("MultivariateNormal", **given)
        batch = tuple(rl.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1])))
        self.loc = loc.expand(*batch, -1)
        # The constraint is checked before a matrix that has no factor fails in LAPACK's words.
        self.__dict__.update({name: value for name, value in given.items() if value is not None})
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._take_matrix(tuple(matrix.shape[-2:]), batch, **given)

    def _matrix_shape(self) -> tuple[Any, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        """The mean: `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance of each number."""
        variance = self._unbroadcasted_scale_tril.square().sum(-1)
        return variance.expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        drawn = rl.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        factor = self._unbroadcasted_scale_tril
        distance = squared_length(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_diagonal(factor)

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + log_diagonal(self._unbroadcasted_scale_tril)).expand(*self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance matrix `cov_factor @ cov_factor.mT + diag(cov_diag)`.

    Densities cost as much as the factor's few columns: by the determinant lemma and Woodbury's identity.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        name = "LowRankMultivariateNormal"
        require(loc.ndim >= 1, "A002", f"{name}: loc needs a dim", loc=loc)
        size = loc.shape[-1]
        require(cov_factor.ndim >= 2, "A002", f"{name}: cov_factor needs two dims", cov_factor=cov_factor)
        require(cov_factor.shape[-2] == size, "A002", f"{name}: cov_factor does not fit loc", cov_factor=cov_factor)
        require(cov_diag.shape[-1] == size, "A002", f"{name}: cov_diag does not fit loc", cov_diag=cov_diag)
        batch = rl.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc = loc.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(*batch, -1)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        inner = scaled @ cov_factor
        self._capacitance_tril = rl.linalg.cholesky(inner + rl.eye(inner.shape[-1], dtype=inner.dtype))
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance of each number."""
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_cov_factor
        covariance = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return covariance.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance matrix."""
        return rl.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        part = rl.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        precision = diag.reciprocal().diag_embed() - part.mT @ part
        return precision.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples that are differentiable by the parameters."""
        shape = self._extended_shape(sample_shape)
        rank = (*shape[:-1], self.cov_factor.shape[-1])
        few, each = rl.randn(rank, dtype=self.loc.dtype), rl.randn(shape, dtype=self.loc.dtype)
        spread = (self._unbroadcasted_cov_factor @ few.unsqueeze(-1)).squeeze(-1)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * each

    def _distance(self, away: Tensor) -> Tensor:
        """Mahalanobis' distance of differences from the mean, squared."""
        diag = self._unbroadcasted_cov_diag
        inner = (self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)) @ away.unsqueeze(-1)
        return (away.square() / diag).sum(-1) - squared_length(self._capacitance_tril, inner.squeeze(-1))

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + self._distance(value - self.loc))

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(*self._batch_shape)
