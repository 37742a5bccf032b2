"""Optimizers on many ranks: PyTorch's `torch.distributed.optim`."""

from rushlight.distributed.optim.divided import ZeroRedundancyOptimizer
from rushlight.support.peer_names import absent_name

__all__ = ["ZeroRedundancyOptimizer"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
