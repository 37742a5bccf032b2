"""Memory formats and layouts: PyTorch's words for orders of strides, and for ways to store a tensor."""

from __future__ import annotations

from typing import Any

from rushlight.eager.dispatch import STATE, dispatch
from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import lies_in_order
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.support.provenance import called_name
from rushlight.sym import guard


class _Named:
    """A value that is known by its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"rushlight.{self._name}"

    def __reduce__(self) -> tuple[object, ...]:
        return _BY_NAME.__getitem__, (self._name,)

    def __copy__(self) -> _Named:
        return self

    def __deepcopy__(self, memo: object) -> _Named:
        return self


class MemoryFormat(_Named):
    """An order of strides; `order` has the dims from the longest stride to the shortest one."""

    __slots__ = ("order",)

    order: tuple[int, ...] | None

    def __init__(self, name: str, order: tuple[int, ...] | None = None) -> None:
        super().__init__(name)
        self.order = order


class StorageLayout(_Named):
    """A way to store elements."""

    __slots__ = ()


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last", (0, 2, 3, 1))
channels_last_3d = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))

strided = StorageLayout("strided")
sparse_coo, sparse_csr, sparse_csc = (
    StorageLayout("sparse_coo"),
    StorageLayout("sparse_csr"),
    StorageLayout("sparse_csc"),
)
sparse_bsr, sparse_bsc = StorageLayout("sparse_bsr"), StorageLayout("sparse_bsc")
jagged = StorageLayout("jagged")

_ALL: tuple[Any, ...] = (
    contiguous_format,
    preserve_format,
    channels_last,
    channels_last_3d,
    strided,
    sparse_coo,
    sparse_csr,
    sparse_csc,
    sparse_bsr,
    sparse_bsc,
    jagged,
)
_BY_NAME: dict[str, _Named] = {repr(one).partition(".")[2]: one for one in _ALL}


def memory_format_of(value: object) -> MemoryFormat:
    """A memory format, `contiguous_format` where it is None. Errors: A001."""
    if value is None:
        return contiguous_format
    if not isinstance(value, MemoryFormat):
        fail("A001", f"{called_name()}: a memory format is expected", memory_format=value)
    return value


def lies_in(tensor: Handle, memory_format: object, *, asked_by_user: bool = False) -> bool:
    """Whether a tensor's elements lie in the order of a format without gaps: known, or guarded if a user asks.

    Errors: C002 where a user asks, and sizes decide that nobody knows.
    """
    asked = memory_format_of(memory_format)
    require(asked is not preserve_format, "A002", f"{called_name()}: preserve_format is no order of elements")
    form = tensor.form
    order = range(len(form.shape)) if asked.order is None else asked.order
    if len(order) != len(form.shape):
        return False
    if form.symbolic and asked_by_user:
        return lies_in_order(form.shape, form.strides, order, guard)
    return form.is_contiguous if asked.order is None else lies_in_order(form.shape, form.strides, order)


def laid_out(tensor: Any, memory_format: object) -> Any:
    """The tensor itself if its elements lie in the order of a format, else a copy that does.

    Errors: A002 where the format is for another number of dims.
    """
    asked = memory_format_of(memory_format)
    if asked is preserve_format:
        return tensor
    settled = STATE.tracer is None or not STATE.tracer.in_doubt(tensor)
    if settled and lies_in(tensor, asked):
        return tensor
    if asked.order is None:
        return dispatch(OPERATORS["contiguous"], (tensor,), {})
    rank = len(asked.order)
    fits = len(tensor.form.shape) == rank
    require(fits, "A002", f"{called_name()}: {asked!r} is for tensors of {rank} dims", tensor=tensor)
    inverse = tuple([asked.order.index(dim) for dim in range(rank)])
    rows = dispatch(OPERATORS["contiguous"], (dispatch(OPERATORS["permute"], (tensor,), {"dims": asked.order}),), {})
    return dispatch(OPERATORS["permute"], (rows,), {"dims": inverse})


def cloned_in(tensor: object, memory_format: object) -> Any:
    """A copy whose elements lie in the order of a format."""
    copy = laid_out(tensor, memory_format)
    return dispatch(OPERATORS["clone"], (tensor,), {}) if copy is tensor else copy
