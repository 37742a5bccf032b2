"""`torch.utils.tensorboard`: the writer of tensorboardX, which needs neither PyTorch nor TensorBoard."""

from __future__ import annotations

from importlib import import_module

from rushlight.support.errors import error

__all__: list[str] = []


def __getattr__(name: str) -> object:
    if name != "SummaryWriter":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        return import_module("tensorboardX").SummaryWriter
    except ImportError as cause:
        hint = "install the writer: pip install 'rushlight[tensorboard]'"
        raise error("N004", "torch.utils.tensorboard: tensorboardX is not installed", hint=hint) from cause
