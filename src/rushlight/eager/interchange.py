"""DLPack: memory that is handed to other libraries, and taken from them, without a copy.

The protocol is https://dmlc.github.io/dlpack. Numpy makes and takes the capsules; dtypes that it lacks, as bfloat16,
are written into the capsule's description.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rushlight.eager.arguments import place
from rushlight.eager.memory import asked_array_of, copied, require_host_memory, tensor_of
from rushlight.ir.dtype import DType, bfloat16, bool_
from rushlight.support.errors import RushlightError, error, fail, require

CPU_DEVICE = (1, 0)
_VERSIONED = b"dltensor_versioned"
_READ_ONLY = 1
_COPIED = 2
_UNSIGNED = 1
_AS_BITS: dict[DType, tuple[int, type[np.generic]]] = {bool_: (6, np.uint8), bfloat16: (4, np.uint16)}
"""Dtypes whose elements numpy gets as bits: their number in the protocol, and the dtype of as many bits."""
_KINDS = {code: (dtype, bits) for dtype, (code, bits) in _AS_BITS.items()}
_ASKED = (1, 0) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None  # the version that numpy takes


class _Description(ctypes.Structure):
    """The protocol's description of an array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Header(ctypes.Structure):
    """What precedes the description from version 1.0 on."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _described(capsule: object) -> tuple[_Description, int]:
    """The description in a capsule, and its flags."""
    name = _name_of(capsule)
    require(name in (_VERSIONED, b"dltensor"), "M002", "from_dlpack: the capsule was used, or is of another protocol")
    address = _pointer_of(capsule, name)
    if name != _VERSIONED:
        return _Description.from_address(address), 0
    return _Description.from_address(address + ctypes.sizeof(_Header)), _Header.from_address(address).flags


def exported(tensor: Any, stream: object, version: object, device: object, copy: bool | None) -> object:
    """Return a capsule on a tensor's memory, or on a copy of it."""
    require(stream is None or stream == -1, "A002", "__dlpack__: the CPU has no streams", stream=stream)
    fits = device is None or (isinstance(device, tuple) and tuple(map(int, device)) == CPU_DEVICE)
    require(fits, "M002", "__dlpack__: the tensor is on the CPU, and stays there", device=device)
    require_host_memory(tensor)
    array: Any = asked_array_of(tensor)
    array = array.copy() if copy else array
    code, bits = _AS_BITS.get(tensor.dtype, (None, None))
    array = array if bits is None else array.view(bits)
    modern = isinstance(version, tuple) and version >= (1, 0) and _ASKED is not None
    capsule = array.__dlpack__(max_version=version) if modern else array.__dlpack__()
    description, _ = _described(capsule)
    if modern and copy:  # numpy has no flag for copies that its caller made
        _Header.from_address(_pointer_of(capsule, _VERSIONED)).flags |= _COPIED
    if code is not None:
        description.code = code
    return capsule


class _Taken:
    """A capsule that was asked for, for numpy to take."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


def _capsule_of(source: Any, copy: bool | None) -> object:
    if not hasattr(source, "__dlpack__"):
        return source  # a capsule, as to_dlpack makes
    device = tuple(map(int, source.__dlpack_device__()))
    require(device[0] == CPU_DEVICE[0], "M002", "from_dlpack: the array is not on the CPU", device=device)
    if _ASKED is not None:
        try:
            return source.__dlpack__(max_version=_ASKED, copy=copy)
        except TypeError as cause:  # of a library that has an earlier version
            if isinstance(cause, RushlightError):
                raise
    return source.__dlpack__()


def taken(source: object, device: object = None, copy: bool | None = None) -> Any:
    """Return a tensor on the memory of an object with the protocol.

    It is a copy where the memory is read-only, or where that is asked for.
    """
    wanted = place(device)
    try:
        capsule = _capsule_of(source, copy)
        description, flags = _described(capsule)
        kind, bits = _KINDS.get(description.code, (None, None))
        if bits is not None:
            require(description.bits == 8 * np.dtype(bits).itemsize, "M002", "from_dlpack: there is no such dtype")
            description.code = _UNSIGNED
        holder: Any = _Taken(capsule)
        array = np.from_dlpack(holder)
    except RushlightError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as cause:
        raise error("M002", f"from_dlpack: {cause}") from cause
    array = array if kind is None else array.view(kind.numpy)
    if flags & _READ_ONLY and copy is False:
        fail("M002", "from_dlpack: the memory is read-only", hint="pass copy=None")
    # Numpy takes older exporters' memory to be read-only; the protocol has it writable.
    result = tensor_of(array, allow_readonly=True)
    if copy or flags & _READ_ONLY:
        result = copied(array, result.dtype)
    return result if wanted is None or wanted == result.device else result.to(wanted)
