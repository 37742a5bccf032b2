"""Modules on several devices, of which there are none: they run on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module around `module`, which it calls: without devices there is nothing to spread, as in PyTorch."""

    def __init__(
        self, module: Module, device_ids: Sequence[object] | None = None, output_device: object = None, dim: int = 0
    ) -> None:
        super().__init__()
        fits = isinstance(module, Module)
        require(fits, "A003", f"DataParallel: {type(module).__name__} is not a Module subclass")
        self.module = module
        self.device_ids: list[object] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Sequence[object] | None = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: Mapping[str, object] | None = None,
) -> Any:
    """Call a module on inputs, which are one or a tuple."""
    positional = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*positional, **(module_kwargs or {}))
