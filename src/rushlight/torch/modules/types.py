"""`torch.types`: aliases for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rushlight.ir.dtype import DType as _DType
from rushlight.ir.type import Device as _Device

__all__ = ["Device", "FileLike", "Number"]

Number = int | float | bool
Device = _Device | str | int | None
FileLike = str | os.PathLike[str]
_device, _dtype = _Device, _DType
_size = Sequence[int]
_int, _float, _bool = int, float, bool
