"""Tensors as pickles: bytes, dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.eager.arguments import place
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import require_gradient
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import PYTHON, Handle, make, wrap
from rushlight.eager.memory import array_of
from rushlight.eager.subclass import give_state, intercepts, is_own_class
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import BY_NAME
from rushlight.ir.type import CPU, Device
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import allocate_on
from rushlight.support.errors import fail, require

State = tuple[bytes | None, str, tuple[Any, ...], tuple[Any, ...], str, bool]


def state_of(tensor: Handle) -> State:
    """Elements in storage order, dtype, shape, strides, device and whether gradients are wanted. G012 unless a leaf."""
    leaf = tensor.gradient is None or tensor.gradient.node is None
    require(leaf, "G012", "pickle: only leaves can be saved", hint="call detach() first", tensor=tensor)
    form = tensor.form
    strides = form.strides if form.is_dense else form_of(tuple(form.shape), form.dtype).strides
    content: bytes | None = None
    if tensor.backing is not None:
        saved = form_of(tuple(form.shape), form.dtype, strides=strides)
        copy = make(Storage.allocate(saved.nbytes), saved)
        if form.numel:
            np.copyto(array_of(copy), array_of(tensor))
        content = copy.backing.view().tobytes()
    return content, form.dtype.name, tuple(form.shape), strides, str(form.device), requires(tensor)


def rebuild_tensor(
    cls: type[Handle],
    content: bytes | None,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: str,
    requires_grad: bool,
    state: object,
) -> Any:
    """The tensor of a state that `state_of` gave."""
    form = form_of(tuple(shape), BY_NAME[dtype], place(device) or CPU, tuple(strides))
    storage = None
    if content is not None:
        (storage,) = allocate_on(form.device)((form.nbytes,))
        storage.write(0, np.frombuffer(content, np.uint8))
    result = make(storage, form, cls=cls)
    result.keys |= PYTHON if intercepts(cls) else 0
    require_gradient(result, requires_grad)
    give_state(result, state)
    return result


def copied(tensor: Any, memo: dict[Any, Any]) -> Any:
    """A tensor of its class on a copy of its storage, which those copied together share. Errors: C002 in a trace."""
    cls = type(tensor)
    if tensor.backing is not None and STATE.tracer is None and not STATE.maps:
        made = memo.setdefault(_STORAGES, {})
        if id(tensor.backing) not in made:
            made[id(tensor.backing)] = (tensor.backing, _copy_of(tensor.backing, tensor.form.device))
        result = make(made[id(tensor.backing)][1], tensor.form, tensor.offset, cls)
        result.keys |= PYTHON if intercepts(cls) else 0
        return result
    if STATE.tracer is not None and tensor.view_of is not None:
        hint = "copy what it is a view of, or clone() it"
        fail("C002", "deepcopy: the copy of a view shares memory with copies of others", tensor=tensor, hint=hint)
    if STATE.tracer is not None or is_own_class(cls):
        return wrap(tensor.detach().clone(), cls)
    with no_grad():
        result = tensor.clone()
    what = f"deepcopy: a clone of {cls.__name__} is of its class"
    require(type(result) is cls, "A004", what, found=type(result).__name__)
    return result


_STORAGES = "rushlight.storages"


def _copy_of(storage: Storage, device: Device) -> Storage:
    (result,) = allocate_on(device)((storage.nbytes,))
    result.write(0, storage.read(0, storage.nbytes))
    return result
