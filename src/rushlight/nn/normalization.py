"""Normalisation layers."""

from __future__ import annotations

from rushlight.eager.creation import empty, ones, tensor, zeros
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import int64
from rushlight.nn import functional, init
from rushlight.nn.module import Module
from rushlight.nn.spatial import PerDim
from rushlight.support.errors import require


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
        _reset(self.weight, self.bias)

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
        _reset(self.weight, None)

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
        _register_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scales to 1 and shifts to 0."""
        _reset(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return sizes and options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class ChannelNorm(Module):
    """Base of the batch norms (Ioffe and Szegedy 2015); `_ranks` are the ranks that inputs may have.

    Running statistics move by `momentum`, or are plain means over all batches when it is None.
    """

    _ranks: tuple[int, ...] = ()
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: object = None,
        dtype: object = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        _register_affine(self, num_features, affine, affine and bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the batches seen; set scales to 1 and shifts to 0."""
        self.reset_running_stats()
        _reset(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        ranks = " or ".join([f"{rank}D" for rank in self._ranks])
        require(input.ndim in self._ranks, "A002", f"expected {ranks} input (got {input.ndim}D input)")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or self.running_mean is None
        uses_running = not self.training or self.track_running_stats
        return functional.batch_norm(
            input,
            self.running_mean if uses_running else None,
            self.running_var if uses_running else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        """Return sizes and options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        tracking = f"track_running_stats={self.track_running_stats}"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, {tracking}"


class BatchNorm1d(ChannelNorm):
    """Normalises each channel of (n, channels) or (n, channels, length) over the batch."""

    _ranks = (2, 3)


class BatchNorm2d(ChannelNorm):
    """Normalises each channel of (n, channels, height, width) over the batch."""

    _ranks = (4,)


class BatchNorm3d(ChannelNorm):
    """Normalises each channel of (n, channels, depth, height, width) over the batch."""

    _ranks = (5,)


def _shape(shape: PerDim[int]) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


def _register_affine(module: Module, channels: int, weight: bool, bias: bool, device: object, dtype: object) -> None:
    for name, wanted in (("weight", weight), ("bias", bias)):
        param = Parameter(empty(channels, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, param)


def _reset(weight: Tensor | None, bias: Tensor | None) -> None:
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
