"""Spectral normalisation by a hook, as it was before there were parametrizations."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.functional.normalization import normalize
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.parametrizations import default_output_dim, iterate_power, matrix_of
from rushlight.nn.utils.weight_norm import hook_of, removed_parameter, taken_hook
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook before a module's forward that divides a weight by its largest singular value."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        given = f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        require(n_power_iterations > 0, "A002", given)
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight of a module; with `do_power_iteration` its singular vectors are followed first."""
        weight: Tensor = getattr(module, f"{self.name}_orig")
        left: Tensor = getattr(module, f"{self.name}_u")
        right: Tensor = getattr(module, f"{self.name}_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            # In this form the right vector moves first.
            iterate_power(matrix.mH, right, left, self.n_power_iterations, self.eps)
            left, right = left.clone(), right.clone()
        return weight / ops.dot(left, ops.mv(matrix, right))

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the weight before a forward."""
        setattr(module, self.name, self.compute_weight(module, module.training))


@checked
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value: an old form.

    The parameter becomes `weight_orig`, and the buffers `weight_u` and `weight_v` are its singular vectors.
    `nn.utils.parametrizations.spectral_norm` has taken its place.
    """
    twice = f"Cannot register two spectral_norm hooks on the same parameter {name}"
    require(hook_of(module, SpectralNorm, name) is None, "A004", twice)
    weight = removed_parameter(module, name)
    along = wrap_dim(default_output_dim(module, dim), weight.ndim, "spectral_norm")
    made = SpectralNorm(name, n_power_iterations, along, eps)
    matrix = matrix_of(weight.detach(), along)
    module.register_parameter(f"{name}_orig", weight if isinstance(weight, Parameter) else Parameter(weight))
    setattr(module, name, weight.detach())
    for part, size in zip("uv", matrix.shape, strict=True):
        module.register_buffer(f"{name}_{part}", normalize(matrix.new_empty(size).normal_(), dim=0, eps=eps))
    module.register_forward_pre_hook(made)
    return module


@checked
def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight a plain parameter again."""
    made: SpectralNorm = taken_hook(module, SpectralNorm, name, "spectral_norm")
    with no_grad():
        weight = made.compute_weight(module, False)
    for part in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    return module


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
