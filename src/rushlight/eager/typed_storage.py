"""Memory with a dtype, PyTorch's older form of storages: `x.storage()`, `FloatStorage(3)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from rushlight.eager.arguments import default_dtype
from rushlight.eager.creation import tensor
from rushlight.eager.handle import make
from rushlight.eager.storage.untyped import UntypedStorage
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
)
from rushlight.ir.type import CPU, Device
from rushlight.support.errors import error, fail, require

_NAMES: dict[DType, str] = {
    bool_: "Bool",
    uint8: "Byte",
    int8: "Char",
    int16: "Short",
    int32: "Int",
    int64: "Long",
    float16: "Half",
    bfloat16: "BFloat16",
    float32: "Float",
    float64: "Double",
    complex64: "ComplexFloat",
    complex128: "ComplexDouble",
}


class _Conversions:
    """Copies as elements of other dtypes, under the names that PyTorch gives dtypes; itself for its own."""

    __slots__ = ()

    def _converted(self, dtype: DType) -> TypedStorage:
        raise NotImplementedError

    def bool(self) -> TypedStorage:
        """As bool."""
        return self._converted(bool_)

    def byte(self) -> TypedStorage:
        """As uint8."""
        return self._converted(uint8)

    def char(self) -> TypedStorage:
        """As int8."""
        return self._converted(int8)

    def short(self) -> TypedStorage:
        """As int16."""
        return self._converted(int16)

    def int(self) -> TypedStorage:
        """As int32."""
        return self._converted(int32)

    def long(self) -> TypedStorage:
        """As int64."""
        return self._converted(int64)

    def half(self) -> TypedStorage:
        """As float16."""
        return self._converted(float16)

    def bfloat16(self) -> TypedStorage:
        """As bfloat16."""
        return self._converted(bfloat16)

    def float(self) -> TypedStorage:
        """As float32."""
        return self._converted(float32)

    def double(self) -> TypedStorage:
        """As float64."""
        return self._converted(float64)

    def complex_float(self) -> TypedStorage:
        """As complex64."""
        return self._converted(complex64)

    def complex_double(self) -> TypedStorage:
        """As complex128."""
        return self._converted(complex128)


class TypedStorage(_Conversions):
    """Elements of a dtype in a row, on memory that tensors show.

    `TypedStorage(3)` has undefined elements, `TypedStorage([1, 2], dtype=rl.int8)` these;
    `TypedStorage(wrap_storage=untyped, dtype=rl.int8)` shows memory that is there.
    """

    __slots__ = ("_untyped", "dtype")

    is_sparse = is_cuda = is_hpu = False

    def __init__(
        self,
        *args: int | Sequence[Any],
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: str | Device = CPU,
    ) -> None:
        if wrap_storage is not None:
            fits = isinstance(wrap_storage, UntypedStorage) and dtype is not None and not args
            require(fits, "A001", "TypedStorage: wrap_storage is an untyped storage, and goes with a dtype", given=args)
        require(len(args) <= 1, "A001", "TypedStorage: one size, or one sequence of elements", given=args)
        self.dtype = dtype or default_dtype()
        self._untyped = self._made(args[0] if args else 0, device) if wrap_storage is None else wrap_storage

    def _made(self, given: Any, device: str | Device) -> UntypedStorage:
        if isinstance(given, Sequence):
            return UntypedStorage.of(tensor(given, dtype=self.dtype, device=device))
        if not hasattr(given, "__index__"):
            fail("A001", "TypedStorage: a size, or a sequence of elements, is expected", given=given)
        return UntypedStorage(int(given) * self.dtype.itemsize, device=device)

    @staticmethod
    def of(untyped: UntypedStorage, dtype: DType) -> TypedStorage:
        """Memory as elements of a dtype."""
        return TypedStorage(wrap_storage=untyped, dtype=dtype)

    @classmethod
    def from_file(cls, filename: str | PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """The first elements of a file, mapped into memory, as `UntypedStorage.from_file` does."""
        dtype: DType = getattr(cls, "_dtype", None) or default_dtype()
        return cls.of(UntypedStorage.from_file(filename, shared, int(size) * dtype.itemsize), dtype)

    @property
    def filename(self) -> str | None:
        """The file whose bytes it maps; None for other memory."""
        return self._untyped.filename

    def untyped(self) -> UntypedStorage:
        """The memory without a dtype."""
        return self._untyped

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self._untyped.device

    def get_device(self) -> int:
        """The number of its device; -1 for the CPU."""
        return self._untyped.get_device()

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

    def tolist(self) -> list[object]:
        """The elements as Python numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            fail("A001", "slices are those of untyped storages", hint="x.untyped()[a:b], in bytes")
        return self._elements()[self._place(index)].item()

    def _place(self, index: Any) -> int:
        if not hasattr(index, "__index__"):
            fail("A001", "a storage is indexed by an int", index=index)
        if not -len(self) <= int(index) < len(self):
            raise error("I001", "a storage has fewer elements", index=int(index), size=len(self))
        return int(index)

    def __setitem__(self, index: int | slice, value: object) -> None:
        self._elements()[index if isinstance(index, slice) else self._place(index)] = value

    def __iter__(self) -> Iterator[object]:
        return iter(self.tolist())

    def fill_(self, value: object) -> TypedStorage:
        """Overwrite all elements with one value."""
        self._elements().fill_(value)
        return self

    def copy_(self, source: TypedStorage | UntypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Overwrite the elements with those of another storage of the same size, converted. Errors: S009."""
        if isinstance(source, TypedStorage) and source.dtype is not self.dtype:
            fits = len(self) == len(source)
            require(fits, "S009", "copy_: the storages differ in size", target=len(self), source=len(source))
            self._elements().copy_(source._elements())
        else:
            self._untyped.copy_(source.untyped())
        return self

    def clone(self) -> TypedStorage:
        """A copy in memory of its own."""
        return self.of(self._untyped.clone(), self.dtype)

    def to(self, *, device: str | Device, non_blocking: bool = False) -> TypedStorage:
        """Itself if it is on a device, else a copy there."""
        there = self._untyped.to(device=device)
        return self if there is self._untyped else self.of(there, self.dtype)

    def cpu(self) -> TypedStorage:
        """Itself if it is on the CPU, else a copy there."""
        return self.to(device=CPU)

    def resize_(self, size: int) -> TypedStorage:
        """Give the memory room for so many elements, as `UntypedStorage.resize_` does for bytes."""
        self._untyped.resize_(int(size) * self.dtype.itemsize)
        return self

    def resizable(self) -> bool:
        """Whether the memory can be resized."""
        return self._untyped.resizable()

    def is_shared(self) -> bool:
        """Whether other processes can see it."""
        return self._untyped.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that other processes can see."""
        self._untyped.share_memory_()
        return self

    def is_pinned(self, device: object = None) -> bool:
        """False: there is no device that would read it."""
        return False

    def pin_memory(self, device: object = None) -> TypedStorage:
        """Itself: there is no device that would read pinned memory."""
        return self

    @classmethod
    def from_buffer(
        cls, buffer: bytes, byte_order: str = "native", *, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of the elements in a buffer."""
        dtype: DType = getattr(cls, "_dtype", None) or default_dtype()
        return cls.of(UntypedStorage.from_buffer(buffer, byte_order, count=count, offset=offset, dtype=dtype), dtype)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class in PyTorch, or, of another dtype or class of storages, a converted copy."""
        if dtype is None:
            return f"torch.{'' if self.device == CPU else self.device.type + '.'}{self.pickle_storage_type()}"
        name = getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
        named = next((one for one, of in _NAMES.items() if f"{of}Storage" == name), None)
        wanted = dtype if isinstance(dtype, DType) else named
        if wanted is None:
            fail("A002", "type: no class of storages", type=dtype, hint="as rl.FloatStorage")
        return self._converted(wanted)

    def pickle_storage_type(self) -> str:
        """The name of its class in PyTorch's files: "FloatStorage". Errors: D001 where it has none."""
        if self.dtype not in _NAMES:
            fail("D001", f"storages of {self.dtype.name} have no class of their own")
        return f"{_NAMES[self.dtype]}Storage"

    def _converted(self, dtype: DType) -> TypedStorage:
        if dtype is self.dtype:
            return self
        return self.of(UntypedStorage.of(self._elements().to(dtype)), dtype)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, object]) -> TypedStorage:
        return self.of(self._untyped.__deepcopy__(memo), self.dtype)

    def __reduce__(self) -> tuple[object, ...]:
        return TypedStorage.of, (self._untyped, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._elements(), dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped == other._untyped and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash(self._untyped)

    def __repr__(self) -> str:
        return f"TypedStorage({len(self)} elements of {self.dtype} on {self.device})"


class _OfOneDtype(type):
    """The class of FloatStorage and its like: calling one makes a typed storage."""

    _dtype: DType

    @property
    def dtype(cls) -> DType:
        """The dtype of its elements."""
        return cls._dtype

    def __call__(cls, *args: int | Sequence[Any], wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        """A storage of the dtype: of a size, of a sequence, or on memory that is there."""
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls._dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls._dtype


def _named(dtype: DType) -> Any:
    return _OfOneDtype(
        f"{_NAMES[dtype]}Storage",
        (TypedStorage,),
        {"_dtype": dtype, "__slots__": (), "__doc__": f"Storages of {dtype.name} on the CPU."},
    )


BoolStorage, ByteStorage, CharStorage, ShortStorage = _named(bool_), _named(uint8), _named(int8), _named(int16)
IntStorage, LongStorage, HalfStorage, BFloat16Storage = _named(int32), _named(int64), _named(float16), _named(bfloat16)
FloatStorage, DoubleStorage = _named(float32), _named(float64)
ComplexFloatStorage, ComplexDoubleStorage = _named(complex64), _named(complex128)
