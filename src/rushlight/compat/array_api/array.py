"""Array: a tensor whose operators follow the array API standard where PyTorch's rules differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compat.array_api.arithmetic import floor_divide, remainder
from rushlight.compat.array_api.dtypes import promoted, promoted_dtype
from rushlight.eager.arguments import required_tensor
from rushlight.eager.creation import zeros
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import dims_taken, normal_index
from rushlight.eager.override.foreign import disabled
from rushlight.eager.tensor import Tensor, wrap
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import bool_
from rushlight.support.errors import require


def plain(x: object) -> Tensor:
    """The tensor itself, or an array's elements as a tensor with PyTorch's rules. Errors: A001 for anything else."""
    return wrap(required_tensor(x), Tensor)


def arrayed(result: Any) -> Any:
    """A tensor as an Array on the same storage; tuples, named tuples and lists item by item."""
    if isinstance(result, Handle):
        return wrap(result, Array)
    items = [arrayed(element) for element in result]
    if isinstance(result, list):
        return items
    return type(result)(*items) if hasattr(result, "_fields") else tuple(items)


def _operator(function: Callable[..., object]) -> Any:
    """`self OP other` with the standard's promotion of two tensors; numbers take the tensor's dtype."""

    def method(self: Array, other: object, /) -> Any:
        return arrayed(function(*promoted(plain(self), plain(other) if isinstance(other, Handle) else other)))

    return method


def _in_place(method: Callable[..., object]) -> Any:
    """`self OP= other`: a tensor that promotes to this array's dtype is converted to it."""

    def written(self: Array, other: object, /) -> Any:
        if isinstance(other, Handle):
            other = plain(other)
            if promoted_dtype(self.dtype, other.dtype) is self.dtype:
                other = other.to(self.dtype)
        return method(self, other)

    return written


_FLOOR_DIVIDE, _REMAINDER = _in_place(Tensor.__ifloordiv__), _in_place(Tensor.__imod__)


class SizeMethod(int):
    """The number of an array's elements, as the standard has it; called, it is PyTorch's method `size`."""

    _shape: Size

    def __new__(cls, count: int, shape: Size) -> SizeMethod:
        """Of a shape with so many elements."""
        self = super().__new__(cls, count)
        self._shape = shape
        return self

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the size of a dim."""
        return self._shape if dim is None else self._shape[dim]


class Array(Tensor):
    """A tensor with the operators, slices and attributes of the array API standard.

    A tensor without dims takes part in promotion like any other, slices may have negative steps, `size` is a number,
    and `T` is for matrices alone. Everything else is a tensor's.

    >>> from rushlight.compat import array_api as xp
    >>> (xp.ones(2) * xp.asarray(2.0, dtype=xp.float64)).dtype
    rushlight.float64
    """

    __slots__ = ()

    __add__ = _operator(Tensor.__add__)
    __sub__ = _operator(Tensor.__sub__)
    __mul__ = _operator(Tensor.__mul__)
    __truediv__ = _operator(Tensor.__truediv__)
    __floordiv__ = _operator(floor_divide)
    __mod__ = _operator(remainder)
    __pow__ = _operator(Tensor.__pow__)
    __matmul__ = _operator(Tensor.__matmul__)
    __and__ = _operator(Tensor.__and__)
    __or__ = _operator(Tensor.__or__)
    __xor__ = _operator(Tensor.__xor__)
    __lshift__ = _operator(Tensor.__lshift__)
    __rshift__ = _operator(Tensor.__rshift__)
    __eq__ = _operator(Tensor.__eq__)
    __ne__ = _operator(Tensor.__ne__)
    __lt__ = _operator(Tensor.__lt__)
    __le__ = _operator(Tensor.__le__)
    __gt__ = _operator(Tensor.__gt__)
    __ge__ = _operator(Tensor.__ge__)
    __radd__ = _operator(Tensor.__radd__)
    __rsub__ = _operator(Tensor.__rsub__)
    __rmul__ = _operator(Tensor.__rmul__)
    __rtruediv__ = _operator(Tensor.__rtruediv__)
    __rfloordiv__ = _operator(lambda x1, x2: floor_divide(*promoted(x2, x1)))
    __rmod__ = _operator(lambda x1, x2: remainder(*promoted(x2, x1)))
    __rpow__ = _operator(Tensor.__rpow__)
    __rmatmul__ = _operator(Tensor.__rmatmul__)
    __rand__ = _operator(Tensor.__rand__)
    __ror__ = _operator(Tensor.__ror__)
    __rxor__ = _operator(Tensor.__rxor__)
    __rlshift__ = _operator(Tensor.__rlshift__)
    __rrshift__ = _operator(Tensor.__rrshift__)
    __iadd__ = _in_place(Tensor.__iadd__)
    __isub__ = _in_place(Tensor.__isub__)
    __imul__ = _in_place(Tensor.__imul__)
    __itruediv__ = _in_place(Tensor.__itruediv__)
    __ipow__ = _in_place(Tensor.__ipow__)
    __iand__ = _in_place(Tensor.__iand__)
    __ior__ = _in_place(Tensor.__ior__)
    __ixor__ = _in_place(Tensor.__ixor__)
    __ilshift__ = _in_place(Tensor.__ilshift__)
    __irshift__ = _in_place(Tensor.__irshift__)
    __hash__ = Tensor.__hash__
    __torch_function__ = disabled  # the namespace's functions say what is an array; others give plain tensors

    def __getitem__(self, index: object) -> Any:
        flipped, index = _forward(self, _plain_index(index, self))
        return arrayed(flipped[index])

    def __setitem__(self, index: object, value: object) -> None:
        index = _plain_index(index, self)
        value = plain(value) if isinstance(value, Handle) else value
        flipped, forward = _forward(self, index)
        if flipped.backing is self.backing:
            super().__setitem__(forward, value)
            return
        flipped[forward] = value
        self.copy_(_forward(flipped, index)[0])

    def __ifloordiv__(self, other: Any) -> Any:
        return self.copy_(self // other) if self.is_floating_point() else _FLOOR_DIVIDE(self, other)

    def __imod__(self, other: Any) -> Any:
        return self.copy_(self % other) if self.is_floating_point() else _REMAINDER(self, other)

    def __neg__(self) -> Any:
        return arrayed(-plain(self))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return arrayed(abs(plain(self)))

    def __invert__(self) -> Any:
        return arrayed(~plain(self))

    @property
    def size(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - a number that can be called
        """The number of elements; called, PyTorch's method: the shape, or the size of a dim."""
        count = self.numel()
        return SizeMethod(count, self.shape) if isinstance(count, int) else count

    @property
    def T(self) -> Any:  # noqa: N802 - the standard's name
        """The transpose of a matrix. Errors: S002 for other numbers of dims."""
        require(self.ndim == 2, "S002", "T: a tensor of two dims is expected", tensor=self, hint="transpose with .mT")
        return arrayed(plain(self).mT)

    @property
    def mT(self) -> Any:  # noqa: N802 - the standard's name
        """The transposes of the matrices in the last two dims."""
        return arrayed(plain(self).mT)

    def to_device(self, device: object, /, *, stream: object = None) -> Any:
        """The array on a device; itself if it is there. Errors: A002 for a stream."""
        return arrayed(super().to_device(device, stream=stream))


def _plain_index(index: object, of: Tensor) -> tuple[Any, ...]:
    if isinstance(index, Handle) and index.dtype is bool_:
        return (_covering(plain(index), of),)
    items = index if isinstance(index, tuple) else (index,)
    return tuple([plain(part) if isinstance(part, Handle) else part for part in items])


def _covering(mask: Tensor, tensor: Tensor) -> Tensor:
    """A mask; one without elements, which selects nothing, in the sizes of the dims that it covers."""
    sizes, covered = tuple(mask.form.shape), tuple(tensor.form.shape[: mask.ndim])
    fits = len(sizes) == len(covered) and all(size in (0, whole) for size, whole in zip(sizes, covered, strict=True))
    return zeros(covered, dtype=bool_) if 0 in sizes and fits else mask


def _forward(tensor: Tensor, index: tuple[object, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """The tensor, flipped where slices have negative steps, and the same index with positive ones."""
    tensor = plain(tensor)
    if not any(isinstance(part, slice) and part.step is not None and part.step < 0 for part in index):
        return tensor, index
    items = list(normal_index(index, tensor.ndim))
    dim = 0
    flipped: list[int] = []
    for at, entry in enumerate(items):
        if isinstance(entry, slice) and entry.step is not None and entry.step < 0:
            size = tensor.shape[dim]
            steps = range(size)[entry]
            items[at] = slice(size - 1 - steps[0], size - steps[-1], -steps.step) if steps else slice(0, 0)
            flipped.append(dim)
        dim += dims_taken(entry)
    return tensor.flip(tuple(flipped)), tuple(items)
