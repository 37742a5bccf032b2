"""Checkpoints as JSON: numbers, text, None, lists, tuples, dicts, dtypes, devices, sizes and tensors.

JSON's own kinds stand for themselves; everything else is an object of one key, its tag:

    {"epoch": 3, "model": {"weight": <tensor>}}
    {"dict": [["epoch", 3], ["model", {"dict": [["weight", {"tensor": "model.weight"}]]}]]}

A tensor is named by its path; the same tensor in two places has one name. One that lies within the memory of another,
contiguous one of its dtype is a view of that one's elements, and shares them again when it is loaded:

    {"tensor": "weight", "view": [offset, [sizes], [strides]]}
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import BY_NAME, DType
from rushlight.ir.type import Device
from rushlight.support.errors import error, fail

_DEEPEST = 200  # containers within containers before it must be a cycle


class Encoder:
    """Turns an object into JSON; `tensors` collects its tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Handle] = {}
        self._met: list[tuple[dict[str, object], Handle, str]] = []

    def encode(self, value: object, path: tuple[str, ...] = ()) -> object:
        """Return the JSON of a value; P006 if a checkpoint cannot hold it."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Handle):
            return self._tensor(value, path)
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        return self._container(value, path)

    def _container(self, value: object, path: tuple[str, ...]) -> object:
        if len(path) > _DEEPEST:
            fail("P006", "save: containers are nested too deeply, or contain themselves", at=".".join(path[:3]))
        if isinstance(value, Mapping):
            tag = "ordered" if isinstance(value, OrderedDict) else "dict"
            pairs = [[self._key(key, path), self.encode(entry, (*path, str(key)))] for key, entry in value.items()]
            return {tag: pairs}
        if isinstance(value, list | tuple | set):
            encoded = [self.encode(member, (*path, str(index))) for index, member in enumerate(value)]
            if isinstance(value, list):
                return encoded
            tag = "size" if isinstance(value, Size) else "set" if isinstance(value, set) else "tuple"
            return {tag: encoded}
        where = ".".join(path) or "the object itself"
        hint = "save its state_dict()" if hasattr(value, "state_dict") else None
        raise error("P006", f"save: {type(value).__name__} at {where} cannot be saved", hint=hint)

    def _key(self, key: object, path: tuple[str, ...]) -> object:
        if key is None or isinstance(key, str | int | float | tuple):
            return self.encode(key, path)
        raise error("P006", f"save: a dict's key of type {type(key).__name__} cannot be saved", at=".".join(path))

    def _tensor(self, tensor: Handle, path: tuple[str, ...]) -> object:
        tensor.address()  # V003 without data
        wants_gradient = bool(getattr(tensor, "requires_grad", False))
        entry: dict[str, object] = {"tensor": "", "requires_grad": True} if wants_gradient else {"tensor": ""}
        self._met.append((entry, tensor, ".".join(path) or "tensor"))
        return entry

    def settle(self) -> None:
        """Name all tensors: a tensor that lies within another one becomes a view of it, the others get names."""
        owners: dict[int, list[Handle]] = {}
        owner_of: list[Handle] = []
        for _, tensor, _ in sorted(self._met, key=_width):
            owner = next((one for one in owners.get(id(tensor.backing), ()) if _holds(one, tensor)), None)
            if owner is None:
                owners.setdefault(id(tensor.backing), []).append(tensor)
        names: dict[int, str] = {}
        for _, tensor, path in self._met:
            owner = next((one for one in owners[id(tensor.backing)] if _holds(one, tensor)), tensor)
            owner_of.append(owner)
            if owner is tensor and id(tensor) not in names:
                names[id(tensor)] = self._free_name(path)
                self.tensors[names[id(tensor)]] = tensor
        for (entry, tensor, _), owner in zip(self._met, owner_of, strict=True):
            entry["tensor"] = names[id(owner)]
            if owner is not tensor:
                same = owner.form.shape == tensor.form.shape and owner.form.strides == tensor.form.strides
                if not same or owner.offset != tensor.offset:
                    offset = tensor.offset - owner.offset
                    entry["view"] = [offset, list(tensor.form.shape), list(tensor.form.strides)]

    def _free_name(self, name: str) -> str:
        free, count = name, 1
        while free in self.tensors or free == "__metadata__":
            count += 1
            free = f"{name}#{count}"
        return free


def _width(met: tuple[dict[str, object], Handle, str]) -> tuple[int, bool]:
    """Sort key of tensors: the largest in bytes first, and contiguous ones before others."""
    return -met[1].form.nbytes, not met[1].form.is_contiguous


def _holds(owner: Handle, tensor: Handle) -> bool:
    """Whether a tensor is another one, or lies within the elements of that one."""
    if owner is tensor:
        return True
    if owner.dtype is not tensor.dtype or not owner.form.numel or not tensor.form.numel:
        return False
    if owner.offset == tensor.offset and owner.form is tensor.form:
        return True
    begins = owner.form.is_contiguous and owner.offset <= tensor.offset
    return begins and tensor.offset + tensor.form.extent <= owner.offset + owner.form.numel


def to_text(encoded: object) -> str:
    """Return JSON as the shortest text."""
    return json.dumps(encoded, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def decode(encoded: object, tensor: Callable[[str, bool, Any], object]) -> object:
    """Return the value that `Encoder` encoded; `tensor` returns a tensor by name.

    ValueError where the JSON is not ours.
    """
    if isinstance(encoded, list):
        return [decode(member, tensor) for member in encoded]
    if not isinstance(encoded, dict):
        return encoded
    tag, content = next(iter(encoded.items()), ("nothing", None))
    if tag == "tensor":
        return tensor(str(content), bool(encoded.get("requires_grad")), encoded.get("view"))
    read = _READERS.get(tag)
    if read is None:
        raise ValueError(f"unknown tag {tag}")
    return read(decode(content, tensor))


def _freeze(key: object) -> object:
    return tuple(key) if isinstance(key, list) else key


def _device(text: str) -> Device:
    kind, _, index = text.partition(":")
    return Device(kind, int(index) if index else None)


_READERS: dict[str, Callable[[Any], object]] = {
    "dict": lambda items: {_freeze(key): value for key, value in items},
    "ordered": lambda items: OrderedDict([(_freeze(key), value) for key, value in items]),
    "tuple": tuple,
    "size": Size,
    "set": set,
    "float": float,
    "dtype": BY_NAME.__getitem__,
    "device": _device,
}
