"""Reading boxes of tensors out of shards: of each only what is wanted, straight into the memory that wants it."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rushlight.data.safetensors_file import Placed, SafetensorsFile
from rushlight.data.source import opened
from rushlight.distributed.checkpoint.index import Entry, Index, Piece
from rushlight.distributed.tensor.layout import Box, common, count_of, shape_of, view_of, within
from rushlight.eager.memory import Array
from rushlight.support.errors import error, fail, require
from rushlight.support.frozen import frozen


@frozen(eq=False)
class Stored:
    """The place of a piece's elements: row by row from `start` on in the file of a path."""

    path: str
    start: int
    box: Box


class Shards:
    """The folder of a checkpoint, opened: what its index names is there, of the right sizes.

    P002 for a shard that is missing, truncated or of another checkpoint.
    """

    def __init__(self, folder: str, index: Index) -> None:
        self.folder = folder
        self.index = index
        self._stored: dict[tuple[str, str], Stored] = {}
        self._places: dict[str, Mapping[str, Placed]] = {}

    def open(self, names: Iterable[str]) -> None:
        """Find the pieces of tensors, without reading them."""
        for name in names:
            entry = self.index.tensors[name]
            for piece in entry.pieces:
                self._stored[piece.file, piece.key] = self._find(entry, piece)

    def read(self, name: str, box: Box, target: Array) -> None:
        """Fill an array with a box of a tensor, which `open` has found."""
        left = count_of(box)
        for piece in self.index.tensors[name].pieces:
            shared = common(piece.box, box)
            if shared is not None:
                _copy(self._stored[piece.file, piece.key], shared, view_of(target, shared, box))
                left -= count_of(shared)
        require(left == 0, "P002", f"checkpoint: the pieces of {name} do not make up all of it")

    def _find(self, entry: Entry, piece: Piece) -> Stored:
        path = os.path.join(self.folder, piece.file)
        if piece.file not in self._places:
            require(os.path.isfile(path), "P002", f"checkpoint: the shard {path} is missing", tensor=piece.key[:100])
            with opened(path) as source:
                self._places[piece.file] = SafetensorsFile(source).places()
        place = self._places[piece.file].get(piece.key)
        if place is None or place[:2] != (entry.dtype, shape_of(piece.box)):
            fail("P002", f"checkpoint: {path} is not the shard that the index means", tensor=piece.key[:100])
        return Stored(path, place[2], piece.box)


def _copy(stored: Stored, shared: Box, target: Array) -> None:
    """Read the part of a piece that is wanted: at once where its elements follow each other, else by mapped pages."""
    itemsize = target.dtype.itemsize
    part = within(shared, stored.box)
    sizes = shape_of(stored.box)
    try:
        with open(stored.path, "rb", buffering=0) as file:
            if target.flags.c_contiguous and _follow(part, sizes):
                row = math.prod(sizes[1:])
                skipped = part[0].start * row if part else 0
                file.seek(stored.start + skipped * itemsize)
                _fill(file, target.reshape(-1).view(np.uint8).data, stored.path)
            else:
                pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                source: Array = np.ndarray(sizes, target.dtype, pages, stored.start)
                target[...] = view_of(source, shared, stored.box)
    except OSError as cause:
        raise error("P001", f"checkpoint: {stored.path} cannot be read: {cause.strerror}") from cause


def _follow(part: tuple[slice, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether a part of an array is some of its first dim and all of the others."""
    return all(one.stop - one.start == size for one, size in zip(part[1:], sizes[1:], strict=True))


def _fill(file: Any, target: memoryview, path: str) -> None:
    done = 0
    while done < len(target):
        got = file.readinto(target[done:])
        require(got, "P002", f"checkpoint: {path} is truncated")
        done += got
