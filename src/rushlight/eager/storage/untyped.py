"""A tensor's memory as an object: bytes without a shape, shared by all tensors that show parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from os.path import exists, getsize
from typing import Any

import numpy as np

from rushlight.eager.handle import Handle, make
from rushlight.eager.tensor_meta import form_of, numbered
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU, META, Device
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import allocate_on
from rushlight.support.errors import fail, require


class UntypedStorage:
    """Bytes of memory, as `Tensor.untyped_storage` gives them; objects are equal if they are one memory.

    `UntypedStorage(8)` allocates bytes with undefined contents, `UntypedStorage(8, device="cpu")` says where. `memory`
    is None without data, as on the meta device.
    """

    __slots__ = ("_nbytes", "device", "memory")

    is_cuda = is_sparse = is_hpu = False

    def __init__(self, nbytes: int = 0, *, device: str | Device = CPU) -> None:
        count = int(nbytes)
        require(count >= 0, "A002", "UntypedStorage: a number of bytes is expected", nbytes=nbytes)
        self.device = numbered(Device(device))
        self.memory: Storage | None = None if self.device == META else allocate_on(self.device)((count,))[0]
        self._nbytes = count

    @staticmethod
    def of(tensor: Handle) -> UntypedStorage:
        """The memory that a tensor shows a part of."""
        storage = object.__new__(UntypedStorage)
        storage.memory = tensor.storage
        form = tensor.form
        storage._nbytes = (int(tensor.offset) + form.extent) * form.dtype.itemsize if tensor.storage is None else 0
        storage.device = form.device
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
        return storage

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
        read: Any = self._bytes()[index]
        return read.tolist() if isinstance(index, slice) else int(read)

    def __setitem__(self, index: int | slice, value: Any) -> None:
        data = self._bytes()
        if not data.flags.writeable:  # a copy
            data = data.copy()
        data[index] = value
        if self.device is not CPU:
            self._overwrite(data)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        return self._bytes().tolist()

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

    def resize_(self, nbytes: int) -> None:
        """Refused with A006, unless the size stays: memory that tensors show has one size."""
        if int(nbytes) != self.nbytes():
            fail("A006", "resize_: a storage cannot be resized", nbytes=nbytes, hint="resize the tensor: x.resize_(n)")

    def is_shared(self) -> bool:
        """False: no other process sees it."""
        return False

    def is_pinned(self, device: object = None) -> bool:
        """False: there is no device that would read it."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.memory is other.memory and self.memory is not None

    def __hash__(self) -> int:
        return id(self.memory)

    def __repr__(self) -> str:
        return f"UntypedStorage({self.nbytes()} bytes on {self.device})"


class TypedStorage:
    """Memory with a dtype, PyTorch's older form: elements in a row."""

    __slots__ = ("_untyped", "dtype")

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: DType) -> None:
        self._untyped = wrap_storage
        self.dtype = dtype

    def untyped(self) -> UntypedStorage:
        """The memory without a dtype."""
        return self._untyped

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self._untyped.device

    def _elements(self) -> Any:
        memory = self._untyped.memory
        if memory is None:
            fail("V003", "the storage has no data")
        return make(memory, form_of((len(self),), self.dtype, self.device))

    def size(self) -> int:
        """The number of elements."""
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped.nbytes()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 without data."""
        return self._untyped.data_ptr()

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: int | slice) -> Any:
        return self.tolist()[index]

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped == other._untyped and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash(self._untyped)

    def __repr__(self) -> str:
        return f"TypedStorage({len(self)} elements of {self.dtype} on {self.device})"
