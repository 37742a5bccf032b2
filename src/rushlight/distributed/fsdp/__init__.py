"""Models whose parameters are divided among ranks: PyTorch's `torch.distributed.fsdp`, its second form."""

from rushlight.distributed.fsdp.api import FSDPModule, UnshardHandle, fully_shard
from rushlight.distributed.fsdp.policy import MixedPrecisionPolicy
from rushlight.support.peer_names import absent_name

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "UnshardHandle", "fully_shard"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
