"""Batch norms."""

from __future__ import annotations

from typing import Any

from rushlight.eager.creation import ones, tensor, zeros
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.nn import functional
from rushlight.nn.affine import register_affine, reset_affine
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, UninitializedTensorMixin
from rushlight.support.errors import require

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
]


class ChannelNorm(Module):
    """Base of norms over each channel; `_ranks` are the ranks that inputs may have."""

    _ranks: tuple[int, ...] = ()
    _version = 2
    num_features: int

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

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Accept states from before the batches were counted."""
        state_dict, prefix, metadata = args[:3]
        key = f"{prefix}num_batches_tracked"
        if (metadata.get("version") or 0) < 2 and self.track_running_stats and key not in state_dict:
            counted = self.num_batches_tracked
            kept = counted is not None and counted.device.type != "meta"
            state_dict[key] = counted if kept else tensor(0, dtype=int64)
        super()._load_from_state_dict(*args, **kwargs)

    def _check_input_dim(self, input: Tensor) -> None:
        ranks = " or ".join([f"{rank}D" for rank in self._ranks])
        require(input.ndim in self._ranks, "A002", f"expected {ranks} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        """Return sizes and options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        tracking = f"track_running_stats={self.track_running_stats}"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, {tracking}"


class BatchNorm(ChannelNorm):
    """Base of the batch norms (Ioffe and Szegedy 2015).

    Running statistics move by `momentum`, or are plain means over all batches when it is None.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        self._check_input_dim(input)
        momentum = self._count_batch()
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

    def _count_batch(self) -> float:
        """Count a batch of training, and return by how much running statistics move."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        return momentum


class BatchNorm1d(BatchNorm):
    """Normalises each channel of (n, channels) or (n, channels, length) over the batch."""

    _ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Normalises each channel of (n, channels, height, width) over the batch."""

    _ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Normalises each channel of (n, channels, depth, height, width) over the batch."""

    _ranks = (5,)


class LazyNorm(LazyModuleMixin, ChannelNorm):
    """Base of norms whose number of channels the first input tells."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: object = None,
        dtype: object = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
        if affine and bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Forget the batches seen, once there is a shape; set scales to 1 and shifts to 0."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from dim 1."""
        waits = self.has_uninitialized_params()
        if waits or not self.num_features:
            self.num_features = input.shape[1]
        if waits:
            for one in (self.weight, self.bias, self.running_mean, self.running_var):
                if isinstance(one, UninitializedTensorMixin):
                    one.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(LazyNorm, BatchNorm):
    """A BatchNorm1d whose `num_features` the first input tells."""

    cls_to_become = BatchNorm1d
    _ranks = BatchNorm1d._ranks


class LazyBatchNorm2d(LazyNorm, BatchNorm):
    """A BatchNorm2d whose `num_features` the first input tells."""

    cls_to_become = BatchNorm2d
    _ranks = BatchNorm2d._ranks


class LazyBatchNorm3d(LazyNorm, BatchNorm):
    """A BatchNorm3d whose `num_features` the first input tells."""

    cls_to_become = BatchNorm3d
    _ranks = BatchNorm3d._ranks
