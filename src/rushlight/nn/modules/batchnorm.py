"""Batch norms."""

from __future__ import annotations

from rushlight.eager.creation import ones, tensor, zeros
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.nn import functional
from rushlight.nn.affine import register_affine, reset_affine
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


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
        register_affine(self, num_features, affine, affine and bias, device, dtype)
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
        reset_affine(self.weight, self.bias)

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
