"""Optimizers on many ranks: PyTorch's `torch.distributed.optim`."""

from rushlight.distributed.optim.divided import ZeroRedundancyOptimizer
from rushlight.distributed.optim.in_backward import (
    apply_optimizer_in_backward as _apply_optimizer_in_backward,
)
from rushlight.distributed.optim.in_backward import (
    in_backward_optimizers as _get_in_backward_optimizers,
)
from rushlight.support.peer_names import absent_name

__all__ = ["ZeroRedundancyOptimizer", "_apply_optimizer_in_backward", "_get_in_backward_optimizers"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
