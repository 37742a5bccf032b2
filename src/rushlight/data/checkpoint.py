"""`save` and `load`: state dicts in one safetensors file, written whole or not at all.

The tensors are entries of the file, under the names that they have in a flat state dict, so that other programs can
read them; the structure around them is JSON in the file's metadata (`rushlight.data.tree`). Nothing is pickled: loading
a file runs no code of its author's.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Generator, Mapping
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from rushlight.data.tree import Encoder, decode, to_text
from rushlight.eager.arguments import place
from rushlight.eager.creation import from_numpy
from rushlight.eager.handle import Handle, make
from rushlight.eager.memory import array_of
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
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
from rushlight.ir.type import Device
from rushlight.runtime.descriptor import extent
from rushlight.support.errors import RushlightError, error, fail, require

METADATA_KEY = "rushlight"  # one key alone, so that equal objects make equal files
_ALIGNMENT = 64  # of the first tensor's data in the file: eight would do for the format

# The format's names of our dtypes; float8 has none here yet.
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
}
DTYPES: dict[str, DType] = {code: dtype for dtype, code in CODES.items()}

Path = str | os.PathLike[str]
MapLocation = Device | str | Mapping[str, str] | Callable[[Tensor, str], Tensor | None] | None


def save(obj: object, f: Path | BinaryIO) -> None:
    """Write tensors, numbers, text, None, and dicts, lists and tuples of them to a file.

    The file appears, or takes the place of an earlier one, only when it is complete and on the disk. `f` may also be a
    file object open for writing bytes. P006 for what cannot be saved, P003 when the disk is full.
    """
    encoder = Encoder()
    encoded = encoder.encode(obj)
    encoder.settle()
    text = to_text(encoded)
    tensors = encoder.tensors
    header = _header(tensors, {METADATA_KEY: text})
    parts = (header, *[_bytes_of(tensors[name]) for name in _file_order(tensors)])
    if isinstance(f, str | os.PathLike):
        _write_atomically(os.path.realpath(f), parts)
    else:
        for part in parts:
            f.write(part)


def load(f: Path | BinaryIO, map_location: MapLocation = None, *, weights_only: bool | None = None) -> Any:
    """Return what `save` wrote; of another program's safetensors file, its dict of tensors.

    P001 when there is no such file, P002 when it is truncated, P005 when it is of another format. Nothing but data is
    ever read, so `weights_only=False` is refused.
    """
    if weights_only is False:
        fail("A006", "load: weights_only=False would run code from the file", hint="leave weights_only out")
    move = _mover(map_location)
    with _opened(f) as (metadata, names, read):
        loaded: dict[str, Tensor] = {}
        found: dict[tuple[str, bool, str], Tensor] = {}

        def tensor(name: str, requires_grad: bool = False, view: Any = None) -> Tensor:
            key = (name, requires_grad, str(view))
            if key not in found:
                if name not in loaded:
                    loaded[name] = move(read(name))
                shown = shared_view(loaded[name], view)
                found[key] = shown.requires_grad_() if requires_grad else shown
            return found[key]

        structure = metadata.get(METADATA_KEY)
        if structure is None:
            return {name: tensor(name) for name in names}
        try:
            return decode(json.loads(structure), tensor)
        except RushlightError:
            raise
        except Exception as cause:
            raise error("P002", "load: the file's structure is damaged", file=_name(f)) from cause


def shared_view(owner: Tensor, view: Any) -> Tensor:
    """Return a new tensor on the storage of a loaded one, or a view `[offset, sizes, strides]` of it.

    ValueError where the view reaches beyond the elements.
    """
    form, start = owner.form, 0
    if view is not None:
        start, sizes, strides = view
        numbers = (start, *sizes, *strides)
        if len(sizes) != len(strides) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a view is of numbers from 0 on")
        form = form_of(tuple(sizes), owner.dtype, owner.device, tuple(strides))
        if start + extent(tuple(sizes), tuple(strides)) > owner.form.numel:
            raise ValueError("a view reaches beyond its tensor")
    return make(owner.storage, form, owner.offset + start)


def _header(tensors: Mapping[str, Handle], metadata: dict[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name in _file_order(tensors):
        tensor = tensors[name]
        if tensor.dtype is complex128:
            fail("P006", f"save: {name} is complex128, which the file format lacks", hint="save view_as_real() of it")
        begin, end = end, end + tensor.form.numel * tensor.dtype.itemsize
        entries[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = to_text(entries).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _file_order(tensors: Mapping[str, Handle]) -> list[str]:
    """Widest elements first, so that every tensor is aligned; then by name."""
    return sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))


def _bytes_of(tensor: Handle) -> memoryview:
    """Return a tensor's elements in row-major order: its own memory where that is their order there."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1).view(np.uint8).data


def _write_atomically(path: str, parts: tuple[bytes | memoryview, ...]) -> None:
    """Write a temporary file beside the target, sync it and rename it to the target.

    A target that is no regular file (a pipe, a device) is written directly.
    """
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb", buffering=0) as special:
                _write_all(special.fileno(), parts)
            return
        folder, name = os.path.split(path)
        _remove_left(folder)
        temporary = os.path.join(folder, f".{name}.{_host()}-{os.getpid()}-{secrets.token_hex(6)}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
            try:
                _write_all(descriptor, parts)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as cause:
        raise error("P003", f"save: {path} could not be written: {cause.strerror}") from cause


_LEFT = re.compile(r"^\..+\.(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{12}\.tmp$")
_LEFT_SECONDS = 60.0


def _host() -> str:
    """Return this machine's name as eight letters: process numbers of other machines mean nothing here."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}" if hasattr(os, "uname") else "00000000"


def _remove_left(folder: str) -> None:
    """Remove unfinished files from a folder that processes left when they were killed while saving."""
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            found = _LEFT.match(entry.name) if entry.name.endswith(".tmp") else None
            if found is None or found["host"] != _host() or _lives(int(found["process"])):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_SECONDS:
                os.unlink(entry.path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _write_all(descriptor: int, parts: tuple[bytes | memoryview, ...]) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def _sync_folder(folder: str) -> None:
    """Put the rename itself on the disk, where the system can; the file is whole either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


Contents = tuple[Mapping[str, str], list[str], Callable[[str], Tensor]]


@contextlib.contextmanager
def _opened(f: Path | BinaryIO) -> Generator[Contents]:
    """Give a file's metadata, the names of its tensors, and the function that reads one."""
    if isinstance(f, str | os.PathLike) and os.path.exists(f) and not os.path.isdir(f):
        regular = stat.S_ISREG(os.stat(f).st_mode)  # who opens a pipe waits for a writer
        require(regular, "P001", f"load: {_name(f)} is not a regular file")
    try:
        if not isinstance(f, str | os.PathLike):
            yield _from_bytes(f.read(), _name(f))
            return
        with open(f, "rb") as file:
            _check_start(_name(f), file)
        with safe_open(os.fspath(f), framework="numpy") as handle:
            yield handle.metadata() or {}, list(handle.keys()), lambda name: from_numpy(handle.get_tensor(name))
    except FileNotFoundError as cause:
        raise error("P001", f"load: there is no file {_name(f)}") from cause
    except SafetensorError as cause:
        _damaged(_name(f), cause)
    except OSError as cause:
        if cause.errno is None or cause.errno == errno.EIO:
            _damaged(_name(f), cause)
        raise error("P001", f"load: {_name(f)} cannot be read: {cause.strerror}") from cause


def _from_bytes(data: object, name: str) -> Contents:
    if not isinstance(data, bytes):
        fail("A001", "load: a path, or a file that is open for reading bytes", file=name)
    entries = dict(cast(list[tuple[str, dict[str, Any]]], deserialize(data)))
    size = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})

    def read(name: str) -> Tensor:
        entry = entries[name]
        kind = DTYPES[entry["dtype"]].numpy
        return from_numpy(np.frombuffer(bytearray(entry["data"]), kind).reshape(entry["shape"]))

    return metadata, list(entries), read


def _check_start(name: str, file: BinaryIO) -> None:
    """P005 where the first bytes are of something else: the library's own message would say that it is damaged."""
    start = file.read(16)
    if start[:4] == b"PK\x03\x04" or start[:1] == b"\x80":
        hint = "convert it where torch is installed: safetensors.torch.save_file(state_dict, path)"
        fail("P005", f"load: {name} is a pickle of PyTorch's, which may run code", hint=hint)
    size = int.from_bytes(start[:8], "little")
    foreign = len(start) > 8 and (size > 100 << 20 or start[8:9] != b"{")
    require(not foreign, "P005", f"load: {name} is not a safetensors file")


def _damaged(name: str, cause: Exception) -> NoReturn:
    raise error("P002", f"load: {name} is truncated or damaged", reason=str(cause)) from cause


def _name(f: Path | BinaryIO) -> str:
    return os.fspath(f) if isinstance(f, str | os.PathLike) else getattr(f, "name", type(f).__name__)


def _mover(map_location: MapLocation) -> Callable[[Tensor], Tensor]:
    if map_location is None:
        return lambda tensor: tensor
    if callable(map_location):
        return lambda tensor: _first(map_location(tensor, "cpu"), tensor)
    if isinstance(map_location, Mapping):
        map_location = map_location.get("cpu", "cpu")
    device = place(map_location)
    return lambda tensor: tensor.to(device)


def _first(mapped: Tensor | None, tensor: Tensor) -> Tensor:
    return tensor if mapped is None else mapped
