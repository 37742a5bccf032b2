"""Methods that change in place what a tensor shows: its dims, or its memory. No element is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rushlight.eager.arguments import (
    distance,
    fixed_integer,
    fixed_integers,
    integer,
    integers,
    required_tensor,
    shape_of,
)
from rushlight.eager.autograd.history import before_rewrite, requires
from rushlight.eager.autograd.write import check_write
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Scope, dispatch
from rushlight.eager.handle import (
    AUTOGRAD,
    BATCHED,
    PYTHON,
    SPARSE,
    Handle,
    allocate,
    fail_without_data,
    is_wrapper,
    make,
    move,
    share,
    twin,
)
from rushlight.eager.storage.formats import laid_out
from rushlight.eager.storage.untyped import UntypedStorage
from rushlight.eager.tensor_meta import form_of
from rushlight.eager.typed_storage import TypedStorage
from rushlight.ir.type import Device
from rushlight.ops import OPERATORS
from rushlight.ops.record import Operator
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import allocate_on
from rushlight.runtime.resizing import is_resizable, resize
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


# Views.


@checked
def t_(input: Tensor) -> Tensor:
    """Exchange the two dims of a matrix in place; fewer dims stay as they are."""
    return _shown("t_", input, OPERATORS["t"], {})


@checked
def transpose_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dims in place."""
    dims = {"dim0": fixed_integer(dim0), "dim1": fixed_integer(dim1)}
    return _shown("transpose_", input, OPERATORS["transpose"], dims)


@checked
def squeeze_(input: Tensor, dim: object = None) -> Tensor:
    """Drop dims of size 1 in place: all, or those named."""
    return _shown("squeeze_", input, OPERATORS["squeeze"], {"dim": fixed_integers(dim)})


@checked
def unsqueeze_(input: Tensor, dim: int) -> Tensor:
    """Insert a dim of size 1 in place."""
    return _shown("unsqueeze_", input, OPERATORS["unsqueeze"], {"dim": fixed_integer(dim)})


@checked
def as_strided_(input: Tensor, size: object, stride: object, storage_offset: int | None = None) -> Tensor:
    """Show other elements of the storage in place, by sizes, strides and the place of the first one."""
    attrs = {"size": integers(size), "stride": integers(stride), "storage_offset": distance(storage_offset, input)}
    return _shown("as_strided_", input, OPERATORS["as_strided"], attrs)


def _shown(name: str, tensor: object, op: Operator, attrs: Mapping[str, object]) -> Any:
    """Let a tensor show what a view of it shows, with the view's history.

    A tensor that is no view becomes a view of a hidden one, which stays what it was: what was a view of the tensor is a
    view of that one (`View.base`). Errors: those of a write, G002 and G006.
    """
    target = _changeable(name, tensor)
    if target.keys & BATCHED:
        _take_over(target, dispatch(op, (target,), attrs))
        return target
    leaf = target.gradient is not None and target.gradient.required
    if STATE.grad and requires(target):
        check_write(name, target)
    before_rewrite(target)
    base = target
    if target.view_of is None:
        base = twin(target) if is_wrapper(target) else share(target)
        if not leaf:
            base.gradient, base.keys = target.gradient, target.keys
    gradient = target.gradient
    with Scope(grad=True):
        view = dispatch(op, (base,), attrs)
    _take_over(target, view)
    if leaf:  # under no_grad: it stays a leaf
        target.gradient = gradient
        target.keys |= AUTOGRAD
    target.version.value += 1
    return target


def _take_over(target: Handle, view: Any) -> None:
    move(target, view)
    if is_wrapper(target):
        vars(target).update(vars(view))
    target.keys, target.view_of, target.gradient = view.keys, view.view_of, view.gradient
    target.node = view.node  # of a trace: it made the tensor, and unties it when it ends


def _changeable(name: str, tensor: object) -> Any:
    """The tensor, unless it belongs to somebody else: A006."""
    target, tracer = required_tensor(tensor), STATE.tracer
    if target.keys & SPARSE or (target.keys & PYTHON and not is_wrapper(target)):
        fail("A006", f"{name}: not supported for this class of tensors", tensor=target)
    outside = tracer is not None and not target.keys & BATCHED and _is_input(target, tracer)
    if outside:
        hint = "use the form that returns a view"
        fail(
            "A006", f"{name}: the dims of what a compiled function is given cannot be changed", tensor=target, hint=hint
        )
    return target


def _is_input(target: Handle, tracer: Any) -> bool:
    if is_wrapper(target):
        return not tracer.has_made(target)
    return target.backing is not None or tracer.binding(target).cell.source is target


# Memory.


@checked
def set_(input: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Let the tensor show the memory of another tensor or storage; without one, no memory.

    Sizes, strides and the place of the first element are those of a source that is a tensor, unless they are given; all
    elements in a row of a storage. Errors: A006 in a compiled function, D002 for another dtype, S012 beyond the memory.
    """
    target = _movable("set_", input)
    if source is None:
        _put(target, allocate(form_of((0,), target.dtype, target.device)))
        return target
    if isinstance(source, Handle):
        same = source.dtype is target.dtype and source.device == target.device
        require(same, "D002", "set_: the source has another dtype", tensor=target, source=source)
        if size is None:
            _put(target, source)
            return target
        storage, version = source.backing, source.version
    else:
        require(
            isinstance(source, (UntypedStorage, TypedStorage)),
            "A001",
            "set_: a tensor or a storage is expected",
            source=source,
        )
        same = isinstance(source, UntypedStorage) or source.dtype is target.dtype
        require(same, "D002", "set_: the source has another dtype", tensor=target, source=source)
        storage, version = source.untyped().memory, None
    if storage is None:
        fail_without_data(target)
    sizes = (storage.nbytes // target.dtype.itemsize,) if size is None else shape_of((size,))
    start, strides = int(integer(storage_offset)), integers(stride)
    fits = strides is None or len(strides) == len(sizes)
    require(fits, "A004", "set_: one stride for each size is needed", size=sizes, stride=strides)
    form = form_of(sizes, target.dtype, target.device, strides)
    fits = start >= 0 and (not form.numel or (start + form.extent) * target.dtype.itemsize <= storage.nbytes)
    require(fits, "S012", "set_: the tensor would reach outside the storage", size=sizes, offset=start)
    shown = make(storage, form, start)
    shown.version = shown.version if version is None else version
    _put(target, shown)
    return target


@checked
def resize_(input: Tensor, *sizes: object, memory_format: object = None) -> Tensor:
    """Give the tensor another shape, row-major, over the elements of its memory.

    Of its own shape it stays as it is. Where there are too few it gets new memory, with the old elements first and
    the others undefined. Errors: A006 in a compiled function, G002 for a tensor that requires gradients.
    """
    target = _movable("resize_", input)
    form = form_of(shape_of(sizes), target.dtype, target.device)
    if memory_format is not None:
        form = laid_out(allocate(form_of(form.shape, form.dtype, Device("meta"))), memory_format).form
        form = form_of(form.shape, form.dtype, target.device, form.strides)
    if form is target.form or (memory_format is None and form.shape == target.form.shape):
        return target
    if target.backing is None:
        _put(target, allocate(form))
        return target
    if (target.offset + form.numel) * form.dtype.itemsize <= target.backing.nbytes:
        shown = make(target.backing, form, target.offset)
        shown.version = target.version
    else:
        nbytes = (target.offset + form.numel) * form.dtype.itemsize
        shown = make(_longer(target.backing, nbytes, target.device), form, target.offset)
        if shown.backing is target.backing:
            shown.version = target.version
    _put(target, shown)
    return target


def _longer(storage: Storage, nbytes: int, device: Device) -> Storage:
    """The storage itself with more room, or another one with its bytes where it cannot be resized."""
    if is_resizable(storage):
        resize(storage, nbytes)
        return storage
    (longer,) = allocate_on(device)((nbytes,))
    longer.write(0, storage.read(0, storage.nbytes))
    return longer


@checked
def resize_as_(input: Tensor, the_template: object, *, memory_format: object = None) -> Tensor:
    """Give the tensor the shape of another one, as `resize_` does."""
    return resize_(input, tuple(required_tensor(the_template).shape), memory_format=memory_format)


def _movable(name: str, tensor: object) -> Any:
    """The tensor, whose memory may be exchanged: A006 in a compiled function or `vmap`, G002 with gradients."""
    target = required_tensor(tensor)
    if STATE.tracer is not None or target.keys & (BATCHED | PYTHON | SPARSE):
        fail("A006", f"{name}: the memory of a tensor cannot be exchanged here", tensor=target)
    if STATE.grad and requires(target):
        fail("G002", f"{name}: the memory of a tensor that requires gradients cannot be exchanged", tensor=target)
    return target


def _put(target: Any, shown: Any) -> None:
    """Let a tensor show other memory; it is no view any more."""
    target.version.value += 1
    move(target, shown)
    target.version, target.view_of, target.keys = shown.version, None, shown.keys | (target.keys & AUTOGRAD)
