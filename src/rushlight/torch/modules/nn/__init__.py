"""`torch.nn` beyond `rushlight.nn`."""

from __future__ import annotations

from rushlight.nn import Module
from rushlight.torch.submodule import Submodule

__all__ = ["DataParallel", "parallel"]


class DataParallel(Module):
    """A module around `module`, which it calls: without devices there is nothing to spread, as in PyTorch."""

    def __init__(self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: object, **options: object) -> object:
        """Return what the module returns."""
        return self.module(*inputs, **options)


parallel = Submodule("Modules on several devices.", DataParallel=DataParallel)
