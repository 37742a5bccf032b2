"""Copies between devices: the one way for elements to leave a device's memory, or to get there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.eager.dispatch import Alias, Key, bit, call_below, register
from rushlight.eager.execution.mutate import shows_twice
from rushlight.eager.handle import META, Handle, allocate, fail_without_data, make
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import COPY
from rushlight.eager.tensor_meta import form_of, form_of_type
from rushlight.ir.type import CPU
from rushlight.ops.record import OPERATORS
from rushlight.runtime.allocator import Storage
from rushlight.runtime.backend import Region, backend_of
from rushlight.support.errors import require
from rushlight.term import Op

TO_DEVICE = OPERATORS["to_device"]


def region_of(tensor: Handle) -> Region:
    """Where a tensor's elements lie on its device."""
    form = tensor.form
    return Region(tensor.address(), tuple(form.shape), tuple(form.strides), form.dtype)


def on_cpu(tensor: Handle) -> Any:
    """The tensor if it is on the CPU, else a copy there, of the same strides."""
    if tensor.form.device is CPU:
        return tensor
    if tensor.backing is None:
        fail_without_data(tensor)
    form = form_of(tuple(tensor.form.shape), tensor.dtype, CPU, tensor.form.strides, tensor.form.type.weak)
    storage = Storage.allocate(form.nbytes)
    storage.write(0, tensor.backing.read(int(tensor.offset) * form.dtype.itemsize, form.nbytes))
    return make(storage, form)


def call_on_cpu(op: Op, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """What the CPU's kernel gives for operands of the CPU."""
    return call_below(Key.META, op, bit(Key.CPU), operands, attrs)


def copy_between(target: Handle, source: Handle) -> None:
    """Overwrites a tensor with one of another device, converted and broadcast. Errors: D003, S009, S013."""
    if source.backing is None or target.backing is None:
        fail_without_data(source if source.backing is None else target)
    if target.form.device is CPU:
        call_on_cpu(COPY, (target, on_cpu(source)), {})
        return
    form = target.form
    require(not shows_twice(form.type), "S013", "copy_: the target's elements overlap", target=form.type)
    COPY.check(form.type, source.form.type)
    if source.dtype is not form.dtype:
        source = call_on_cpu(OPERATORS["to_dtype"], (on_cpu(source),), {"dtype": form.dtype})
    backend_of(form.device).upload(region_of(target), array_of(source))
    target.version.value += 1


def _moved(op: Op, active: int, operands: tuple[Handle, ...], attrs: Mapping[str, Any]) -> Handle:
    """The kernel of `to_device`, on every device."""
    source = operands[0]
    result: Handle = allocate(form_of_type(TO_DEVICE.infer((source.form.type,), attrs)))
    if result.keys & META and source.keys & META:
        return result
    if not result.keys & META:
        copy_between(result, source)
        result.version.value = 0
    return result


register(TO_DEVICE, Alias.BACKENDS, _moved, boxed=True, leaf=True)
