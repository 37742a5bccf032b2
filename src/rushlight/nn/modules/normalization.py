"""Normalisation layers that take no statistics over the batch."""

from __future__ import annotations

from rushlight.eager.creation import arange, empty
from rushlight.eager.functions import where
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional
from rushlight.nn.affine import register_affine, reset_affine
from rushlight.nn.functional.normalization import mean_squares
from rushlight.nn.modules.module import Module
from rushlight.nn.spatial import PerDim
from rushlight.support.errors import require

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """Normalises over the last dims, whose sizes are `normalized_shape`, then scales and shifts."""

    def __init__(
        self,
        normalized_shape: PerDim[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self._register("weight", shape if elementwise_affine else None, device, dtype)
        self._register("bias", shape if elementwise_affine and bias else None, device, dtype)
        self.reset_parameters()

    def _register(self, name: str, shape: tuple[int, ...] | None, device: object, dtype: object) -> None:
        self.register_parameter(name, None if shape is None else Parameter(empty(shape, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Set scales to 1 and shifts to 0."""
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return shape and options."""
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dims, then scales (Zhang and Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: PerDim[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scales to 1."""
        reset_affine(self.weight, None)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return shape and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises over groups of channels, then scales and shifts each channel (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: object = None,
        dtype: object = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        require(num_groups > 0, "A002", "num_groups must be a positive integer")
        divides = num_channels % num_groups == 0
        require(divides, "A002", f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        register_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scales to 1 and shifts to 0."""
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return sizes and options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


def _shape(shape: PerDim[int]) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


class LocalResponseNorm(Module):
    """Divides each element by a power of the mean square over `size` neighbouring channels."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of images with as many neighbours before a channel as after it.

    As in PyTorch, the first channel is a neighbour of all channels.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        require(input.ndim == 4, "A002", f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        reach = (self.size - 1) // 2
        squares = mean_squares(input, reach, reach) * (2 * reach + 1)
        first = input[:, :1] * input[:, :1]
        beyond = arange(input.shape[1], device=input.device).reshape(-1, 1, 1) > reach
        squares = squares + where(beyond, first, 0.0)
        return input / (squares * (self.alpha / self.size) + self.k) ** self.beta
