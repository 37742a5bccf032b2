"""Hooks for `DistributedDataParallel.register_comm_hook`: PyTorch's `torch.distributed.algorithms.ddp_comm_hooks`."""

from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from rushlight.support.peer_names import absent_name

__all__ = ["default_hooks", "powerSGD_hook"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
