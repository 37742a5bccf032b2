"""Tensors that a checkpoint describes: a storage, a place in it, sizes and strides, each checked against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.data.unpickler import Malformed
from rushlight.eager.creation import require_gradient
from rushlight.eager.handle import PYTHON, Handle, make, wrap
from rushlight.eager.memory import MOST_DIMS, tensor_of
from rushlight.eager.subclass import give_attributes, intercepts, is_own_class, make_wrapper_subclass, slots_of
from rushlight.eager.tensor import Parameter, Tensor
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
from rushlight.ir.type import META
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import installed
from rushlight.runtime.descriptor import extent
from rushlight.support.errors import fail, warn
from rushlight.support.frozen import frozen

_MOST = 1 << 62
_MOST_COPIES = 8


@frozen
class StorageKind:
    """A class of storages: of one dtype, or of bytes."""

    dtype: DType | None


_STORAGES: dict[str, DType] = {
    "Bool": bool_,
    "Byte": uint8,
    "Char": int8,
    "Short": int16,
    "Int": int32,
    "Long": int64,
    "Half": float16,
    "BFloat16": bfloat16,
    "Float": float32,
    "Double": float64,
    "ComplexFloat": complex64,
    "ComplexDouble": complex128,
}
STORAGE_NAMES: dict[DType, str] = {dtype: f"{name}Storage" for name, dtype in _STORAGES.items()}
_KINDS: dict[str, StorageKind] = {
    **{f"{name}Storage": StorageKind(dtype) for name, dtype in _STORAGES.items()},
    "UntypedStorage": StorageKind(None),
    "storage.UntypedStorage": StorageKind(None),
    "storage._UntypedStorage": StorageKind(None),
}
_QUANTISED = ("QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage")


def storage_kind(name: str) -> StorageKind | None:
    """Return the class of storages of a name below `torch`; None where there is no such class."""
    for prefix in ("cuda.", ""):
        if name.startswith(prefix) and name[len(prefix) :] in _KINDS:
            return _KINDS[name[len(prefix) :]]
    if name in _QUANTISED:
        fail("A006", f"load: quantised tensors ({name}) are not supported")
    if name.startswith(("float8_", "float4_", "complex32")):
        fail("A006", f"load: the dtype {name} is not supported")
    return None


class LoadedStorage:
    """A storage of a checkpoint: `tensor` shows all of it as one dim, of its dtype, or as bytes."""

    __slots__ = ("copied", "dtype", "tensor")

    def __init__(self, tensor: Tensor, dtype: DType | None) -> None:
        self.tensor = tensor
        self.dtype = dtype
        self.copied = 0

    def copy(self, tensor: Tensor) -> None:
        """Count a copy that is made of a tensor; Malformed where copies are far more than the storage."""
        self.copied += tensor.form.numel * tensor.dtype.itemsize
        if self.copied > _MOST_COPIES * self.nbytes:
            raise Malformed("conjugates of far more elements than the storage has")

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.tensor.form.numel * self.tensor.dtype.itemsize


def shown_whole(storage: Storage, dtype: DType | None) -> Tensor:
    """Return all of a storage as a tensor of one dim."""
    dtype = dtype or uint8
    if storage.address % dtype.itemsize:  # a mapped file whose data are not aligned
        return tensor_of(storage.view().copy().view(dtype.numpy))
    return make(storage, form_of((storage.nbytes // dtype.itemsize,), dtype))


def _whole_numbers(values: object, least: int = 0) -> tuple[int, ...]:
    if not isinstance(values, tuple | list) or len(values) > MOST_DIMS:
        raise Malformed("sizes that are none")
    if not all(type(value) is int and least <= value < _MOST for value in values):
        raise Malformed("sizes that are no whole numbers")
    return tuple(values)


def _placed(storage: object, dtype: DType, offset: object, size: object, stride: object) -> Tensor:
    sizes, strides = _whole_numbers(size), _whole_numbers(stride)
    (start,) = _whole_numbers((offset,))
    if not isinstance(storage, LoadedStorage) or len(sizes) != len(strides):
        raise Malformed("a tensor without storage")
    base = storage.tensor
    form = form_of(sizes, dtype, base.device, strides)
    if form.numel and (start + extent(sizes, strides)) * dtype.itemsize > storage.nbytes:
        raise Malformed("a tensor reaches beyond its storage")
    if base.backing is None or base.offset * base.dtype.itemsize % dtype.itemsize:
        return make(base.backing, form, 0)
    return make(base.backing, form, start + base.offset * base.dtype.itemsize // dtype.itemsize if form.numel else 0)


def _finished(tensor: Tensor, requires_grad: object, hooks: object) -> Tensor:
    if not isinstance(requires_grad, bool) or hooks:
        raise Malformed("a tensor with hooks")
    return require_gradient(tensor, requires_grad)


def _resolved(tensor: Tensor, storage: object, metadata: object) -> Tensor:
    """Return a tensor whose memory holds the conjugates, or the negatives, of what it shows."""
    for name, change in (("conj", Tensor.conj), ("neg", Tensor.neg)):
        if isinstance(metadata, dict) and metadata.get(name):
            assert isinstance(storage, LoadedStorage)
            storage.copy(tensor)
            tensor = change(tensor)
    return tensor


def rebuild_tensor(storage: object, offset: object, size: object, stride: object) -> Tensor:
    """Return a tensor of its storage's dtype."""
    if not isinstance(storage, LoadedStorage) or storage.dtype is None:
        raise Malformed("a tensor without dtype")
    return _placed(storage, storage.dtype, offset, size, stride)


def rebuild_tensor_v2(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object,
    hooks: object,
    metadata: object = None,
) -> Tensor:
    """Return a tensor of its storage's dtype, which may require gradients."""
    tensor = rebuild_tensor(storage, offset, size, stride)
    return _finished(_resolved(tensor, storage, metadata), requires_grad, hooks)


def rebuild_tensor_v3(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object,
    hooks: object,
    dtype: object,
    metadata: object = None,
) -> Tensor:
    """Return a tensor of a dtype on a storage of bytes."""
    if not isinstance(dtype, DType):
        raise Malformed("a tensor without dtype")
    tensor = _placed(storage, dtype, offset, size, stride)
    return _finished(_resolved(tensor, storage, metadata), requires_grad, hooks)


def rebuild_meta(dtype: object, size: object, stride: object, requires_grad: object) -> Tensor:
    """Return a tensor without data."""
    if not isinstance(dtype, DType):
        raise Malformed("a tensor without dtype")
    form = form_of(_whole_numbers(size), dtype, META, _whole_numbers(stride))
    return _finished(make(None, form), requires_grad, None)


def rebuild_parameter(data: object, requires_grad: object, hooks: object, state: object = None) -> Tensor:
    """Return a parameter on the storage of a tensor."""
    if not isinstance(data, Handle) or not isinstance(requires_grad, bool) or hooks:
        raise Malformed("a parameter without data")
    parameter = Parameter(data, requires_grad)
    _give(parameter, state)
    return parameter


def rebuild_of_type(function: object, cls: object, args: object, state: object) -> Tensor:
    """Return a tensor with attributes, a parameter, or a wrapper with the tensors that it holds."""
    if function is rebuild_wrapper and isinstance(args, tuple) and args and args[0] is cls:
        return _with_held(rebuild_wrapper(*args), state)
    rebuild = next((rebuilder for rebuilder in _TENSORS if rebuilder is function), None)
    if rebuild is None or not isinstance(args, tuple) or not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise Malformed("a tensor of an unknown class")
    tensor = rebuild(*args)
    if not is_own_class(cls):  # one that the program allowed
        tensor = wrap(tensor, cls)
        tensor.keys |= PYTHON if intercepts(cls) else 0
        return _with_held(tensor, state)
    if cls is not Tensor and cls is not Parameter:
        raise Malformed("a tensor of an unknown class")
    if cls is Parameter and not isinstance(tensor, Parameter):
        tensor = Parameter(tensor, tensor.requires_grad)
    _give(tensor, state)
    return tensor


def _give(tensor: Tensor, state: object) -> None:
    """Set attributes that no tensor has of itself."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]
    if not state:
        return
    if not isinstance(state, dict) or not all(isinstance(name, str) and not hasattr(Tensor, name) for name in state):
        raise Malformed("attributes that are a tensor's own")
    vars(tensor).update(state)


def rebuild_wrapper(
    cls: object,
    dtype: object,
    size: object,
    stride: object,
    offset: object,
    layout: object,
    device: object,
    requires_grad: object,
) -> Tensor:
    """Return a tensor of a class with `__torch_dispatch__`, without what it holds. No method of the class is called."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor) or not intercepts(cls):
        raise Malformed("a wrapper of no class that answers operators")
    if not isinstance(dtype, DType) or not isinstance(offset, int) or not isinstance(requires_grad, bool):
        raise Malformed("a wrapper without dtype")
    known = str(device).partition(":")[0] in installed()
    return make_wrapper_subclass(
        cls,
        _whole_numbers(size),
        _whole_numbers(stride),
        offset,
        dtype=dtype,
        device=str(device) if known else None,
        requires_grad=requires_grad,
    )


def _with_held(wrapper: Tensor, state: object) -> Tensor:
    """A wrapper with its attributes, as its class restores them; they may have names of methods."""
    restore = getattr(wrapper, "__setstate__", None)
    if restore is not None:
        restore(state)
        return wrapper
    pair: tuple[Any, Any] = state if isinstance(state, tuple) and len(state) == 2 else (state, {})
    attributes, slots = pair
    for one in (attributes, slots):
        if not isinstance(one, dict) or not all(isinstance(name, str) for name in one):
            raise Malformed("a wrapper without attributes")
        if any(callable(value) for value in one.values()):
            raise Malformed("an attribute that may be called in place of a method")
    if not set(slots) <= set(slots_of(type(wrapper))):
        raise Malformed("a slot that the class does not have")
    give_attributes(wrapper, attributes, slots)
    return wrapper


def rebuild_from_numpy(data: object, dtype: object, device: object, requires_grad: object) -> Tensor:
    """Return a tensor whose elements were pickled as an array."""
    if not isinstance(data, np.ndarray) or not isinstance(dtype, DType):
        raise Malformed("a tensor without data")
    warn("A009", "load: the file has tensors as arrays of numpy", hint="save it again")
    return _brought(tensor_of(data.copy()).to(dtype), device, requires_grad)


def rebuild_from_cpu(data: object, dtype: object, device: object, requires_grad: object) -> Tensor:
    """Return a tensor of another device, whose elements were pickled as one of the CPU."""
    if not isinstance(data, Handle) or not isinstance(dtype, DType):
        raise Malformed("a tensor without data")
    if data.form.numel > data.form.extent:
        raise Malformed("a tensor of repeated elements")
    return _brought(make(data.backing, data.form, data.offset).to(dtype), device, requires_grad)


def _brought(tensor: Tensor, device: object, requires_grad: object) -> Tensor:
    """A tensor of the CPU on the device that it was saved from, if a package brings that here."""
    known = str(device).partition(":")[0] in installed()
    return _finished(tensor.to(str(device)) if known else tensor, requires_grad, None)


def _refused(subject: str) -> Callable[..., Tensor]:
    def refuse(*args: object) -> Tensor:
        fail("A006", f"load: {subject} tensors are not supported")

    return refuse


_TENSORS: tuple[Callable[..., Tensor], ...] = (
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
    rebuild_meta,
    rebuild_parameter,
)
REBUILDERS: dict[str, Callable[..., Tensor]] = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
    "torch._utils._rebuild_device_tensor_from_numpy": rebuild_from_numpy,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": rebuild_from_cpu,
    "torch._utils._rebuild_qtensor": _refused("quantised"),
    "torch._utils._rebuild_sparse_tensor": _refused("sparse"),
    "torch._utils._rebuild_nested_tensor": _refused("nested"),
    "torch._utils._rebuild_wrapper_subclass": rebuild_wrapper,
    "torch._tensor._rebuild_from_type_v2": rebuild_of_type,
}
"""PyTorch's names of the functions that rebuild tensors."""
