"""Files of weights: mapped whole, and read by name. The format is https://huggingface.co/docs/safetensors."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DTYPES = {
    "bool": np.dtype(np.bool_),
    "bfloat16": np.dtype(np.uint16),  # numpy has none: the bits
    "float8_e4m3fn": np.dtype(np.uint8),
    "float8_e5m2": np.dtype(np.uint8),
}


def dtype_named(name: str) -> np.dtype[np.generic]:
    """numpy's dtype for one of the manifest's; bfloat16 and float8 are unsigned integers of their bits."""
    return DTYPES.get(name) or np.dtype(name)


class Weights:
    """A file in memory, as pages that are read when they are needed."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.whole: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        length = int.from_bytes(self._map[:8], "little")
        self._entries: dict[str, dict[str, list[int]]] = json.loads(self._map[8 : 8 + length])
        self._start = 8 + length

    def copy(self, name: str, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """A tensor of the file as an array of its own."""
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        data = self.whole[self._start + begin : self._start + end]
        return data.view(dtype).reshape(entry["shape"]).copy()
