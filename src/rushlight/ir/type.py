"""Types of tensors: shape, dtype, device and the strides eager would give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, eq, floordiv, format_size, free_symbols, optimization_hint, required
from rushlight.term import slot_setter

_scope: list[Callable[..., None]] = []


def set_device_scope(enter: Callable[[Device], None], leave: Callable[[], None]) -> None:
    """Says what the scope of a device, `with device:`, does."""
    _scope[:] = enter, leave


@frozen
class Device:
    """A kind of device and its index, given and printed as in PyTorch: `cpu`, `meta`, `foo:1`.

    New tensors are made on it within `with device:`.
    """

    type: str
    index: int | None

    def __init__(self, type: str | Device, index: int | None = None) -> None:
        if not isinstance(type, (str, Device)):
            fail("V001", "not a device", value=type)
        kind, colon, number = str(type).partition(":")
        valid = kind.isidentifier() and (number.isdecimal() if colon else True) and not (colon and index is not None)
        require(valid, "V001", f"{type} is not a device", hint="devices are named type or type:index")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", int(number) if colon else index)

    def __enter__(self) -> Device:
        _scope[0](self)
        return self

    def __exit__(self, *error: object) -> None:
        _scope[1]()

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


del Device.__dataclass_fields__  # programs that take dataclasses apart leave a device whole, as they do PyTorch's

CPU = Device("cpu")
META = Device("meta")


def contiguous_strides(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Row-major strides, in elements; a size of 0 counts as 1, as in PyTorch."""
    if len(shape) < 2:
        return (1,) * len(shape)
    strides: list[Size] = [1]
    step: Size = 1
    for size in shape[:0:-1]:
        if size != 0:
            step = step * size
        strides.append(step)
    strides.reverse()
    return tuple(strides)


def dense_order(shape: tuple[Size, ...], strides: tuple[Size, ...]) -> tuple[int, ...] | None:
    """The dims, outermost to innermost, of a layout without gaps or overlaps; None for others.

    Dims of size 1 may have any stride and keep their place beside their neighbours; row-major is tried first.
    """
    plain = range(len(shape))
    if _is_dense(shape, strides, plain):
        return tuple(plain)
    static = all(isinstance(stride, int) for stride in strides)
    turned = sorted(plain, key=lambda dim: -optimization_hint(strides[dim])) if static else _chain(shape, strides)
    return tuple(turned) if _is_dense(shape, strides, turned) else None


def _is_dense(shape: tuple[Size, ...], strides: tuple[Size, ...], dims: Sequence[int]) -> bool:
    """Whether each stride is the product of the sizes of the dims that follow in `dims`."""
    step: Size = 1
    for dim in reversed(dims):
        size = shape[dim]
        if isinstance(size, int) and size == 1:
            continue
        if strides[dim] != step:
            return False
        step = step * (1 if size == 0 else size)
    return True


def row_major(type_: TensorType) -> TensorType:
    """The type with its elements row by row."""
    return TensorType(type_.shape, type_.dtype, type_.device, weak=type_.weak)


def _chain(shape: tuple[Size, ...], strides: tuple[Size, ...]) -> list[int]:
    """The dims from the outermost to the innermost where each stride is the product of the sizes within.

    That is told by the sizes' form alone: what a symbol is likely to be may change while a program is traced. Dims of
    size 1 come before the dim that follows them.
    """
    waiting = [dim for dim, size in enumerate(shape) if not (isinstance(size, int) and size == 1)]
    order: list[int] = []
    step: Size = 1
    while waiting:
        inner = next((dim for dim in reversed(waiting) if strides[dim] == step), waiting[-1])
        waiting.remove(inner)
        order.insert(0, inner)
        step = step * (1 if shape[inner] == 0 else shape[inner])
    for dim in reversed(range(len(shape))):
        if dim not in order:
            after = next((order.index(other) for other in range(dim + 1, len(shape)) if other in order), len(order))
            order.insert(after, dim)
    return order


@frozen
class TensorType:
    """Shape, dtype, device and strides (elements) of a tensor value.

    `weak` marks a Python number that takes part as a 0-d tensor and never raises the dtype category of others.
    """

    shape: tuple[Size, ...]
    dtype: DType
    device: Device
    strides: tuple[Size, ...]
    weak: bool

    def __init__(
        self,
        shape: tuple[Size, ...],
        dtype: DType,
        device: Device = CPU,
        strides: tuple[Size, ...] | None = None,
        weak: bool = False,
    ) -> None:
        _set_shape(self, tuple(shape))
        _set_dtype(self, dtype)
        _set_device(self, device)
        _set_strides(self, contiguous_strides(self.shape) if strides is None else tuple(strides))
        _set_weak(self, weak)

    def __hash__(self) -> int:
        return hash((self.shape, self.strides, self.dtype))  # the rest rarely differs

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the strides are provably row-major."""
        return self.strides == contiguous_strides(self.shape)

    def __str__(self) -> str:
        sizes = ", ".join([format_size(size) for size in self.shape])
        weak = "weak " if self.weak else ""
        return f"{weak}{SHORT_NAMES[self.dtype]}[{sizes}]"

    def __error_text__(self) -> str:
        return str(self)


_set_shape, _set_dtype = slot_setter(TensorType, "shape"), slot_setter(TensorType, "dtype")
_set_device, _set_strides = slot_setter(TensorType, "device"), slot_setter(TensorType, "strides")
_set_weak = slot_setter(TensorType, "weak")


@frozen
class Layout:
    """Where the elements of a view lie in its base's storage: shape, strides and offset, in elements.

    `dtype` is that of the base in what a view rule is given, and another one in what it gives for a view that reads the
    same bytes as that; elements are then of that one.
    """

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0
    dtype: DType | None = None


def in_elements_of(dtype: DType, distance: Size, base: DType) -> Size:
    """An offset or a stride, in elements of `base`, counted in those of `dtype`: S006 where it ends inside of one."""
    if dtype.itemsize == base.itemsize:
        return distance
    byte_offset = distance * base.itemsize
    whole = required(eq(byte_offset % dtype.itemsize, 0), "a view as wider elements begins at multiples of these")
    text = "a view as wider elements needs an offset and strides that are multiples of these"
    require(whole, "S006", text, given=distance, dtype=base, wanted=dtype, hint="call contiguous() or clone() first")
    return floordiv(byte_offset, dtype.itemsize)


class Mentions:
    """An attribute value that depends on sizes by what is inside it."""

    __slots__ = ()

    mentioned: tuple[SizeExpr, ...]


def symbols_in(parts: Iterable[object]) -> list[SizeExpr]:
    """The symbols in types, sizes and attribute values, each once, in order of appearance."""
    symbols: dict[SizeExpr, None] = {}
    seen: set[SizeExpr] = set()
    stack = list(parts)[::-1]
    while stack:
        part = stack.pop()
        if isinstance(part, SizeExpr):
            symbols.update(dict.fromkeys(free_symbols(part, seen)))
        elif isinstance(part, TensorType):
            sizes = (*reversed(part.strides), *reversed(part.shape))
            stack.extend([size for size in sizes if not isinstance(size, int)])  # most sizes are numbers
        elif isinstance(part, tuple):
            stack.extend(reversed(part))
        elif isinstance(part, Mentions):
            symbols.update(dict.fromkeys(part.mentioned))
    return list(symbols)
