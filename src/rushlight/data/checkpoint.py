"""`save` and `load`: checkpoints in PyTorch's format or as safetensors, written whole or not at all.

A path that ends in `.safetensors` is written in that format: tensors are its entries, under the names that they have in
a flat state dict, and the structure around them is JSON in its metadata (`rushlight.data.tree`). Everything else is
PyTorch's archive, which `torch.load(weights_only=True)` reads. What is loaded is told by its first bytes. Loading runs
no code of a file's author.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from rushlight.data.archive import Archive
from rushlight.data.array_file import MAGIC, array_of_source, arrays_of
from rushlight.data.atomic_file import write_atomically
from rushlight.data.folder import load_folder, load_index
from rushlight.data.safetensors_file import SafetensorsFile, safetensors_parts
from rushlight.data.source import Path, Source, opened
from rushlight.data.torch_file import LEGACY_START, Place, Reader, checkpoint_parts, root_of
from rushlight.data.tree import Encoder, decode, to_text
from rushlight.eager.arguments import flag, place
from rushlight.eager.handle import make
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.type import Device
from rushlight.runtime.descriptor import extent
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.support.frozen import frozen

METADATA_KEY = "rushlight"  # one key alone, so that equal objects make equal files
_SUFFIX = ".safetensors"
_ENCODINGS = ("ascii", "ASCII", "bytes", "latin1", "latin-1", "utf-8", "utf8")
_PROTOCOLS = (b"\1", b"\2", b"\3", b"\4", b"\5")
_TAR_AT = 257  # where tar archives say that they are

MapLocation = Device | str | Mapping[str, str] | Callable[[Tensor, str], Tensor | None] | None


def save(
    obj: object,
    f: Path | BinaryIO,
    pickle_module: object = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, numbers, text, None, and dicts, lists and tuples of them to a file.

    The file appears, or takes the place of an earlier one, only when it is complete and on the disk. `f` may also be a
    file object open for writing bytes. P006 for what cannot be saved, P003 when the disk is full.

    >>> rl.save(model.state_dict(), "model.pt")
    """
    _check_pickle(pickle_module)
    if not flag(_use_new_zipfile_serialization):
        fail("A006", "save: PyTorch's format before 1.6 is read, and not written")
    named = isinstance(f, str | os.PathLike)
    safe = named and os.fspath(f).endswith(_SUFFIX)
    write_parts(_structured_parts(obj) if safe else tuple(checkpoint_parts(obj)), f)


def save_structure(obj: object, f: Path | BinaryIO) -> None:
    """Write an object as a safetensors file, whatever its name is."""
    write_parts(_structured_parts(obj), f)


def write_parts(parts: tuple[bytes | memoryview, ...], f: Path | BinaryIO) -> None:
    """Write bytes to a path, whole or not at all, or to an open file."""
    if isinstance(f, str | os.PathLike):
        write_atomically(os.path.realpath(f), parts)
    else:
        for part in parts:
            f.write(part)
        if hasattr(f, "flush"):  # another reader of the file finds all of it, as after PyTorch's `save`
            f.flush()


def _check_pickle(module: object) -> None:
    if module is not None and module is not pickle:
        fail("A006", "pickle_module: checkpoints are read and written without pickle", given=repr(module)[:60])


def _structured_parts(obj: object) -> tuple[bytes | memoryview, ...]:
    encoder = Encoder()
    encoded = encoder.encode(obj)
    encoder.settle()
    return safetensors_parts(encoder.tensors, {METADATA_KEY: to_text(encoded)})


@frozen
class _Options:
    place: Place
    mapped: bool
    all_classes: bool
    encoding: str


def load(
    f: Path | BinaryIO,
    map_location: MapLocation = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Return what a file holds: a checkpoint of PyTorch or of `save`, safetensors, `.npz`, `.npy`, a folder, an index.

    Nothing is ever executed: names that a pickle uses are looked up in a list (P009 for others). `weights_only=False`
    adds plain classes to it, such as `argparse.Namespace`. `mmap=True` shows the file's pages instead of copying them.
    P001 when there is no such file, P002 when it is damaged, P005 when it is of another format.

    >>> model.load_state_dict(rl.load("model.pt"))
    """
    _check_pickle(pickle_module)
    require(encoding in _ENCODINGS, "A002", "load: an encoding that is not known", encoding=str(encoding)[:40])
    everything = weights_only is not None and not flag(weights_only)
    options = _Options(_placer(map_location), mmap is not None and flag(mmap), everything, encoding)
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        if os.path.isdir(path):
            return load_folder(path, lambda part: _load_file(part, options))
        if path.endswith(".index.json"):
            return load_index(path, lambda part: _load_file(part, options))
    return _load_file(f, options)


def _load_file(f: Path | BinaryIO, options: _Options) -> Any:
    with opened(f, options.mapped) as source:
        start = source.read(0, min(source.size, 16), "header")
        if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            return _from_archive(source, options)
        if start.startswith(LEGACY_START):
            return Reader(source, options.place, options.all_classes, options.encoding).legacy()
        if start.startswith(MAGIC):
            return options.place(array_of_source(source), "cpu")
        if start[:1] == b"\x80" and start[1:2] in _PROTOCOLS and start[8:9] != b"{":
            hint = "write it with torch.save, or with rl.save"
            fail("P005", f"load: {source.name} is a plain pickle, which may run code", hint=hint)
        if source.size > _TAR_AT + 5 and source.read(_TAR_AT, 5, "header") == b"ustar":
            hint = "load it with PyTorch and save it again: torch.save(torch.load(path), path)"
            fail("P005", f"load: {source.name} is of PyTorch's format before 0.1.10", hint=hint)
        return _from_safetensors(source, options)


def _from_archive(source: Source, options: _Options) -> Any:
    archive = Archive(source)
    root = root_of(archive)
    if root is None and archive.entries and all(name.endswith(".npy") for name in archive.entries):
        return {name: options.place(tensor, "cpu") for name, tensor in arrays_of(archive).items()}
    require(root is not None, "P005", f"load: {source.name} is an archive without a checkpoint")
    if f"{root}/constants.pkl" in archive.entries:
        hint = "load the state_dict() of the module that it was made from"
        fail("P005", f"load: {source.name} is a TorchScript archive, which is code", hint=hint)
    return Reader(source, options.place, options.all_classes, options.encoding).archive(archive, str(root))


def _from_safetensors(source: Source, options: _Options) -> Any:
    file = SafetensorsFile(source)
    loaded: dict[str, Tensor] = {}
    shown: dict[tuple[str, bool, str], Tensor] = {}

    def tensor(name: str, requires_grad: bool = False, view: Any = None) -> Tensor:
        key = (name, requires_grad, str(view))
        if key not in shown:
            if name not in loaded:
                loaded[name] = options.place(file.read(name), "cpu")
            one = shared_view(loaded[name], view)
            shown[key] = one.requires_grad_() if requires_grad else one
        return shown[key]

    structure = file.metadata.get(METADATA_KEY)
    if structure is None:
        return {name: tensor(name) for name in file.names()}
    try:
        return decode(json.loads(structure), tensor)
    except RushlightError:
        raise
    except Exception as cause:
        raise error("P002", f"load: {source.name} is truncated or damaged", entry=METADATA_KEY) from cause


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
    return make(owner.backing, form, owner.offset + start)


def _placer(map_location: MapLocation) -> Place:
    """The function that moves a loaded tensor from the device that a file names to where it is wanted."""
    if map_location is not None and callable(map_location):
        return lambda tensor, name: _mapped(map_location(tensor, name), tensor, name)
    if isinstance(map_location, Mapping):
        places = {str(name): place(where) for name, where in map_location.items()}
        return lambda tensor, name: _moved(tensor, places.get(name) or _known(name))
    wanted = place(map_location)
    return lambda tensor, name: _moved(tensor, wanted or _known(name))


def _known(name: str) -> Device:
    """The device of a name; V001 where there is none, as for a GPU's."""
    try:
        return place(name) or Device("cpu")
    except RushlightError as cause:
        hint = "pass map_location='cpu'"
        raise error("V001", f"load: the file's tensors are of the device {name[:40]!r}", hint=hint) from cause


def _moved(tensor: Tensor, device: Device) -> Tensor:
    return tensor if device == tensor.device else tensor.to(device)


def _mapped(result: Any, tensor: Tensor, name: str) -> Tensor:
    if result is None:
        return _moved(tensor, _known(name))
    same = isinstance(result, Tensor) and result.dtype is tensor.dtype and result.form.shape == tensor.form.shape
    require(same and result.form.is_contiguous, "A002", "load: map_location gives a tensor that does not fit")
    return result
