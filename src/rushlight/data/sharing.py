"""Tensors between processes: what `multiprocessing` sends of one, and what a process makes of that.

A tensor is sent as its layout and the descriptor of its memory, which is shared: a write in one process is seen in all.
Importing this module, as sharing memory does, tells `multiprocessing` so. A process that ends gives receivers
some seconds to fetch what it sent.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import resource_sharer, util
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from rushlight.eager.autograd.history import requires
from rushlight.eager.creation import require_gradient
from rushlight.eager.handle import PYTHON, Handle, make
from rushlight.eager.storage.untyped import UntypedStorage
from rushlight.eager.subclass import intercepts
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.eager.typed_storage import TypedStorage
from rushlight.ir.dtype import BY_NAME
from rushlight.runtime.allocator import Storage
from rushlight.runtime.shared import adopt, share
from rushlight.support.errors import error, require

_FETCH_SECONDS = 5.0


def _wait_for_receivers() -> None:
    """Waits until all descriptors are fetched that this process offers, some seconds at most."""
    offered: Any = vars(getattr(resource_sharer, "_resource_sharer")).get("_cache")  # noqa: B009 - of Python's module
    until = time.monotonic() + _FETCH_SECONDS
    for feeder in threading.enumerate():  # of queues, which are closed by now
        if feeder.name == "QueueFeederThread":
            feeder.join(_FETCH_SECONDS)
    while offered and time.monotonic() < until:
        time.sleep(0.005)
    resource_sharer.stop(_FETCH_SECONDS)  # when the one that is being fetched has gone


def _wait_at_the_end(of: object) -> None:
    util.Finalize(None, _wait_for_receivers, exitpriority=5)  # between the end of queues, 10, and that of listeners, 0


_wait_at_the_end(None)
util.register_after_fork(_wait_at_the_end, _wait_at_the_end)


def announce(cls: type[Handle]) -> None:
    """Lets `multiprocessing` send tensors of a class by their memory."""
    ForkingPickler.register(cls, _reduced_tensor)


class _Path:
    """A file that shows a descriptor of this process to others of this machine, as long as it is open."""

    def __init__(self, descriptor: int) -> None:
        self.path = f"/proc/{os.getpid()}/fd/{descriptor}"

    def detach(self) -> int:
        """A descriptor of the process that asks."""
        return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)


def pickled_for_programs(value: object) -> bytes:
    """A pickle for programs that run while this process waits, and that share its tensors' memory."""
    buffer = io.BytesIO()
    pickler = ForkingPickler(buffer)
    reducer: Any
    for cls, reducer in list(pickler.dispatch_table.items()):
        if reducer in (_reduced_tensor, _reduced_storage):
            pickler.dispatch_table[cls] = partial(reducer, send=_Path)
    pickler.dump(value)
    return buffer.getvalue()


def _reduced_tensor(tensor: Any, send: Callable[[int], object] = DupFd) -> Any:
    if tensor.backing.__class__ is not Storage:  # of another device, or without data
        return tensor.__reduce_ex__(2)
    leaf = tensor.gradient is None or tensor.gradient.node is None
    hint = "call detach() first"
    require(leaf, "G012", "multiprocessing: only leaves are sent to other processes", tensor=tensor, hint=hint)
    form = tensor.form
    layout = (tensor.offset, tuple(form.shape), form.strides, form.dtype.name)
    return _received, (type(tensor), *_sent(tensor.backing, send), *layout, requires(tensor), dict(vars(tensor)))


def _sent(storage: Storage, send: Callable[[int], object]) -> tuple[object, int]:
    return send(share(storage).descriptor), storage.nbytes


def _storage_of(sent: Any, nbytes: int) -> Storage:
    try:
        descriptor = sent.detach()
    except (OSError, EOFError) as cause:
        hint = "keep the sender alive until what it sent was received"
        raise error("M003", "a tensor was sent by a process that has ended", hint=hint) from cause
    return adopt(descriptor, nbytes)


def _received(
    cls: type[Handle],
    sent: object,
    nbytes: int,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    requires_grad: bool,
    attributes: dict[str, object],
) -> object:
    result = make(_storage_of(sent, nbytes), form_of(shape, BY_NAME[dtype], strides=strides), offset, cls)
    result.keys |= PYTHON if intercepts(cls) else 0
    vars(result).update(attributes)
    return require_gradient(result, requires_grad)


def _reduced_storage(storage: UntypedStorage, send: Callable[[int], object] = DupFd) -> Any:
    if storage.memory.__class__ is not Storage:
        return storage.__reduce_ex__(2)
    assert storage.memory is not None
    return _received_storage, _sent(storage.memory, send)


def _received_storage(sent: object, nbytes: int) -> UntypedStorage:
    return UntypedStorage.of_memory(_storage_of(sent, nbytes))


for _class in (Tensor, Parameter):
    announce(_class)
ForkingPickler.register(UntypedStorage, _reduced_storage)
ForkingPickler.register(TypedStorage, lambda storage: (TypedStorage.of, (storage.untyped(), storage.dtype)))
