"""Folders of whole tensors in files of safetensors, with an index of which file has which: as Hugging Face has them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from rushlight.data.safetensors_file import SafetensorsFile
from rushlight.data.source import opened
from rushlight.distributed.checkpoint.index import Entry, Index, Piece, is_plain, serial_of_shard
from rushlight.distributed.tensor.layout import whole
from rushlight.support.errors import error, fail, require

MODELS_INDEX = "model.safetensors.index.json"
_MOST_BYTES = 1 << 30


def has_models(folder: str) -> bool:
    """Whether a folder holds files of safetensors."""
    return os.path.isdir(folder) and bool(_files(folder))


def models_index(folder: str) -> Index:
    """Return the index of a folder: of the files that its own names, or of all. P002 where one is damaged."""
    path = os.path.join(folder, MODELS_INDEX)
    named = _named(path) if os.path.isfile(path) else None
    files = set(named.values()) if named else _files(folder)
    tensors: dict[str, Entry] = {}
    for file in sorted(files):
        where = os.path.join(folder, file)
        require(os.path.isfile(where), "P002", f"checkpoint: the file {where} is missing")
        with opened(where) as source:
            for name, (dtype, shape, _) in SafetensorsFile(source).places().items():
                if named is None or named.get(name) == file:
                    tensors[name] = Entry(dtype, tuple(shape), (Piece(file, name, whole(tuple(shape))),))
    missing = [name for name in named or () if name not in tensors]
    require(not missing, "P002", f"checkpoint: files of {folder} lack tensors of its index", missing=missing[:5])
    return Index(tensors, {})


def _files(folder: str) -> set[str]:
    """The files of safetensors that are no shards of ours, which are nothing without their index."""
    return {name for name in os.listdir(folder) if name.endswith(".safetensors") and serial_of_shard(name) is None}


def _named(path: str) -> Mapping[str, str]:
    with opened(path) as source:
        require(source.size <= _MOST_BYTES, "P005", f"checkpoint: {path} is no index")
        text = source.read(0, source.size, "index")
    try:
        found: Any = json.loads(text)["weight_map"]
        if not all(is_plain(file) for file in found.values()):
            raise ValueError("a file is one of the folder")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        raise error("P002", f"checkpoint: {path} is damaged") from cause
    if not found:
        fail("P002", f"checkpoint: {path} names no tensors")
    return found
