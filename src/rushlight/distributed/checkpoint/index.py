"""The index of a checkpoint: which box of which tensor lies in which file, and the values that are no tensors.

    {"format": "rushlight shards", "version": 1, "objects": {"dict": [["epoch", 3]]},
     "tensors": {"weight": {"dtype": "F32", "shape": [4, 2], "pieces": [
         {"file": "shard-1f0c-00000.safetensors", "offsets": [0, 0], "sizes": [2, 2]}, ...]}}}

The file is JSON. A checkpoint is what its index says: shards that it does not name are no part of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rushlight.data.safetensors_file import CODES, DTYPES
from rushlight.data.source import opened
from rushlight.data.tree import Encoder, decode, to_text
from rushlight.distributed.checkpoint.flat import At, Path
from rushlight.distributed.tensor.layout import Box, box_at, count_of, lies_in, shape_of, starts_of, whole
from rushlight.ir.dtype import DType
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.support.frozen import frozen

FILE_NAME = "index.json"
_FORMAT = "rushlight shards"
_VERSION = 1
_MOST_BYTES = 1 << 30
_SHARD = re.compile(r"^shard-[0-9a-f]{12}-(?:([0-9a-f]{16})-)?\d{5,}\.safetensors$")


@frozen
class Piece:
    """A box of a tensor, and the file that has it under the tensor's key."""

    file: str
    key: str
    box: Box


@frozen
class Entry:
    """A tensor of a checkpoint. Its pieces do not overlap."""

    dtype: DType
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


@frozen(eq=False)
class Index:
    """What a checkpoint holds: tensors by name, and other values by name."""

    tensors: Mapping[str, Entry]
    objects: Mapping[str, object]
    serial: int = 0  # of saves to one folder a later one has a larger number
    paths: Mapping[str, Path] = MappingProxyType({})  # of names that are not keys of the state dict itself

    def text(self) -> str:
        """Return it as JSON. P006 for a value that JSON cannot hold."""
        encoded: dict[str, object] = {"format": _FORMAT, "version": _VERSION, "serial": self.serial}
        encoder = Encoder()
        encoded["objects"] = encoder.encode(dict(self.objects))
        encoded["paths"] = {name: [_part_to(part) for part in path] for name, path in self.paths.items()}
        encoded["tensors"] = {name: _encoded(entry) for name, entry in self.tensors.items()}
        return to_text(encoded)

    def files(self) -> set[str]:
        """Return the names of its shards."""
        return {piece.file for entry in self.tensors.values() for piece in entry.pieces}


def _encoded(entry: Entry) -> dict[str, object]:
    pieces = [
        {
            "file": piece.file,
            "key": piece.key,
            "offsets": list(starts_of(piece.box)),
            "sizes": list(shape_of(piece.box)),
        }
        for piece in entry.pieces
    ]
    return {"dtype": CODES[entry.dtype], "shape": list(entry.shape), "pieces": pieces}


def read_index(folder: str) -> Index:
    """Return the index of a folder. P001 where there is none, P002 where it is damaged, P005 where it is another's."""
    path = os.path.join(folder, FILE_NAME)
    if not os.path.isfile(path):
        fail("P001", f"checkpoint: there is no checkpoint in {folder}", hint=f"its {FILE_NAME} is written last")
    with opened(path) as source:
        require(source.size <= _MOST_BYTES, "P005", f"checkpoint: {path} is no index")
        text = source.read(0, source.size, "index")
    try:
        encoded = json.loads(text)
        known = isinstance(encoded, dict) and encoded.get("format") == _FORMAT and encoded.get("version") == _VERSION
        require(known, "P005", f"checkpoint: {path} is no index of shards that this version reads")
        tensors = {name: _decoded(name, entry) for name, entry in encoded["tensors"].items()}
        objects = _objects(decode(encoded["objects"], _no_tensor))
        paths = {name: tuple(map(_part_of, path)) for name, path in encoded.get("paths", {}).items()}
        return Index(tensors, objects, _serial(encoded), paths)
    except RushlightError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        raise error("P002", f"checkpoint: {path} is damaged") from cause


def _part_to(part: str | int | At) -> object:
    """Encode a part of a path: a key of text by itself, others with their kind."""
    return part if isinstance(part, str) else ["at", part.place] if isinstance(part, At) else ["key", part]


def _part_of(part: Any) -> str | int | At:
    if isinstance(part, str):
        return part
    kind, number = part
    if type(number) is not int or kind not in ("at", "key"):
        raise ValueError("a part of a path is a key, or a place")
    return At(number) if kind == "at" else number


def _serial(encoded: Mapping[str, object]) -> int:
    (serial,) = _numbers([encoded.get("serial", 0)])
    return serial


def _objects(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("values are a dict")
    return value


def _no_tensor(*_: object) -> object:
    raise ValueError("an index holds no tensors")


def _decoded(name: str, entry: Any) -> Entry:
    shape = _numbers(entry["shape"])
    pieces = tuple([_piece(piece, shape) for piece in entry["pieces"]])
    if sum([count_of(piece.box) for piece in pieces]) != count_of(whole(shape)):
        fail("P002", "checkpoint: the pieces of a tensor do not make up all of it", tensor=name[:100])
    return Entry(DTYPES[entry["dtype"]], shape, pieces)


def _piece(piece: Any, shape: tuple[int, ...]) -> Piece:
    file, key, box = piece["file"], piece["key"], box_at(_numbers(piece["offsets"]), _numbers(piece["sizes"]))
    if not is_plain(file) or not isinstance(key, str) or not lies_in(box, shape):
        raise ValueError("a piece is a box of its tensor, in a file of the folder")
    return Piece(file, key, box)


def is_plain(file: object) -> bool:
    """Return whether a text names a file of the folder, and no other place."""
    return isinstance(file, str) and file == os.path.basename(file) and file not in ("", ".", "..") and "\0" not in file


def serial_of_shard(name: str) -> int | None:
    """Return the serial of the save of a shard, 0 where its name has none; None for another file."""
    match = _SHARD.match(name)
    return None if match is None else int(match[1] or "0", 16)


def _numbers(numbers: Any) -> tuple[int, ...]:
    if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers):
        raise ValueError("sizes and offsets are whole numbers")
    return tuple(numbers)
