"""A tensor's memory as a numpy array, and back, without copies."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle, fail_without_data, make
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import (
    DType,
    bool_,
    float32,
    float64,
    from_numpy_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import error, fail

Array = NDArray[Any]
MOST_DIMS = 64  # of numpy's arrays


def array_of(tensor: Handle) -> Array:
    """The tensor's elements as an array that shares its storage and keeps it alive. Errors: V003, S002, S012.

    Of a tensor in memory that the host does not see it is a copy, which cannot be written to.
    """
    form, storage = tensor.form, tensor.backing
    if storage is None:
        fail_without_data(tensor)
    itemsize = form.dtype.itemsize
    strides = tuple([stride * itemsize for stride in form.strides])
    shape = tuple(form.shape)
    if len(shape) > MOST_DIMS:
        fail("S002", f"arrays have at most {MOST_DIMS} dims", tensor=tensor)
    if not form.numel:
        return np.empty(shape, form.dtype.numpy)
    if storage.__class__ is not Storage:
        data, start = storage.read(tensor.offset * itemsize, form.nbytes), 0
    else:
        data, start = storage.view(), tensor.offset * itemsize
    try:
        return np.ndarray(shape, form.dtype.numpy, data, start, strides)
    except ValueError as cause:  # a storage that was resized
        raise error("S012", "a tensor reaches beyond its storage", bytes=storage.nbytes) from cause


_CTYPES: dict[DType, Any] = {
    bool_: ctypes.c_bool,
    uint8: ctypes.c_uint8,
    int8: ctypes.c_int8,
    int16: ctypes.c_int16,
    int32: ctypes.c_int32,
    int64: ctypes.c_int64,
    float32: ctypes.c_float,
    float64: ctypes.c_double,
}


def first_element(tensor: Handle) -> Any:
    """The first element of a tensor as a Python number, complex ones and 16-bit floats too. Errors: V003, V004."""
    storage, dtype = tensor.backing, tensor.form.dtype
    if type(storage) is Storage and dtype in _CTYPES:  # without an array, which takes ten times as long
        return _CTYPES[dtype].from_address(storage.address + dtype.itemsize * tensor.offset).value
    element = array_of(tensor).reshape(-1)[0]
    return float(element) if dtype.numpy.kind == "V" else element.item()


def require_host_memory(tensor: Handle) -> None:
    """V004 for a tensor in memory that the host does not see: an array cannot share it."""
    storage = tensor.backing
    if storage is not None and storage.__class__ is not Storage:
        storage.view()


def asked_array_of(tensor: Handle) -> Array:
    """`array_of` for a program that asks for values: C002 while it is traced, since they would become constants."""
    if STATE.tracer is not None:
        fail_without_data(tensor)
    return array_of(tensor)


def tensor_of(array: Array, *, allow_readonly: bool = False) -> Any:
    """A tensor that shares and keeps an array's memory; M002 for arrays that tensors cannot show."""
    dtype = from_numpy_dtype(array.dtype)
    if dtype is None:
        fail("M002", f"from_numpy: there is no dtype for {array.dtype}", hint="convert it with astype() first")
    if any(stride < 0 for stride in array.strides):
        fail("M002", "from_numpy: negative strides are not supported", hint="copy it first: array.copy()")
    if any(stride % dtype.itemsize for stride in array.strides) or array.ctypes.data % dtype.itemsize:
        fail("M002", "from_numpy: the array is not aligned to its elements", hint="copy it first: array.copy()")
    storage = Storage.from_buffer(array, allow_readonly=allow_readonly)
    strides = tuple([stride // dtype.itemsize for stride in array.strides])
    form = form_of(array.shape, dtype, strides=strides if array.size else None)
    return make(storage, form, (int(array.ctypes.data) - storage.address) // dtype.itemsize if array.size else 0)


def copied(array: Array, dtype: DType) -> Any:
    """A tensor with a copy of an array's elements, converted."""
    form = form_of(array.shape, dtype)
    result = make(Storage.allocate(form.nbytes), form)
    if form.numel:
        with np.errstate(all="ignore"):
            np.copyto(array_of(result), array, casting="unsafe")
    return result
