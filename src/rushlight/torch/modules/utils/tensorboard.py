"""`torch.utils.tensorboard`: the writer of tensorboardX, which needs neither PyTorch nor TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

from rushlight import Tensor
from rushlight.support.errors import error
from rushlight.utils._pytree import tree_map

__all__: list[str] = []


def __getattr__(name: str) -> object:
    if name != "SummaryWriter":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        return _of_arrays(import_module("tensorboardX").SummaryWriter)
    except ImportError as cause:
        hint = "install the writer: pip install 'rushlight[tensorboard]'"
        raise error("N004", "torch.utils.tensorboard: tensorboardX is not installed", hint=hint) from cause


@cache
def _of_arrays(writer: type) -> type:
    """A writer that also takes tensors; tensorboardX knows those of other packages by their names alone."""
    methods = {name: _with_arrays(getattr(writer, name)) for name in dir(writer) if name.startswith("add_")}
    return type(writer.__name__, (writer,), methods)


def _with_arrays(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*args: object, **kwargs: object) -> Any:
        args, kwargs = tree_map(_array, (args, kwargs))
        return method(*args, **kwargs)

    return called


def _array(value: object) -> object:
    return value.detach().numpy() if isinstance(value, Tensor) else value
