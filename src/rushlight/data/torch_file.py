"""PyTorch's checkpoints: archives of a pickle and storages, and the older files of pickles one after the other.

Both are read by an unpickler that executes nothing (`rushlight.data.unpickler`), and the first kind is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight.data.archive import Archive, Part, archive_parts
from rushlight.data.pickler import Pickler, StoredRange, stored_ranges, tensors_of
from rushlight.data.rebuilding import LoadedStorage, StorageKind, shown_whole
from rushlight.data.reduction import Reductions
from rushlight.data.source import MappedSource, Source
from rushlight.data.unpickler import Malformed, Unpickler
from rushlight.data.vocabulary import TorchVocabulary
from rushlight.eager.handle import make
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import DType, uint8
from rushlight.ir.type import META
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import fail, require

LEGACY_START = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
_PROTOCOL = 1001
_ROOT = "archive"
Place = Callable[[Tensor, str], Tensor]


class Reader:
    """Reads one checkpoint: `place` moves a storage, shown as a tensor of one dim, from the device of a name."""

    def __init__(self, source: Source, device: Place, all_classes: bool, encoding: str) -> None:
        self.source = source
        self.encoding = encoding
        self._place = device
        self._vocabulary = TorchVocabulary(source.name, self._persistent, all_classes, source.size)
        self._loaded: dict[str, LoadedStorage] = {}
        self._viewed: dict[tuple[str, DType | None], LoadedStorage] = {}
        self._fetch: Callable[[str, int], Storage]
        self._measuring = False  # whether storages are only counted

    def archive(self, archive: Archive, root: str) -> Any:
        """Return the value of an archive whose entries lie in the folder `root`."""
        order = f"{root}/byteorder"
        if order in archive.entries and archive.read(order) != b"little":
            fail("A006", f"load: {self.source.name} was written in another order of bytes", entry=order)

        def fetch(key: str, count: int) -> Storage:
            name = f"{root}/data/{key}"
            entry = archive.entries.get(name)
            fits = entry is not None and entry.size >= count
            require(fits, "P002", f"load: {self.source.name} lacks the data of a tensor", entry=name)
            storage = self.source.storage(archive.place(name), entry.size if entry else 0, name)
            if not isinstance(self.source, MappedSource):
                archive.check(storage.view().data, name)
            return storage

        self._fetch = fetch
        name = f"{root}/data.pkl"
        return self._result(Unpickler(archive.read(name), self._vocabulary, self.source.name, name, 0, self.encoding))

    def legacy(self) -> Any:
        """Return the value of a file in PyTorch's older format.

        The data follow the pickle in an order that a list after it tells. So the pickle is read twice: once without
        data, and once when the place of each storage is known.
        """
        data = self.source.read(0, self.source.size, "pickle")
        reader = Unpickler(data, self._vocabulary, self.source.name, "header", len(LEGACY_START), self.encoding)
        protocol, system = reader.load(), reader.load()
        valid = protocol == _PROTOCOL and isinstance(system, dict)
        require(valid, "P005", f"load: {self.source.name} is of an unknown version", entry="header")
        if system.get("little_endian") is not True:
            fail("A006", f"load: {self.source.name} was written in another order of bytes", entry="header")
        start = reader.position
        self._measuring = True
        reader.load()
        keys = reader.load()
        fits = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
        require(fits, "P002", f"load: {self.source.name} is truncated or damaged", entry="keys")
        places = self._places(keys, data, reader.position)
        self._measuring, self._loaded, self._viewed = False, {}, {}

        def fetch(key: str, count: int) -> Storage:
            entry = f"storage {key}"[:60]
            position = places.get(key)
            require(position is not None, "P002", f"load: {self.source.name} is truncated or damaged", entry=entry)
            return self.source.storage(position or 0, count, entry)

        self._fetch = fetch
        return self._result(Unpickler(data, self._vocabulary, self.source.name, "pickle", start, self.encoding))

    def _result(self, reader: Unpickler) -> Any:
        value = reader.load()
        return value.tensor if isinstance(value, LoadedStorage) else value

    def _persistent(self, key: Any) -> LoadedStorage:
        """The storage of a key: `("storage", class, name, device, number of elements)`."""
        if not isinstance(key, tuple) or len(key) not in (5, 6) or key[0] not in ("storage", b"storage"):
            if isinstance(key, tuple) and key[:1] == ("module",):
                fail(
                    "P009",
                    f"load: {self.source.name} holds a whole module, which is code",
                    hint="load its state_dict()",
                )
            raise Malformed("an object outside of the pickle")
        kind, name, device, count = key[1:5]
        if not isinstance(kind, StorageKind) or not isinstance(name, str) or not isinstance(device, str):
            raise Malformed("a storage of an unknown class")
        width = 1 if kind.dtype is None else kind.dtype.itemsize
        if type(count) is not int or count < 0 or (len(key) == 6 and key[5] is not None):
            raise Malformed("a storage of no elements, or within another")
        storage = self._loaded.get(name)
        if storage is None:
            storage = self._loaded[name] = LoadedStorage(self._shown(kind, name, device, count * width), kind.dtype)
        if storage.nbytes < count * width:
            raise Malformed("a storage of several sizes")
        if storage.dtype is kind.dtype:
            return storage
        return self._viewed.setdefault((name, kind.dtype), LoadedStorage(storage.tensor, kind.dtype))

    def _shown(self, kind: StorageKind, name: str, device: str, count: int) -> Tensor:
        dtype = kind.dtype or uint8
        if device == "meta" or self._measuring:
            return make(None, form_of((count // dtype.itemsize,), dtype, META))
        return self._place(shown_whole(self._fetch(name, count), kind.dtype), device)

    def _places(self, keys: list[str], data: bytes, position: int) -> dict[str, int]:
        """Where the data of each storage begin; each has its number of elements before it."""
        places: dict[str, int] = {}
        for key in keys:
            entry = f"storage {key}"[:60]
            loaded = self._loaded.get(key)
            self.source.check(position, 8, entry)
            count = int.from_bytes(data[position : position + 8], "little")
            count *= 1 if loaded is None or loaded.dtype is None else loaded.dtype.itemsize
            fits = loaded is not None and loaded.nbytes == count
            require(fits, "P002", f"load: {self.source.name} is truncated or damaged", entry=entry)
            self.source.check(position + 8, count, entry)
            places[key] = position + 8
            position += 8 + count
        return places


def root_of(archive: Archive) -> str | None:
    """Return the folder of a checkpoint's entries; None where the archive is none."""
    return next((name[: -len("/data.pkl")] for name in archive.entries if name.endswith("/data.pkl")), None)


def checkpoint_parts(value: object) -> Iterable[Part]:
    """Return the bytes of a checkpoint part by part; P006 for what it cannot hold."""
    reductions = Reductions()
    ranges = stored_ranges(tensors_of(value, reductions))
    pickled = Pickler(ranges, reductions).pickled(value)
    return archive_parts(_entries(pickled, ranges.values()))


def _entries(pickled: bytes, ranges: Iterable[StoredRange]) -> Iterator[tuple[str, Part]]:
    yield f"{_ROOT}/data.pkl", pickled
    yield f"{_ROOT}/.format_version", b"1"
    yield f"{_ROOT}/.storage_alignment", b"64"
    yield f"{_ROOT}/byteorder", b"little"
    for stored in ranges:
        storage = stored.owner.backing
        assert storage is not None
        yield f"{_ROOT}/data/{stored.key}", storage.read(stored.start, stored.end - stored.start).data
    yield f"{_ROOT}/version", b"3\n"
