"""The loader, under PyTorch's module name."""

from rushlight.data import (
    DataLoader,
    default_collate,
    default_convert,
    get_worker_info,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "DataLoader",
    "default_collate",
    "default_convert",
    "get_worker_info",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
