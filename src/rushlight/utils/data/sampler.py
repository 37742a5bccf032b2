"""Samplers, under PyTorch's module name."""

from rushlight.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
