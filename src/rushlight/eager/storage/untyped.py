"""A tensor's memory as an object: bytes without a shape, shared by all tensors that show parts of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from os import PathLike
from os.path import exists, getsize
from typing import Any

import numpy as np

from rushlight.eager.handle import Handle, note_move
from rushlight.eager.tensor_meta import numbered
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU, META, Device
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import allocate_on
from rushlight.runtime.resizing import is_resizable, resize
from rushlight.runtime.shared import share, shared_memory
from rushlight.support.errors import error, fail, require


class _Bytes:
    """Reading and writing of a storage, byte by byte."""

    __slots__ = ("__weakref__", "_nbytes", "device", "filename", "memory")

    _nbytes: int
    device: Device
    filename: str | None
    memory: Storage | None

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._nbytes if self.memory is None else self.memory.nbytes

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte; 0 without data."""
        return 0 if self.memory is None else self.memory.address

    def element_size(self) -> int:
        """1: elements are bytes."""
        return 1

    def _bytes(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The bytes, not to be written to: those of a device are a copy."""
        if self.memory is None:
            fail("V003", "the storage has no data")
        return self.memory.read(0, self.memory.nbytes)

    def _overwrite(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        if self.memory is None:
            fail("V003", "the storage has no data")
        self.memory.write(0, data)

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return int(self._bytes()[self._place(index)])
        start, stop, step = index.indices(self.nbytes())
        require(step == 1, "A002", "a storage is sliced by steps of 1", step=step)
        if self.memory.__class__ is not Storage:
            fail("V004", "a part of a storage is one of the CPU's memory")
        assert self.memory is not None
        part = Storage()
        part.address, part.nbytes, part.owner = self.memory.address + start, max(stop - start, 0), self.memory
        return UntypedStorage.of_memory(part)

    def _place(self, index: Any) -> Any:
        if isinstance(index, slice):
            return index
        if not hasattr(index, "__index__"):
            fail("A001", "a storage is indexed by an int or a slice", index=index)
        count = self.nbytes()
        if not -count <= int(index) < count:
            raise error("I001", "a storage has fewer elements", index=int(index), size=count)
        return int(index)

    def __setitem__(self, index: int | slice, value: Any) -> None:
        data = self._bytes()
        if not data.flags.writeable:  # a copy
            data = data.copy()
        data[self._place(index)] = value
        if self.device is not CPU:
            self._overwrite(data)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        return self._bytes().tolist()


class UntypedStorage(_Bytes):
    """Bytes of memory, as `Tensor.untyped_storage` gives them; objects are equal if they are one memory.

    `UntypedStorage(8)` allocates bytes with undefined contents, `UntypedStorage(8, device="cpu")` says where, and
    `UntypedStorage([1, 2])` has these bytes. `memory` is None without data, as on the meta device. A slice is a storage
    on a part of the memory.
    """

    __slots__ = ()

    is_cuda = is_sparse = is_sparse_csr = is_hpu = False

    def __init__(self, nbytes: int | Sequence[int] = 0, *, device: str | Device = CPU) -> None:
        data = nbytes if isinstance(nbytes, Sequence) else None
        count = len(nbytes) if isinstance(nbytes, Sequence) else int(nbytes)
        require(count >= 0, "A002", "UntypedStorage: a number of bytes is expected", nbytes=nbytes)
        self.device = numbered(Device(device))
        self.memory = None if self.device == META else allocate_on(self.device)((count,))[0]
        self._nbytes = count
        self.filename = None
        if data is not None:
            self._overwrite(np.array(data, np.uint8))

    @staticmethod
    def of_memory(memory: Storage) -> UntypedStorage:
        """The object for memory of the CPU."""
        storage = object.__new__(UntypedStorage)
        storage.memory, storage._nbytes, storage.device, storage.filename = memory, 0, CPU, None
        return storage

    @staticmethod
    def of(tensor: Handle) -> UntypedStorage:
        """The memory that a tensor shows a part of."""
        storage = object.__new__(UntypedStorage)
        storage.memory = tensor.backing
        form = tensor.form
        storage._nbytes = (int(tensor.offset) + form.extent) * form.dtype.itemsize if tensor.backing is None else 0
        storage.device, storage.filename = form.device, None
        return storage

    @staticmethod
    def from_file(filename: str | PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, mapped into memory; all of it for `nbytes=0`.

        What is written goes to the file if it is `shared`, which is made as large as that first.
        """
        count = int(nbytes)
        require(count >= 0, "A002", "from_file: a number of bytes is expected", nbytes=nbytes)
        if shared and count and (not exists(filename) or getsize(filename) < count):
            with open(filename, "ab") as file:
                file.truncate(count)
        size = getsize(filename)
        require(count <= size, "A002", "from_file: the file has fewer bytes", nbytes=count, size=size)
        storage = UntypedStorage(0)
        if count or size:
            mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(count or size,))
            storage.memory = Storage.from_buffer(mapped)
        storage.filename = os.fspath(filename)
        return storage

    @staticmethod
    def from_buffer(
        buffer: bytes, byte_order: str = "native", *, count: int = -1, offset: int = 0, dtype: DType | None = None
    ) -> UntypedStorage:
        """A copy of the bytes of a buffer, from `offset` on: `count` elements of a dtype, or all.

        `byte_order` is "native", "little" or "big": elements are brought into that of the machine.
        """
        size = 1 if dtype is None else dtype.itemsize
        data = np.frombuffer(buffer, np.uint8)[offset:]
        data = data[: len(data) // size * size] if count < 0 else data[: count * size]
        require(count < 0 or len(data) == count * size, "A002", "from_buffer: the buffer has fewer bytes", count=count)
        storage = UntypedStorage(len(data))
        storage._overwrite(data)
        return storage._in_order(byte_order, size)

    def _in_order(self, byte_order: str, size: int) -> UntypedStorage:
        known = byte_order in ("native", "little", "big")
        require(known, "A002", "from_buffer: no such byte order", byte_order=byte_order, hint="native, little or big")
        if byte_order not in ("native", sys.byteorder):
            self._swap(size)
        return self

    def byteswap(self, dtype: DType) -> None:
        """Turn the bytes of each element of a dtype around."""
        self._swap(dtype.itemsize // (2 if dtype.is_complex else 1))

    def _swap(self, size: int) -> None:
        data = self._bytes()
        whole = data[: len(data) // size * size]
        self._overwrite(whole.reshape(-1, size)[:, ::-1].reshape(-1).copy())

    def fill_(self, value: int) -> UntypedStorage:
        """Overwrite all bytes with one value."""
        self._overwrite(np.full(self.nbytes(), value, np.uint8))
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Overwrite the bytes with those of another storage of the same size. Errors: S009."""
        fits = self.nbytes() == source.nbytes()
        require(fits, "S009", "copy_: the storages differ in size", target=self.nbytes(), source=source.nbytes())
        self._overwrite(source._bytes())
        return self

    def clone(self) -> UntypedStorage:
        """A copy in memory of its own."""
        return UntypedStorage(self.nbytes(), device=self.device).copy_(self)

    def to(self, *, device: str | Device, non_blocking: bool = False) -> UntypedStorage:
        """Itself if it is on a device, else a copy there of all bytes, which tensors show as they did here."""
        where = numbered(Device(device))
        return self if where == self.device else UntypedStorage(self.nbytes(), device=where).copy_(self)

    def cpu(self) -> UntypedStorage:
        """Itself if it is on the CPU, else a copy there."""
        return self.to(device=CPU)

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def resize_(self, nbytes: int) -> UntypedStorage:
        """Give the memory another size; tensors on it follow, and bytes that it had not are undefined.

        What it had lives as long as the storage, since arrays may show it. Errors: A002 for memory that is shared,
        mapped, or an array's.
        """
        count = int(nbytes)
        require(count >= 0, "A002", "resize_: a number of bytes is expected", nbytes=nbytes)
        if self.memory is None:
            self._nbytes = count
        elif count != self.memory.nbytes:
            require(self.resizable(), "A002", "resize_: this memory has one size", hint="clone() the storage first")
            resize(self.memory, count)
            note_move()
        return self

    def resizable(self) -> bool:
        """Whether the memory can be resized: it is this process's own."""
        return self.memory is None or is_resizable(self.memory)

    def is_shared(self) -> bool:
        """Whether other processes can see it."""
        return self.memory is not None and shared_memory(self.memory) is not None

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that other processes can see; tensors on it follow. Errors: M001, V004."""
        if self.memory.__class__ is not Storage:
            fail("V004", "share_memory_: only memory of the CPU is shared", device=self.device)
        assert self.memory is not None
        import_module("rushlight.data.sharing")  # tells multiprocessing how tensors are sent
        share(self.memory)
        note_move()
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: str | Device = CPU) -> UntypedStorage:
        return cls(size, device=device).share_memory_()

    def new(self) -> UntypedStorage:
        """A storage of no bytes on the device."""
        return UntypedStorage(0, device=self.device)

    def get_device(self) -> int:
        """The number of its device; -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

    def type(self) -> str:
        """The name of its class, as PyTorch has it."""
        return "torch.storage.UntypedStorage"

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, object]) -> UntypedStorage:
        key = id(self.memory)
        if key not in memo:
            memo[key] = self.clone()
        copied: Any = memo[key]
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        return UntypedStorage.from_buffer, (self._bytes().tobytes(),)

    def is_pinned(self, device: object = None) -> bool:
        """False: there is no device that would read it."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.memory is other.memory and self.memory is not None

    def __hash__(self) -> int:
        return id(self.memory)

    def __repr__(self) -> str:
        return f"UntypedStorage({self.nbytes()} bytes on {self.device})"
