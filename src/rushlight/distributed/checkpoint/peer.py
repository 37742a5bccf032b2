"""Checkpoints of `torch.distributed.checkpoint`: a pickle `.metadata` and files of archives, one for each piece.

The pickle is read without executing anything: its classes become records of their attributes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

from rushlight.data.checkpoint import load
from rushlight.data.source import opened
from rushlight.data.unpickler import Unpickler
from rushlight.data.vocabulary import TorchVocabulary
from rushlight.distributed.checkpoint.flat import At, Path
from rushlight.distributed.checkpoint.index import Entry, Index, Piece, is_plain
from rushlight.distributed.tensor.layout import (
    Box,
    box_at,
    common,
    count_of,
    lies_in,
    shape_of,
    starts_of,
    view_of,
    whole,
)
from rushlight.eager.memory import Array, array_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.support.frozen import frozen

METADATA = ".metadata"
_MOST_BYTES = 1 << 30
_MODULES = "torch.distributed.checkpoint."


class Record:
    """An object of a class of PyTorch's: its name and its attributes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.fields: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


class _Kind:
    """A class of PyTorch's, by name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Vocabulary(TorchVocabulary):
    """The names of checkpoints, and the classes of the metadata as records."""

    def find(self, module: str, name: str) -> object:
        if module.startswith(_MODULES) and name != "_MEM_FORMAT_ENCODING":
            return _Kind(name)
        return _ignored if f"{module}.{name}" in _IGNORED else super().find(module, name)

    def call(self, function: object, args: tuple[Any, ...]) -> object:
        if isinstance(function, _Kind) or function is _ignored:
            return None
        return super().call(function, args)

    def new(self, cls: object, args: tuple[Any, ...]) -> object:
        return Record(cls.name) if isinstance(cls, _Kind) else super().new(cls, args)

    def build(self, instance: object, state: object) -> None:
        if not isinstance(instance, Record):
            super().build(instance, state)
        elif isinstance(state, dict):
            instance.fields.update(state)
        elif isinstance(state, tuple | list):  # of the properties of a tensor, whose first one is the dtype
            instance.fields["dtype"] = state[0]


_ignored = object()
_IGNORED = (
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
)


@frozen
class _Place:
    """Bytes of a file, which are an archive of one value."""

    file: str
    start: int
    length: int


class PeerShards:
    """The folder of a checkpoint of PyTorch's, opened.

    P001 for a missing file, P002 where it is damaged, P009 where it names code.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        metadata = _metadata(folder)
        try:
            self._places = {_key(index): _place(info) for index, info in metadata.storage_data.items()}
            kinds = metadata.state_dict_metadata.items()
            tensors = {name: self._entry(name, kind) for name, kind in kinds if kind.kind == "TensorStorageMetadata"}
            others = {name: self._value((name, None)) for name, _ in kinds if name not in tensors}
        except RushlightError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as cause:
            raise error("P002", f"checkpoint: {folder}/{METADATA} is damaged") from cause
        self.index = Index(tensors, others, 0, _paths(metadata.fields.get("planner_data")))

    def open(self, names: Iterable[str]) -> None:
        """Check that the files of tensors are there."""
        for name in names:
            for piece in self.index.tensors[name].pieces:
                path = os.path.join(self.folder, piece.file)
                require(os.path.isfile(path), "P002", f"checkpoint: the file {path} is missing", tensor=name[:100])

    def read(self, name: str, box: Box, target: Array) -> None:
        """Fill an array with a box of a tensor."""
        for piece in self.index.tensors[name].pieces:
            shared = common(piece.box, box)
            if shared is not None:
                tensor = self._value((name, starts_of(piece.box)))
                fits = isinstance(tensor, Tensor) and tuple(tensor.shape) == shape_of(piece.box)
                require(fits, "P002", f"checkpoint: {piece.file} is not what the metadata mean", tensor=name[:100])
                view_of(target, shared, box)[...] = view_of(array_of(tensor), shared, piece.box)

    def _entry(self, name: str, kind: Record) -> Entry:
        boxes = [box_at(chunk.offsets, chunk.sizes) for chunk in kind.chunks]
        pieces = [Piece(self._places[name, starts_of(box)].file, name, box) for box in boxes if count_of(box)]
        shape, dtype = tuple(kind.size), kind.properties.dtype
        total = sum([count_of(box) for box in boxes])
        made_up = total == count_of(whole(shape)) and all(lies_in(box, shape) for box in boxes)
        if not made_up or not isinstance(dtype, DType):
            raise ValueError("pieces are boxes that make up their tensor")
        return Entry(dtype, shape, tuple(pieces))

    def _value(self, key: tuple[str, tuple[int, ...] | None]) -> Any:
        place = self._places[key]
        path = os.path.join(self.folder, place.file)
        with opened(path) as source:
            data = source.read(place.start, place.length, key[0])
        return load(io.BytesIO(data))


def _metadata(folder: str) -> Any:
    path = os.path.join(folder, METADATA)
    with opened(path) as source:
        require(source.size <= _MOST_BYTES, "P005", f"checkpoint: {path} is no metadata")
        data = source.read(0, source.size, METADATA)
        found = Unpickler(data, _Vocabulary(path, _no_storage, False, source.size), path, METADATA).load()
    require(isinstance(found, Record), "P005", f"checkpoint: {path} is no metadata of a checkpoint")
    return found


def _paths(planned: object) -> dict[str, Path]:
    """The paths of flat names, as the planner that saved has noted them."""
    found: dict[str, Path] = {}
    for name, parts in planned.items() if isinstance(planned, dict) else ():
        path = tuple([At(part) if type(part) is int else str(part) for part in parts])
        if path != (name,):
            found[str(name)] = path
    return found


def _no_storage(key: object) -> object:
    fail("P002", "checkpoint: metadata hold no storages", key=str(key)[:60])


def _key(index: Record) -> tuple[str, tuple[int, ...] | None]:
    offset = index.fields.get("offset")
    return index.fqn, None if offset is None else tuple(offset)


def _place(info: Record) -> _Place:
    file, start, length = info.relative_path, info.offset, info.length
    if not is_plain(file) or type(start) is not int or type(length) is not int or min(start, length) < 0:
        raise ValueError("a place is a range of a file of the folder")
    return _Place(file, start, length)
