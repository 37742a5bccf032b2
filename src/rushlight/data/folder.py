"""Folders of weights as Hugging Face has them: one file, or several with an index that says which holds a name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from rushlight.data.source import opened
from rushlight.support.errors import RushlightError, error, require

SINGLE = ("model.safetensors", "pytorch_model.bin")
INDEXES = tuple([f"{name}.index.json" for name in SINGLE])
_MOST_INDEX = 100 << 20

Load = Callable[[str], Any]


def load_folder(folder: str, load: Load) -> dict[str, Any]:
    """Return the weights of a folder: `model.safetensors`, `pytorch_model.bin`, or what the index of either lists."""
    for single, index in zip(SINGLE, INDEXES, strict=True):
        path = os.path.join(folder, single)
        if os.path.isfile(path):
            return _weights(load(path), path)
        path = os.path.join(folder, index)
        if os.path.isfile(path):
            return load_index(path, load)
    hint = f"the folder should hold one of {', '.join((*SINGLE, *INDEXES))}"
    raise error("P001", f"load: there are no weights in the folder {folder}", hint=hint)


def load_index(path: str, load: Load) -> dict[str, Any]:
    """Return the weights that an index lists, each from the file that it names.

    P002 where a file lacks a name of the index, or the index names a file outside of its folder.
    """
    files = _files(path)
    weights: dict[str, Any] = {}
    for file in dict.fromkeys(files.values()):
        part = os.path.join(os.path.dirname(path), file)
        loaded = _weights(load(part), part)
        for name in [name for name, shard in files.items() if shard == file]:
            require(name in loaded, "P002", f"load: {part} lacks a tensor of the index", entry=name[:100])
            weights[name] = loaded[name]
    return {name: weights[name] for name in files}


def _files(path: str) -> dict[str, str]:
    with opened(path) as source:
        require(source.size <= _MOST_INDEX, "P005", f"load: {path} is no index", entry="weight_map")
        data = source.read(0, source.size, "weight_map")
    try:
        files = json.loads(data)["weight_map"]
        fits = isinstance(files, dict) and all(isinstance(file, str) for file in files.values())
    except RushlightError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as cause:
        raise error("P002", f"load: {path} is truncated or damaged", entry="weight_map") from cause
    require(fits, "P002", f"load: {path} is truncated or damaged", entry="weight_map")
    for name, file in files.items():
        plain = file == os.path.basename(file) and file not in ("", ".", "..") and "\0" not in file
        message = f"load: {path} names a file that is not in its folder"
        require(plain and file != os.path.basename(path), "P002", message, entry=name[:100], file=file[:100])
    return files


def _weights(value: Any, path: str) -> dict[str, Any]:
    require(isinstance(value, dict), "P005", f"load: {path} holds no dict of tensors")
    return value
