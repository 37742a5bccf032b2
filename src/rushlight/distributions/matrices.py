"""Distributions of matrices: Wishart's of covariances, and LKJ's of Cholesky factors of correlations."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.gammas import gamma_numbers
from rushlight.distributions.multivariate import MatrixParameter, log_diagonal, require_one_matrix
from rushlight.distributions.parameters import Number, Shape, broadcast_all
from rushlight.distributions.simplex import Beta
from rushlight.eager.asserting import asks_values, require_values
from rushlight.support.errors import require

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of random correlation matrices, of dim rows.

    Densities of the matrices are as `det(matrix) ** (concentration - 1)`: with 1 all are equally likely
    (Lewandowski, Kurowicka and Joe 2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Number = 1.0, validate_args: bool | None = None) -> None:
        require(dim >= 2, "A002", "LKJCholesky: correlations need two dims or more", dim=dim)
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Return samples without gradients, by the onion method: row by row, a length and a direction."""
        shape, dtype = self._extended_shape(sample_shape), self.concentration.dtype
        lead, least = shape[:-2], rl.finfo(dtype).tiny
        with rl.no_grad():
            row = rl.arange(1, self.dim, dtype=dtype)
            rest = (self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 1 - row)).expand(*lead, self.dim - 1)
            lengths = Beta((0.5 * row).expand(*lead, self.dim - 1), rest, validate_args=False).sample()
            normals = rl.randn((*lead, self.dim - 1, self.dim - 1), dtype=dtype).tril()
            directions = normals / normals.norm(dim=-1, keepdim=True).clamp(min=least)
            below = lengths.sqrt().unsqueeze(-1) * directions
            factor = rl.nn.functional.pad(below, (0, 1, 1, 0))
            diagonal = (1 - factor.square().sum(-1)).clamp(min=least).sqrt()
            return factor + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        count = self.dim - 1
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + (count - rl.arange(1, self.dim, dtype=value.dtype))
        half = self.concentration + 0.5 * count
        normalizer = 0.5 * count * math.log(math.pi) + rl.mvlgamma(half - 0.5, count) - half.lgamma() * count
        return (powers * diagonal.log()).sum(-1) - normalizer


class Wishart(MatrixParameter, ExponentialFamily):
    """The sum of `df` outer products of normal vectors, by covariance matrix, its inverse or its factor."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        df: Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        matrix = require_one_matrix("Wishart", **given)
        freedom = rl.as_tensor(df, dtype=matrix.dtype)
        batch = tuple(rl.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(freedom.shape)))
        self.df = freedom.expand(*batch)
        least = constraints.greater_than(matrix.shape[-1] - 1)
        self.arg_constraints = {**type(self).arg_constraints, "df": least}
        if asks_values():
            require_values(least.check(self.df), "A002", "Wishart: df must exceed the matrix's size less 1", df=self.df)
        self.__dict__.update({name: parameter for name, parameter in given.items() if parameter is not None})
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._take_matrix(tuple(matrix.shape[-2:]), batch, **given)

    def _matrix_shape(self) -> tuple[Any, ...]:
        return (*self._batch_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._wide_df() * self.covariance_matrix

    def _wide_df(self) -> Tensor:
        return self.df.reshape(*self._batch_shape, 1, 1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN where `df` is at most the size plus 1."""
        factor = self._wide_df() - self._event_shape[-1] - 1
        return rl.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._wide_df() * (matrix.square() + outer)

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Return samples that are differentiable by the parameters, by Bartlett's decomposition."""
        shape = self._extended_shape(sample_shape)
        size, dtype = shape[-1], self.df.dtype
        freedom = self.df.unsqueeze(-1) - rl.arange(size, dtype=dtype)
        squares = 2 * gamma_numbers((0.5 * freedom).expand(*shape[:-1]))
        inner = squares.sqrt().diag_embed() + rl.randn(shape, dtype=dtype).tril(-1)
        factor = self._unbroadcasted_scale_tril @ inner
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._checked(value)
        half, size = 0.5 * self.df, self._event_shape[-1]
        log_det = 2 * log_diagonal(rl.linalg.cholesky(value))
        factor = self._unbroadcasted_scale_tril
        inner = rl.cholesky_solve(value, factor.expand(*value.shape[:-2], *factor.shape[-2:]))
        trace = inner.diagonal(dim1=-2, dim2=-1).sum(-1)
        constant = half * size * math.log(2) + self.df * log_diagonal(factor) + rl.mvlgamma(half, size)
        return 0.5 * (self.df - size - 1) * log_det - 0.5 * trace - constant

    def entropy(self) -> Tensor:
        """Return the expectation of `-log_prob`."""
        half, size = 0.5 * self.df, self._event_shape[-1]
        psi = (half.unsqueeze(-1) - 0.5 * rl.arange(size, dtype=half.dtype)).digamma().sum(-1)
        volume = (size + 1) * (log_diagonal(self._unbroadcasted_scale_tril) + 0.5 * size * math.log(2))
        return volume + rl.mvlgamma(half, size) - 0.5 * (self.df - size - 1) * psi + half * size

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        matrix, power = natural_params
        size = self._event_shape[-1]
        half = power + 0.5 * (size + 1)
        log_det = rl.linalg.slogdet(-matrix).logabsdet
        return rl.mvlgamma(half, size) - half * log_det
