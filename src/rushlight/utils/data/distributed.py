"""The sampler for several replicas, under PyTorch's module name."""

from rushlight.data import (
    DistributedSampler,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "DistributedSampler",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
