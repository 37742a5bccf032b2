"""A writer of pickles that `torch.load(weights_only=True)` reads: values, containers and tensors, by PyTorch's names.

The names are text here; nothing of PyTorch is imported. Containers and tensors that are met again are the same object
when they are loaded. Storages lie outside of the pickle; `storages` says which.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.data.rebuilding import STORAGE_NAMES
from rushlight.data.reduction import Reductions, is_named, name_of
from rushlight.eager.handle import Handle, is_wrapper
from rushlight.eager.subclass import is_own_class
from rushlight.eager.tensor import Parameter
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.support.errors import error, fail
from rushlight.support.frozen import frozen

_DEEPEST = 200  # containers within containers


@frozen(eq=False)
class StoredRange:
    """The bytes of a storage that its tensors reach, under the name that they have in the file."""

    key: str
    owner: Handle
    start: int
    end: int
    dtype: DType | None  # None where its tensors have several, or one that only ranges of bytes can have


def stored_ranges(tensors: Sequence[Handle]) -> dict[int, StoredRange]:
    """Return the range of each storage, by the storage's identity, in the order in which they are met."""
    groups: dict[int, list[Handle]] = {}
    for tensor in tensors:
        groups.setdefault(id(tensor.backing), []).append(tensor)
    ranges: dict[int, StoredRange] = {}
    for number, (key, group) in enumerate(groups.items()):
        unit = max(tensor.dtype.itemsize for tensor in group)
        used = [tensor for tensor in group if tensor.form.numel]
        start = min((tensor.offset * tensor.dtype.itemsize for tensor in used), default=0) // unit * unit
        end = max((tensor.offset * tensor.dtype.itemsize + tensor.form.nbytes for tensor in used), default=start)
        dtypes = {tensor.dtype for tensor in group}
        only = next(iter(dtypes)) if len(dtypes) == 1 else None
        ranges[key] = StoredRange(str(number), group[0], start, end, only if only in STORAGE_NAMES else None)
    return ranges


_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, DType, Device)


def tensors_of(value: object, reductions: Reductions) -> list[Handle]:
    """Return the tensors with data in a value, each once, in the order in which they are met."""
    tensors: dict[int, Handle] = {}
    seen: set[int] = set()
    left: list[object] = [value]
    while left:
        one = left.pop()
        if isinstance(one, Handle) and id(one) not in seen:
            seen.add(id(one))
            if one.device.type != "meta" and not is_wrapper(one):
                one.address()  # V003 without data
                tensors[id(one)] = one
            left.append(reductions.state(one))
        elif not isinstance(one, _PLAIN) and not is_named(one) and id(one) not in seen:
            seen.add(id(one))
            left.extend(reversed(_parts_of(one, reductions)))
    return list(tensors.values())


def _parts_of(value: object, reductions: Reductions) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple | set) else reductions.parts(value)


def _integer(value: int) -> bytes:
    """An integer as a pickle has it. Errors: P006 for one of more than 255 bytes."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -1 << 31 <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if len(data) > 255:
        fail("P006", "save: an integer of more than 255 bytes cannot be saved")
    return b"\x8a" + bytes([len(data)]) + data


class Pickler:
    """Writes one value; `pickled` returns its bytes."""

    def __init__(self, ranges: Mapping[int, StoredRange], reductions: Reductions) -> None:
        self._ranges = ranges
        self._reductions = reductions
        self._out: list[bytes] = [b"\x80\x02"]
        self._memo: dict[Any, int] = {}
        self._kept: list[object] = []  # so that no identity is used twice

    def pickled(self, value: object) -> bytes:
        """Return the pickle of a value; P006 for what a checkpoint cannot hold."""
        self._value(value, ())
        return b"".join([*self._out, b"."])

    def _put(self, *parts: bytes) -> None:
        self._out.extend(parts)

    def _again(self, key: object) -> bool:
        """Write a reference to what was written before, if it was."""
        index = self._memo.get(key)
        if index is None:
            return False
        self._put(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))
        return True

    def _remember(self, key: object, value: object = None) -> None:
        index = self._memo[key] = len(self._memo)
        self._kept.append(value)
        self._put(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))

    def _global(self, name: str) -> None:
        if not self._again(("global", name)):
            module, _, attribute = name.rpartition(".")
            self._put(f"c{module}\n{attribute}\n".encode())
            self._remember(("global", name))

    def _text(self, value: str) -> None:
        if not self._again(("text", value)):
            data = value.encode("utf-8", "surrogatepass")
            self._put(b"X" + struct.pack("<I", len(data)) + data)
            self._remember(("text", value))

    def _value(self, value: Any, path: tuple[str, ...]) -> None:
        if len(path) > _DEEPEST:
            fail("P006", "save: containers are nested too deeply, or contain themselves", at=".".join(path[:3]))
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool):
            self._put({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, int):
            self._put(_integer(int(value)))
        elif isinstance(value, float):
            self._put(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            self._text(str(value))
        elif isinstance(value, Handle):
            self._tensor(value, path)
        else:
            self._other(value, path)

    def _other(self, value: object, path: tuple[str, ...]) -> None:
        if isinstance(value, DType):
            self._global(f"torch.{value.name}")
        elif isinstance(value, Device):
            self._call("torch.device", (str(value),), path)
        elif isinstance(value, complex):
            self._call("__builtin__.complex", (value.real, value.imag), path)
        elif isinstance(value, bytes):
            self._call("_codecs.encode", (value.decode("latin1"), "latin1"), path)
        elif isinstance(value, set):
            self._call("__builtin__.set", (list(value),), path)
        elif isinstance(value, Size):
            self._call("torch.Size", (tuple(value),), path)
        elif isinstance(value, tuple):
            self._tuple(value, path)
        elif isinstance(value, list):
            self._list(value, path)
        elif isinstance(value, Mapping):
            self._mapping(value, path)
        else:
            self._object(value, path)

    def _object(self, value: object, path: tuple[str, ...]) -> None:
        """A class or function by its name, an object by what it is made from."""
        where = ".".join(path) or "the object itself"
        if is_named(value):
            self._global(name_of(value, where))
        elif not self._again(id(value)):
            made = self._reductions.of(value, where)
            self._global(name_of(made.function, where))
            self._arguments(made.args, path)
            self._put(b"\x81" if made.is_new else b"R")
            self._remember(id(value), value)
            self._members(made.members, path)
            self._pairs(made.pairs, path)
            if made.state is not None:
                self._value(made.state, path)
                self._put(b"b")

    def _call(self, name: str, args: tuple[object, ...], path: tuple[str, ...]) -> None:
        self._global(name)
        self._arguments(args, path)
        self._put(b"R")

    def _arguments(self, args: Sequence[object], path: tuple[str, ...]) -> None:
        if not args:
            self._put(b")")
            return
        self._put(b"(")
        for arg in args:
            self._value(arg, path)
        self._put(b"t")

    def _tuple(self, value: tuple[object, ...], path: tuple[str, ...]) -> None:
        if self._again(id(value)):
            return
        self._put(b"(" if value else b")")
        for index, member in enumerate(value):
            self._value(member, (*path, str(index)))
        if value:
            self._put(b"t")
            self._remember(id(value), value)

    def _list(self, value: list[object], path: tuple[str, ...]) -> None:
        if self._again(id(value)):
            return
        self._put(b"]")
        self._remember(id(value), value)
        self._members(value, path)

    def _members(self, members: Sequence[object], path: tuple[str, ...]) -> None:
        if members:
            self._put(b"(")
            for index, member in enumerate(members):
                self._value(member, (*path, str(index)))
            self._put(b"e")

    def _pairs(self, pairs: Sequence[tuple[object, object]], path: tuple[str, ...]) -> None:
        if pairs:
            self._put(b"(")
            for key, member in pairs:
                self._key(key, path)
                self._value(member, (*path, str(key)))
            self._put(b"u")

    def _mapping(self, value: Mapping[Any, object], path: tuple[str, ...]) -> None:
        if self._again(id(value)):
            return
        ordered = isinstance(value, OrderedDict)
        if ordered:
            self._call("collections.OrderedDict", (), path)
        elif isinstance(value, Counter):
            self._call("collections.Counter", ({},), path)
        else:
            self._put(b"}")
        self._remember(id(value), value)
        self._pairs(list(value.items()), path)
        if ordered and vars(value):
            self._mapping(vars(value), (*path, "attributes"))
            self._put(b"b")

    def _key(self, key: object, path: tuple[str, ...]) -> None:
        if not (key is None or isinstance(key, str | int | float | complex | bytes | tuple | DType | Device)):
            raise error("P006", f"save: a dict's key of type {type(key).__name__} cannot be saved", at=".".join(path))
        self._value(key, path)

    def _tensor(self, tensor: Handle, path: tuple[str, ...]) -> None:
        if self._again(id(tensor)):
            return
        wanted = bool(getattr(tensor, "requires_grad", False))
        attributes = dict(vars(tensor))
        own = is_own_class(type(tensor)) and not is_wrapper(tensor)
        if isinstance(tensor, Parameter) and (own or issubclass(type(tensor), Parameter)):
            self._global("torch._utils._rebuild_parameter" + ("_with_state" if attributes else ""))
            self._put(b"(")
            self._plain(tensor, False, path)
            self._value(wanted, path)
            self._call("collections.OrderedDict", (), path)
            if attributes:
                self._mapping(attributes, (*path, "attributes"))
            self._put(b"tR")
        elif own and not attributes:
            self._plain(tensor, wanted, path)
        else:
            name = "torch.Tensor" if own else name_of(type(tensor), ".".join(path) or "the object itself")
            self._with_state(tensor, name, wanted, path)
        self._remember(id(tensor), tensor)

    def _with_state(self, tensor: Handle, name: str, wanted: bool, path: tuple[str, ...]) -> None:
        """A tensor of a class, and what a program has added to it, as `Tensor.__reduce_ex__` of PyTorch.

        One that holds others says what it looks like, in place of elements.
        """
        self._global("torch._tensor._rebuild_from_type_v2")
        self._put(b"(")
        if is_wrapper(tensor):
            self._global("torch._utils._rebuild_wrapper_subclass")
            self._global(name)
            self._put(b"(")
            self._global(name)
            for value in (tensor.dtype, tuple(tensor.form.shape), tuple(tensor.form.strides), tensor.offset):
                self._value(value, path)
            self._call("torch.serialization._get_layout", ("torch.strided",), path)
            for value in (tensor.device, wanted):
                self._value(value, path)
            self._put(b"t")
        else:
            self._rebuilder(tensor)
            self._global(name)
            self._rebuilder_arguments(tensor, wanted, path)
        self._value(self._reductions.state(tensor), (*path, "attributes"))
        self._put(b"tR")

    def _plain(self, tensor: Handle, wanted: bool, path: tuple[str, ...]) -> None:
        self._rebuilder(tensor)
        self._rebuilder_arguments(tensor, wanted, path)
        self._put(b"R")

    def _rebuilder(self, tensor: Handle) -> None:
        if tensor.device.type == "meta":
            self._global("torch._utils._rebuild_meta_tensor_no_storage")
        elif self._ranges[id(tensor.backing)].dtype is None:
            self._global("torch._utils._rebuild_tensor_v3")
        else:
            self._global("torch._utils._rebuild_tensor_v2")

    def _rebuilder_arguments(self, tensor: Handle, wanted: bool, path: tuple[str, ...]) -> None:
        shape, strides = tuple(tensor.form.shape), tuple(tensor.form.strides)
        if tensor.device.type == "meta":
            self._arguments((tensor.dtype, shape, strides, wanted), path)
            return
        stored = self._ranges[id(tensor.backing)]
        kind = "torch.storage.UntypedStorage" if stored.dtype is None else f"torch.{STORAGE_NAMES[stored.dtype]}"
        width = 1 if stored.dtype is None else stored.dtype.itemsize
        offset = tensor.offset - stored.start // tensor.dtype.itemsize if tensor.form.numel else 0
        self._put(b"((")
        self._text("storage")
        self._global(kind)
        self._text(stored.key)
        self._text(str(tensor.device))  # where loading brings it to, unless that is told another place
        self._put(_integer((stored.end - stored.start) // width))
        self._put(b"tQ")
        for value in (offset, shape, strides, wanted):
            self._value(value, path)
        self._call("collections.OrderedDict", (), path)
        if stored.dtype is None:
            self._global(f"torch.{tensor.dtype.name}")
        self._put(b"t")
