"""Files of tensors, and the classes that a checkpoint may name: PyTorch's `torch.serialization`."""

from rushlight.data.checkpoint import load, save
from rushlight.data.vocabulary import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]
