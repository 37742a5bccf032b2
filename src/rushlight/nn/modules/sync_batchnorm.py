"""Batch norms over the batches of all ranks."""

from __future__ import annotations

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.functions import cat
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float32
from rushlight.ir.process_group import ProcessGroup, find_default
from rushlight.nn.modules.batchnorm import BatchNorm
from rushlight.nn.modules.module import Module
from rushlight.ops import collective
from rushlight.support.errors import require

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm):
    """A batch norm of any number of dims, with the statistics of the batches of all ranks.

    They are those of a group's ranks, in training. Without a group, and on one rank, it is a batch norm. The mean and
    then the variance take one all-reduce each.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: object = None,
        dtype: object = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        group = self.process_group or find_default()
        if group is None or group.size == 1 or not (self.training or self.running_mean is None):
            return super().forward(input)
        self._check_input_dim(input)
        momentum = self._count_batch()
        x = input.to(float32) if input.dtype.bits < 32 else input
        others = [dim for dim in range(x.ndim) if dim != 1]
        count = x.new_full((1,), x.numel() // int(x.shape[1]))
        totals = _summed(cat((x.sum(others), count)), group)
        number = totals[-1]
        mean = totals[:-1] / number
        centred = x - _along(mean, x)
        variance = _summed(centred.square().sum(others), group) / number
        if self.training and self.track_running_stats:
            self._follow(mean, variance * (number / (number - 1)), momentum)
        y = centred * _along((variance + self.eps).rsqrt(), x)
        if self.weight is not None:
            y = y * _along(self.weight.to(x.dtype), x)
        if self.bias is not None:
            y = y + _along(self.bias.to(x.dtype), x)
        return y.to(input.dtype)

    def _follow(self, mean: Tensor, variance: Tensor, momentum: float) -> None:
        with no_grad():
            for running, new in ((self.running_mean, mean), (self.running_var, variance)):
                running.mul_(1 - momentum).add_(new.to(running.dtype) * momentum)

    def _check_input_dim(self, input: Tensor) -> None:
        require(input.ndim >= 2, "A002", f"expected at least 2D input (got {input.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """Return a module with SyncBatchNorms, on the same tensors, in place of batch norms."""
        result = module
        if isinstance(module, BatchNorm):
            options = module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
            result = cls(*options, process_group)
            result.weight, result.bias = module.weight, module.bias
            for name, buffer in module.named_buffers():
                setattr(result, name, buffer)
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


def _summed(tensor: Tensor, group: ProcessGroup) -> Tensor:
    return collective.all_reduce(tensor, "sum", group.name)


def _along(values: Tensor, like: Tensor) -> Tensor:
    """Values for each channel, in the dims of an input."""
    return values.view(1, -1, *[1] * (like.ndim - 2))
