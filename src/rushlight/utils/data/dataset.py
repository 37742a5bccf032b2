"""Datasets, under PyTorch's module name."""

from rushlight.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
