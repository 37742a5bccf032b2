"""`torch._tensor_str`: how tensors are printed, as far as packages ask."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.torch.submodule import Submodule

__all__ = ["PRINT_OPTS"]

PRINT_OPTS = Submodule(
    "Options of printing as they are by default.", edgeitems=3, linewidth=80, precision=4, sci_mode=None, threshold=1000
)


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the elements of a tensor as text."""
    return str(self)
