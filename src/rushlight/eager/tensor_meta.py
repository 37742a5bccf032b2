"""TensorMeta: shape, strides, dtype and device of a tensor; one object per combination, so caches key on identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex

from rushlight.eager.dispatch import Key, Memo, backend_key, bit
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU, Device, TensorType, contiguous_strides, dense_order
from rushlight.runtime import descriptor
from rushlight.runtime.backend import backend_of
from rushlight.support.errors import fail
from rushlight.sym import Condition, eq, product
from rushlight.sym import Size as SymbolicSize

_MOST_FORMS = 1 << 16
_MOST_BYTES = 1 << 63


class Size(tuple[Any, ...]):
    """A tensor's shape, as torch.Size: a tuple that knows its number of elements."""

    __slots__ = ()

    def numel(self) -> Any:
        """The product of the sizes."""
        count = 1
        for size in self:
            count = count * size
        return count

    def __repr__(self) -> str:
        return f"rushlight.Size([{', '.join([str(size) for size in self])}])"

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        try:
            size = tuple.__getitem__(self, index)
        except IndexError:
            fail("I002", f"dim {index} is out of range for a shape of {len(self)} dims", shape=tuple(self))
        return Size(size) if isinstance(index, slice) else size

    def __add__(self, other: Iterable[object]) -> Size:  # pyright: ignore[reportIncompatibleMethodOverride] - torch.Size's
        return Size(tuple.__add__(self, tuple(other)))

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[object, ...]]]:
        return Size, (tuple(self),)


class TensorMeta:
    """What kernels are chosen by. Equal forms are one object, those with symbols while their trace is recorded.

    `keys` is the backend's dispatch key as a set; `words` are the descriptor's words but for the address.
    """

    __slots__ = ("device", "dtype", "is_contiguous", "keys", "numel", "shape", "strides", "symbolic", "type", "words")

    shape: Size
    strides: tuple[Any, ...]
    numel: Any
    words: tuple[int, ...]  # empty for symbolic forms

    def __init__(self, type_: TensorType, symbolic: bool) -> None:
        self.type = type_
        self.shape = Size(type_.shape)
        self.strides = type_.strides
        self.dtype = type_.dtype
        self.device = CPU if type_.device == CPU else type_.device  # so that `is` tells
        self.symbolic = symbolic
        self.numel = product(type_.shape)
        # Where all elements are one, their number takes no memory.
        if not symbolic and any(type_.strides) and not self.numel * type_.dtype.itemsize < _MOST_BYTES:
            fail("M001", "allocate: the sizes' product does not fit 64 bits", shape=self.shape)
        self.keys = bit(Key.META if symbolic else backend_key(type_.device.type))
        self.is_contiguous = lies_in_order(type_.shape, type_.strides, range(len(type_.shape)))
        sizes: tuple[Any, ...] = (*type_.shape, *type_.strides)
        if not symbolic and any(size >= _MOST_BYTES for size in sizes):
            fail("M001", "allocate: a size or stride does not fit 64 bits", shape=self.shape, strides=self.strides)
        self.words = () if symbolic else (len(type_.shape) | type_.dtype.code << 8, *sizes)

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element."""
        return self.extent * self.dtype.itemsize

    @property
    def extent(self) -> int:
        """Elements of storage from the first to the last element."""
        if self.symbolic:
            fail("V003", "a fake tensor has no storage")
        return descriptor.extent(self.shape, self.strides)

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in memory in some order of dims, without gaps and none where another is."""
        return self.is_contiguous or not self.numel or dense_order(self.shape, self.strides) is not None

    def __repr__(self) -> str:
        return f"Form({self.type}, {self.strides}, {self.device})"


def _is_known(condition: bool | Condition) -> bool:
    return condition is True


def lies_in_order(
    shape: Sequence[SymbolicSize],
    strides: Sequence[SymbolicSize],
    order: Sequence[int],
    holds: Callable[[bool | Condition], bool] = _is_known,
) -> bool:
    """Whether elements lie in an order of dims, outermost first, without gaps.

    Those of an empty tensor always do. Strides of dims of size 1 do not matter. `holds` answers conditions on sizes; by
    default, whether they are known.
    """
    expected: SymbolicSize = 1
    for dim in reversed(order):
        size, stride = shape[dim], strides[dim]
        matters = stride is not expected and stride != expected
        if matters and not (holds(eq(size, 1)) or holds(eq(stride, expected))):
            return any(holds(eq(other, 0)) for other in shape)
        expected = expected * size
    return True


# Forms in use stay valid when the table is full; equal ones made later are other objects, with plans of their own.
_forms: Memo[TensorMeta] = Memo(_MOST_FORMS)


def form_of(
    shape: tuple[SymbolicSize, ...],
    dtype: DType,
    device: Device = CPU,
    strides: tuple[SymbolicSize, ...] | None = None,
    weak: bool = False,
) -> TensorMeta:
    """The form with these parts; row-major strides unless given."""
    if strides is None:
        strides = contiguous_strides(shape)
    key = (shape, dtype, device, strides, weak)
    meta = _forms.get(key)
    if meta is not None:
        return meta
    symbolic = not all(size.__class__ is int for size in (*shape, *strides))
    form = TensorMeta(TensorType(tuple(shape), dtype, device, strides, weak), symbolic)
    return _forms.put((tuple(shape), dtype, device, strides, weak), form, symbolic)


def form_of_type(type_: TensorType) -> TensorMeta:
    """The form with the parts of a type."""
    return form_of(type_.shape, type_.dtype, type_.device, type_.strides, type_.weak)


def numbered(device: Device) -> Device:
    """A device as tensors have it: with its number where there may be several; V001 where it does not exist.

    There is one CPU, whatever its number, and meta has none.
    """
    key = backend_key(device.type)
    if key is Key.CPU:
        return CPU
    if key is Key.META:
        return device
    count, index = backend_of(device).count, device.index or 0
    if index >= count:
        fail("V001", f"there is no device {device}", hint=f"{device.type} has {count}, numbered from 0")
    return device if device.index == index else Device(device.type, index)
