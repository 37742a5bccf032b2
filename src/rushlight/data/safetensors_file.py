"""Safetensors files: a header of JSON that tells each tensor's dtype, shape and place, then the tensors' bytes.

The format is https://huggingface.co/docs/safetensors: eight bytes of the header's length, the header, and data without
gaps or overlaps, little-endian and row-major.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.data.rebuilding import shown_whole
from rushlight.data.source import Source
from rushlight.data.tree import to_text
from rushlight.eager.handle import Handle, make
from rushlight.eager.memory import MOST_DIMS, array_of
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.support.errors import error, fail, require

_ALIGNMENT = 64  # of the first tensor's data in the file: eight would do for the format
_MOST_HEADER = 100 << 20  # bytes, as the format has it
_METADATA = "__metadata__"

# The format's names of our dtypes; it has none for complex128.
CODES: dict[DType, str] = {
    bool_: "BOOL",
    uint8: "U8",
    int8: "I8",
    uint16: "U16",
    int16: "I16",
    uint32: "U32",
    int32: "I32",
    uint64: "U64",
    int64: "I64",
    float16: "F16",
    bfloat16: "BF16",
    float32: "F32",
    float64: "F64",
    complex64: "C64",
    float8_e4m3fn: "F8_E4M3",
    float8_e5m2: "F8_E5M2",
}
DTYPES: dict[str, DType] = {code: dtype for dtype, code in CODES.items()}
_ABSENT = ("F8_E8M0", "F4", "F6_E2M3", "F6_E3M2")

Placed = tuple[DType, tuple[int, ...], int]


class SafetensorsFile:
    """The tensors of a file by name, and its metadata.

    P002 where the header is damaged, P005 where the file is of another format.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        start = source.read(0, min(16, source.size), "header")
        size = int.from_bytes(start[:8], "little")
        foreign = len(start) > 8 and (size > _MOST_HEADER or start[8:9] != b"{")
        require(not foreign, "P005", f"load: {source.name} is not a safetensors file")
        self._data = 8 + size
        try:
            header = json.loads(source.read(8, size, "header"))
        except (ValueError, RecursionError) as cause:
            if hasattr(cause, "code"):
                raise
            raise error("P002", f"load: {source.name} is truncated or damaged", entry="header") from cause
        self._require(isinstance(header, dict), "header")
        metadata = header.pop(_METADATA, {})
        self._require(isinstance(metadata, dict), _METADATA)
        self._require(all(isinstance(value, str) for value in metadata.values()), _METADATA)
        self.metadata: dict[str, str] = metadata
        self._placed: dict[str, Placed] = {name: self._place(name, entry) for name, entry in header.items()}
        self._require(self._data + self._end() == source.size, "data")

    def _require(self, condition: object, entry: str) -> None:
        require(condition, "P002", f"load: {self.source.name} is truncated or damaged", entry=entry[:100])

    def _place(self, name: str, entry: Any) -> Placed:
        fits = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        self._require(fits, name)
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if code in _ABSENT:
            fail("A006", f"load: the dtype {code} is not supported", entry=name[:100])
        valid = isinstance(code, str) and code in DTYPES
        numbers = (
            isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2 and len(shape) <= MOST_DIMS
        )
        self._require(
            valid and numbers and all(type(one) is int and 0 <= one < 1 << 62 for one in shape + offsets), name
        )
        dtype = DTYPES[code]
        size = math.prod(shape) * dtype.itemsize
        self._require(offsets[1] - offsets[0] == size, name)
        self.source.check(self._data + offsets[0], size, name[:100])
        return dtype, tuple(shape), offsets[0]

    def _end(self) -> int:
        """Where the data end, which must lie without gaps or overlaps."""
        end = 0
        for name, (dtype, shape, start) in sorted(self._placed.items(), key=lambda pair: (pair[1][2], _size(pair[1]))):
            self._require(start == end, name)
            end = start + math.prod(shape) * dtype.itemsize
        return end

    def names(self) -> list[str]:
        """Return the names of the tensors, in the file's order."""
        return list(self._placed)

    def places(self) -> dict[str, Placed]:
        """Return the dtype and shape of each tensor, and where in the file its elements begin."""
        return {name: (dtype, shape, self._data + start) for name, (dtype, shape, start) in self._placed.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor."""
        dtype, shape, start = self._placed[name]
        size = math.prod(shape) * dtype.itemsize
        storage = self.source.storage(self._data + start, size, name)
        whole = shown_whole(storage, dtype)
        return make(whole.backing, form_of(shape, dtype), whole.offset)


def _size(placed: Placed) -> int:
    return math.prod(placed[1]) * placed[0].itemsize


def safetensors_parts(tensors: Mapping[str, Handle], metadata: Mapping[str, str]) -> tuple[bytes | memoryview, ...]:
    """Return the bytes of a file part by part; P006 for complex128, which the format lacks."""
    types = {name: (tensor.dtype, tuple([int(size) for size in tensor.shape])) for name, tensor in tensors.items()}
    header, order = safetensors_header(types, metadata)
    return (header, *[_bytes_of(tensors[name]) for name in order])


def safetensors_header(
    types: Mapping[str, tuple[DType, tuple[int, ...]]], metadata: Mapping[str, str]
) -> tuple[bytes, list[str]]:
    """Return what comes before the elements of tensors in a file, and the order of these."""
    entries: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    end = 0
    order = _file_order(types)
    for name in order:
        dtype, shape = types[name]
        if dtype not in CODES:
            hint = "save view_as_real() of it, or to a path that does not end in .safetensors"
            fail("P006", f"save: {name} is {dtype.name}, which the file format lacks", hint=hint)
        begin, end = end, end + math.prod(shape) * dtype.itemsize
        entries[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = to_text(entries).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, order


def _file_order(types: Mapping[str, tuple[DType, tuple[int, ...]]]) -> list[str]:
    """Widest elements first, so that every tensor is aligned; then by name."""
    return sorted(types, key=lambda name: (-types[name][0].itemsize, name))


def _bytes_of(tensor: Handle) -> memoryview:
    """Return a tensor's elements in row-major order: its own memory where that is their order there."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1).view(np.uint8).data
