"""The keys of devices: an operator by the device's kernel, by its code generator, in parts, or by the CPU on copies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rushlight.eager.dispatch import Key, running, set_device_kernel
from rushlight.eager.dispatch.table import backend_key, device_named
from rushlight.eager.execution.artifact import Declined
from rushlight.eager.execution.copying import call_on_cpu, copy_between, on_cpu, region_of
from rushlight.eager.execution.decompose import decomposition
from rushlight.eager.execution.kernels import Run, composite_plan, operator_plan
from rushlight.eager.execution.mutate import check_target, run_mutation, target_of
from rushlight.eager.execution.operands import attribute_key, flatten, form_key, form_of_operand
from rushlight.eager.execution.tables import block_key, plan_table
from rushlight.eager.execution.views import runs_in_parts, view_plan
from rushlight.eager.handle import Handle, allocate
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import FILL, Mutation
from rushlight.eager.tensor_meta import form_of, form_of_type
from rushlight.ir.type import CPU, Device
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact, Operator, calls_host
from rushlight.runtime.backend import Backend, backend_of
from rushlight.support import events
from rushlight.support.errors import error, require, warn

ON_COPIES = "the CPU, on copies"
_MOST_PLANS = 1 << 14
Operands = tuple[Any, ...]
Attrs = Mapping[str, Any]
_plans: dict[Hashable, Run] = plan_table()
_fallbacks: dict[tuple[str, str], int] = {}  # by device and operator


def fallback_counts() -> dict[tuple[str, str], int]:
    """How often the CPU ran an operator for a device: by the device's name and the operator's."""
    return dict(_fallbacks)


def forget_fallbacks() -> None:
    """Counts from 0 again."""
    _fallbacks.clear()


def way_of(backend: Backend, op: Operator) -> str:
    """What runs an operator on a device, as far as that does not depend on operands.

    A composite of which a device has no kernel runs in parts where it has kernels for these.
    """
    if op.name in backend.kernels:
        return "its kernels"
    if op.view_rule is not None:
        return "views"
    generates = type(backend).compile is not Backend.compile
    if generates and Fact.HOST not in op.facts:
        return "its code generator"
    return ON_COPIES if op.decompose_rule is None else "other operators"


def without_kernel(backend: Backend) -> list[str]:
    """The operators of which a device lacks a kernel, so that the CPU runs them on copies."""
    own = [op for op in OPERATORS.values() if Fact.FOREIGN not in op.facts]
    return sorted([op.name for op in own if way_of(backend, op) == ON_COPIES])


def run_on_device(op: Any, active: int, operands: Operands, attrs: Attrs) -> Any:
    """The boxed kernel that answers every operator at the key of a device."""
    device = _device_of(active, operands, attrs)
    if op.__class__ is Mutation:
        return _mutated(device, op, operands, attrs)
    key = (op, block_key(), device, attribute_key(attrs), *[form_key(operand) for operand in operands])
    run = _plans.get(key)
    if run is not None:
        return run(operands)
    run = Choice(device, op, operands, attrs).call
    result = run(operands)
    if len(_plans) > _MOST_PLANS:
        _plans.clear()
    _plans[key] = run  # not before: a call that is refused is asked again, and refused for the same reason
    return result


def _device_of(active: int, operands: Sequence[object], attrs: Attrs) -> Device:
    """The device of a call: that of the first operand beside those of the CPU, else the one that it names."""
    for operand in flatten(operands):
        if isinstance(operand, Handle) and operand.form.device is not CPU:
            return operand.form.device
    return attrs.get("device") or Device(device_named(Key(active.bit_length() - 1)), 0)


def _mutated(device: Device, op: Mutation, operands: Operands, attrs: Attrs) -> Handle:
    target: Handle = op.target_of(operands)
    if op.base is None and isinstance(operands[1], Handle):
        source: Handle = operands[1]
        if source.form.device != target.form.device and (source.form.shape or source.form.device is not CPU):
            copy_between(target, source)
            return target
    _require_one_device(op.name, target.form.device, operands)
    try:
        return run_mutation(op, operands, attrs, run_on_device)
    except Declined:
        return _written(op, operands, attrs)


def _written(op: Mutation, operands: Operands, attrs: Attrs) -> Handle:
    """A mutation on a device that compiles no graph of it: its value is computed, and then copied."""
    target, base = target_of(op, operands, attrs), op.base_operands(operands)
    check_target(op, base, attrs, target)
    value: Any = base[0] if op.base is None else run_on_device(op.base, target.form.keys, base, attrs)
    if not isinstance(value, Handle):
        value = call_on_cpu(FILL, (allocate(form_of((), target.dtype)), value), {})
    if value.dtype is not target.dtype:
        convert = call_on_cpu if value.form.device is CPU else _redispatched
        value = convert(OPERATORS["to_dtype"], (value,), {"dtype": target.dtype})
    backend, region = backend_of(target.form.device), region_of(target)
    if value.form.device is CPU:
        backend.upload(region, array_of(value))
    else:
        if not backend.copies:
            note_fallback(target.form.device, "copy_")
        backend.copy(region, region_of(value).broadcast(region.shape))
    target.version.value += 1
    return target


def _redispatched(op: Operator, operands: Operands, attrs: Attrs) -> Any:
    return run_on_device(op, operands[0].form.keys, operands, attrs)


def _require_one_device(op: str, device: Device, operands: Sequence[object]) -> None:
    """V002 where an operand is elsewhere. One without dims on the CPU is a parameter."""
    for operand in flatten(operands):
        if isinstance(operand, Handle) and operand.form.device != device:
            parameter = operand.form.device is CPU and not operand.form.shape
            hint = "move one operand with .to(device)"
            text = f"{op}: operands are on different devices"
            require(parameter, "V002", text, a=device, b=operand.form.device, hint=hint)


class Choice:
    """Who runs calls of one kind: the first that does not decline.

    A kernel declines a call; a code generator declines all calls of these forms.
    """

    __slots__ = ("_attrs", "_backend", "_device", "_op", "_runs", "_waiting")

    def __init__(self, device: Device, op: Operator, operands: Operands, attrs: Attrs) -> None:
        _require_one_device(op.name, device, operands)
        self._device = device
        self._backend = backend_of(device)
        self._op = op
        self._attrs = dict(attrs)
        if "device" in attrs and attrs["device"] is None:
            self._attrs["device"] = device
        self._runs: list[Run] = []
        self._waiting: Iterator[Run] = self._candidates(operands)

    def call(self, operands: Operands) -> Any:
        """The result."""
        for run in self._runs:
            result = run(operands)
            if result is not NotImplemented:
                return result
        for run in self._waiting:
            self._runs.append(run)
            result = run(operands)
            if result is not NotImplemented:
                return result
        raise error("A006", f"{self._op.name}: no kernel answers", device=self._device)

    def _candidates(self, operands: Operands) -> Iterator[Run]:
        op, attrs = self._op, self._attrs
        view = view_plan(op, operands, attrs)
        if view is not None:
            yield view.call
            return
        kernel = self._backend.kernels.get(op.name)
        if kernel is not None:
            yield KernelCall(self._backend, op, kernel, operands, attrs).call
        key = backend_key(self._device.type)
        if runs_in_parts(op, operands, attrs) or self._has_kernels_for(operands):
            yield composite_plan(op, operands, attrs, key)
            return
        if not calls_host(op, flatten(operands), attrs):
            if self._gives_to_host(operands):
                yield self._read
                return
            with suppress(Declined):
                yield operator_plan(op, operands, attrs)
        yield self._run_on_cpu

    def _gives_to_host(self, operands: Operands) -> bool:
        """Whether the result is on the CPU whatever operands are on, as a number that Python will read is."""
        types = _result_types(self._op, operands, self._attrs)
        return any(type_.device == CPU for type_ in (types if isinstance(types, tuple) else (types,)))

    def _read(self, operands: Operands) -> Any:
        return call_on_cpu(self._op, _of_host(operands), self._attrs)

    def _has_kernels_for(self, operands: Operands) -> bool:
        """Whether the operator consists of others for each of which the device has a kernel."""
        kernels = self._backend.kernels
        if not kernels or self._op.decompose_rule is None or calls_host(self._op, flatten(operands), self._attrs):
            return False
        calls = decomposition(self._op, operands, self._attrs).calls
        return all(
            not isinstance(call.op, Operator) or call.op.name in kernels or call.op.view_rule is not None
            for call in calls
        )

    def _run_on_cpu(self, operands: Operands) -> Any:
        """The CPU's result, copied to the device."""
        note_fallback(self._device, self._op.name)
        attrs = {**self._attrs, "device": CPU} if "device" in self._attrs else self._attrs
        result = call_on_cpu(self._op, _of_host(operands), attrs)
        wanted = self._attrs.get("device") or self._device
        return tuple([moved(one, wanted) for one in result]) if isinstance(result, tuple) else moved(result, wanted)


def _result_types(op: Operator, operands: Operands, attrs: Attrs) -> Any:
    """The type of the result, or the tuple of them."""
    return op.infer(map_operands(operands, lambda operand: form_of_operand(operand).type), attrs)


def _of_host(operands: Operands) -> Operands:
    """Operands with copies on the CPU for tensors elsewhere."""
    return map_operands(operands, lambda operand: on_cpu(operand) if isinstance(operand, Handle) else operand)


def moved(tensor: Handle, device: Device) -> Handle:
    """A result of the CPU's on the device that asked for it, in the same strides."""
    if device == CPU:
        return tensor
    form = tensor.form
    strides = form.strides if form.is_dense else None
    result: Handle = allocate(form_of(tuple(form.shape), form.dtype, device, strides, form.type.weak))
    copy_between(result, tensor)
    result.version.value = 0
    return result


def note_fallback(device: Device, op: str) -> None:
    """Counts a call that the CPU runs for a device, and warns of the first one. Errors: V005 under `rl.strict()`."""
    reason = f"{op}: {device.type} has no kernel for it, so the CPU runs it on copies"
    hint = f"give the backend of {device.type} a kernel for {op}, or call it on x.cpu()"
    events.fallback("V005", reason, hint=hint)
    key = (device.type, op)
    _fallbacks[key] = _fallbacks.get(key, 0) + 1
    warn("V007", reason, key=key, hint=hint)


class KernelCall:
    """A call of a device's own kernel: results are allocated, and it writes to them."""

    __slots__ = ("_attrs", "_backend", "_kernel", "_op", "_outputs", "_several")

    def __init__(
        self,
        backend: Backend,
        op: Operator,
        kernel: Callable[..., object],
        operands: Operands,
        attrs: Attrs,
    ) -> None:
        types = _result_types(op, operands, attrs)
        self._several = isinstance(types, tuple)
        self._outputs = [form_of_type(type_) for type_ in (types if self._several else (types,))]
        self._backend = backend
        self._op = op
        self._kernel = kernel
        self._attrs = attrs

    def call(self, operands: Operands) -> Any:
        """The result, or NotImplemented."""
        results: list[Handle] = [allocate(form) for form in self._outputs]
        regions = [region_of(result) for result in results]
        with running(self._op, backend_key(self._backend.name)):
            answer = self._kernel(regions, map_operands(operands, _value), self._attrs)
        if answer is NotImplemented:
            return answer
        require(answer is None, "V006", f"{self._op.name}: a kernel of {self._backend.name} returned a value")
        return tuple(results) if self._several else results[0]


def _value(operand: object) -> object:
    """An operand as kernels take it."""
    if not isinstance(operand, Handle):
        return operand
    return region_of(operand) if operand.form.device is not CPU else array_of(operand)[()]


set_device_kernel(run_on_device)
