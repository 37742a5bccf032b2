"""`torch.serialization` beyond `rushlight.serialization`: types of arguments, which annotations name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO

from rushlight import Tensor
from rushlight.ir.type import Device

__all__ = ["DEFAULT_PROTOCOL", "FILE_LIKE", "MAP_LOCATION"]

DEFAULT_PROTOCOL = 2
FILE_LIKE = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Callable[[Tensor, str], Tensor] | Device | str | Mapping[str, str] | None
