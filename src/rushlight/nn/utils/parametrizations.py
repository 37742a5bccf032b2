"""Parametrizations: weights of given lengths, of spectral norm 1, or orthogonal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.composite.statistics import norm_except_dim
from rushlight.eager.creation import eye, zeros_like
from rushlight.eager.random import randn
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int32, ml_dtypes, real_dtype
from rushlight.nn.functional.normalization import normalize
from rushlight.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.modules.module import Module
from rushlight.nn.tree.state import ModuleState
from rushlight.nn.utils.parametrize import register_parametrization
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """Lengths times directions: the tensor of which `weight_g` are the lengths and `weight_v` gives the directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_directions(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def scaled_directions(directions: Tensor, lengths: Tensor, dim: int) -> Tensor:
    """Return vectors of given lengths: one for each index of a dim, or for -1 one of all elements."""
    return directions * (lengths / norm_except_dim(directions, 2, dim))


class _OldWeightNormKeys:
    """A hook that reads states of `nn.utils.weight_norm`. A class, so that modules with it can be copied."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: ModuleState, state_dict: dict[str, object], prefix: str, *_: object) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for at, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{at}"] = state_dict.pop(key)


@checked
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train lengths and directions of a weight apart (Salimans and Kingma 2016).

    The vectors are the slices of `dim`; with None the whole weight is one. The lengths are `original0`, the directions
    `original1`.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(_OldWeightNormKeys(name))
    return module


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix with a row for each index of `dim`."""
    return ops.movedim(weight, dim, 0).flatten(1) if dim else weight.flatten(1)


def default_output_dim(module: Module, dim: int | None) -> int:
    """Return the dim of a weight that counts outputs, unless one is given."""
    transposed = isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
    return int(transposed) if dim is None else dim


@no_grad()
def iterate_power(matrix: Tensor, left: Tensor, right: Tensor, count: int, eps: float) -> None:
    """Move vectors, in place, towards the first singular vectors of a matrix."""
    for _ in range(count):
        left.copy_(normalize(ops.mv(matrix, right), dim=0, eps=eps))
        right.copy_(normalize(ops.mv(matrix.mH, left), dim=0, eps=eps))


class _SpectralNorm(Module):
    """A weight over its largest singular value, which the power method follows while it is trained."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        self.dim = wrap_dim(dim, weight.ndim, "spectral_norm")
        given = f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        require(n_power_iterations > 0, "A002", given)
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, normalize(matrix.new_empty(size).normal_(), dim=0, eps=eps))
            iterate_power(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            iterate_power(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        # Copies, since a later call moves the vectors before the gradient of this one may be asked for.
        left, right = self._u.clone(), self._v.clone()
        return weight / ops.vdot(left, ops.mv(matrix, right))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


@checked
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    The weight is taken as a matrix with a row for each index of `dim`, by default that of the outputs. Each time that
    it is read in training mode the power method goes on by `n_power_iterations` steps.
    """
    weight = _weight_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, default_output_dim(module, dim), eps)
    return register_parametrization(module, name, made)


def _weight_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        fail("A002", f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    return weight


def _exponential(matrix: Tensor) -> Tensor:
    """The matrix exponential of A - A^H, of the lower triangle A."""
    return ops.matrix_exp(matrix - matrix.mH)


def _cayley(matrix: Tensor) -> Tensor:
    """(I + S/2) (I - S/2)^-1 with S = A - A^H, of the lower triangle A."""
    half = (matrix - matrix.mH) * 0.5
    identity = eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return ops.linalg_solve(identity - half, identity + half)


def _square_map(function: Callable[[Tensor], Tensor], tall: Tensor) -> Tensor:
    """The first columns of what a map of square matrices makes of a tall one's lower triangle."""
    rows, columns = tall.shape[-2:]
    lower = ops.tril(tall)
    padded = ops.pad(lower, (0, rows - columns)) if rows != columns else lower
    return function(padded)[..., :columns]


def _householder(tall: Tensor) -> Tensor:
    """The product of the reflections that the lower triangle holds, with the signs on its diagonal."""
    reflectors = ops.tril(tall, -1)
    scales = 2.0 / (1.0 + (reflectors * reflectors).sum(-2))
    signs = ops.diagonal(tall, 0, -2, -1).to(int32)  # no gradient moves them
    return ops.linalg_householder_product(reflectors, scales) * signs.unsqueeze(-2)


_MAPS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "matrix_exp": lambda tall: _square_map(_exponential, tall),
    "cayley": lambda tall: _square_map(_cayley, tall),
    "householder": _householder,
}


def _orthogonalized(matrix: Tensor) -> Tensor:
    """Q of the decomposition QR with positive diagonal of R."""
    factors, scales = ops.geqrf(matrix)
    signs = ops.sgn(ops.diagonal(factors, 0, -2, -1)).unsqueeze(-2)
    return ops.linalg_householder_product(factors, scales) * signs


class _Orthogonal(Module):
    """An orthogonal matrix, as a function of one without constraints."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        real = orthogonal_map != "householder" or not weight.is_complex()
        require(real, "A002", "The householder parametrization does not support complex tensors.", weight=weight)
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.trivialized = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, matrix: Tensor) -> Tensor:
        wide = matrix.shape[-2] < matrix.shape[-1]
        result = _MAPS[self.orthogonal_map](matrix.mT if wide else matrix)
        if self.trivialized:
            assert self.base is not None
            result = ops.matmul(self.base, result)
        return result.mT if wide else result

    @no_grad()
    def right_inverse(self, matrix: Tensor) -> Tensor:
        expected = f"Expected a matrix or batch of matrices of shape {self.shape}."
        require(matrix.shape == self.shape, "A002", expected, matrix=matrix)
        wide = matrix.shape[-2] < matrix.shape[-1]
        tall = matrix.mT if wide else matrix
        if self.trivialized:
            self.base = _completed(tall)
            # The diagonal of -1 makes the product of reflections the identity.
            inverse = zeros_like(matrix)
            inverse.diagonal(0, -2, -1).fill_(-1.0)
            return inverse
        if self.orthogonal_map != "householder":
            maps = "the matrix exponential or the Cayley parametrizations"
            fail("A006", f"It is not possible to assign to {maps} when use_trivialization=False.")
        factors, scales = ops.geqrf(tall)
        diagonal = factors.diagonal(0, -2, -1)
        signs = ops.where(diagonal < 0, -1.0, 1.0).to(matrix.dtype)
        # A scale of 0 is no reflection at all, where one by 2 / (1 + 0) of the forward map negates.
        diagonal.copy_(ops.where(scales == 0, -signs, signs))
        return factors.mT if wide else factors


def _completed(tall: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with a tall one, which is made orthogonal if it is not."""
    rows, columns = tall.shape[-2:]
    if rows == columns:
        identity = eye(columns, dtype=tall.dtype, device=tall.device)
        eps = float(ml_dtypes().finfo(real_dtype(tall.dtype).numpy).eps)
        near = (ops.matmul(tall.mH, tall) - identity).abs() <= 10.0 * rows * eps + 1e-5 * identity.abs()
        return tall.clone() if bool(near.all()) else _orthogonalized(tall)
    others = randn(*tall.shape[:-2], rows, rows - columns, dtype=tall.dtype, device=tall.device)
    return _orthogonalized(ops.cat([tall, others], -1))


@checked
def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight (..., m, n) orthogonal: its columns, or its rows where it is wide, are orthonormal.

    `orthogonal_map` is "matrix_exp", "cayley" or "householder"; by default the first for square and complex weights,
    else the last. With `use_trivialization` the map is relative to a base (Lezcano-Casado 2019), and the weight begins
    as it is, made orthogonal.
    """
    weight = _weight_of(module, name)
    few = f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
    require(weight.ndim >= 2, "A002", few, weight=weight)
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    kinds = 'orthogonal_map has to be one of "matrix_exp", "cayley", "householder".'
    require(orthogonal_map in _MAPS, "A002", f"{kinds} Got: {orthogonal_map}")
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, __all__)
