"""Modules without first values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rushlight.nn.modules.module import Module
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = ["skip_init"]


def skip_init(module_cls: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a module whose parameters and buffers have undefined values, on `device` or the CPU.

    Its class takes `device` as an argument, and draws its first values only by what respects that.

    ```python
    layer = nn.utils.skip_init(nn.Linear, 1024, 4096)
    ```
    """
    module = isinstance(module_cls, type) and issubclass(module_cls, Module)
    require(module, "A004", "Expected a Module", got=module_cls)
    takes = "device" in inspect.signature(module_cls).parameters
    require(takes, "A004", "Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=device)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
