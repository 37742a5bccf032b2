"""Calls of operators on their samples, on the CPU and on a device, and whether both give the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.eager.autograd.driver import grad
from rushlight.eager.autograd.history import differentiable
from rushlight.eager.creation import from_numpy
from rushlight.eager.dispatch import call_function
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.eager.storage.untyped import UntypedStorage
from rushlight.ir.dtype import int64
from rushlight.ir.type import Device
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact, Operator

MOST_SAMPLES = 3  # of one operator


def operators() -> list[str]:
    """The operators that have samples and may be called one by one."""
    names = sorted(OPERATORS)
    return [name for name in names if OPERATORS[name].samples_rule is not None and _is_plain(OPERATORS[name])]


def _is_plain(op: Operator) -> bool:
    return (
        not op.facts & (Fact.CONTROL | Fact.EFFECT | Fact.FOREIGN) and op.name != "empty" and "to_device" not in op.name
    )


class Call:
    """A sample of an operator: `results(place)` calls it there."""

    def __init__(self, op: Operator, operands: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        self.op = op
        self._operands = operands
        self._attrs = attrs

    def operands(self, place: str) -> tuple[Any, ...]:
        """The operands as tensors on a device."""
        return map_operands(self._operands, lambda one: _on(place, one))

    def results(self, place: str, operands: tuple[Any, ...] | None = None) -> tuple[Handle, ...]:
        """What the operator gives."""
        attrs = dict(self._attrs)
        if "device" in attrs:
            attrs["device"] = Device(place, None if place == "cpu" else 0)
        result = call_function(self.op, self.operands(place) if operands is None else operands, attrs)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def gradients(self, place: str) -> list[Handle | None] | None:
        """The gradients of the results' sum in all operands that have some; None where there are none."""
        operands = self.operands(place)
        leaves = [one for one in _flat(operands) if isinstance(one, Handle) and differentiable(one) and one.form.numel]
        for leaf in leaves:
            leaf.requires_grad_()  # pyright: ignore[reportAttributeAccessIssue] - public tensors have it
        results = [one for one in self.results(place, operands) if one.gradient is not None and one.gradient.node]
        if not leaves or not results:
            return None
        ones = [OPERATORS["ones_like"](one) for one in results]
        return list(grad(results, leaves, ones, allow_unused=True))  # pyright: ignore[reportArgumentType] - of Handles


def _flat(operands: tuple[Any, ...]) -> Iterator[Any]:
    for one in operands:
        yield from one if isinstance(one, tuple) else (one,)


def _on(place: str, operand: Any) -> Any:
    if not isinstance(operand, (np.ndarray, np.generic)):
        return operand
    tensor: Any = from_numpy(np.array(operand))
    return tensor.to(place)


def calls_of(name: str) -> Iterator[Call]:
    """Some samples of an operator."""
    op = OPERATORS[name]
    assert op.samples_rule is not None
    for number, sample in enumerate(op.samples_rule(np.random.default_rng(len(name)))):
        if number == MOST_SAMPLES:
            return
        if sample.domain == "definite":  # of which samples say that alone
            continue
        operands, attrs = op.bind(tuple(map(_tuples, sample.args)), {k: _tuples(v) for k, v in sample.kwargs.items()})
        yield Call(op, operands, attrs)


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def difference(actual: Any, expected: Any, place: str, tolerance: float) -> str | None:
    """How a tensor on a device differs from one of the CPU's; None if it does not."""
    if (actual is None) != (expected is None):
        return f"{actual} where the CPU gives {expected}"
    if actual is None:
        return None
    is_number = actual.form.type.weak or (actual.dtype is int64 and not actual.shape)  # for Python to read
    if actual.device.type != place and not is_number:
        return f"it is on {actual.device}"
    if actual.dtype is not expected.dtype or tuple(actual.shape) != tuple(expected.shape):
        return f"it is {actual.form.type}, and the CPU's {expected.form.type}"
    return _values_differ(array_of(actual.detach()), array_of(expected.detach()), tolerance)


def _values_differ(one: Any, other: Any, tolerance: float) -> str | None:
    if np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes():
        return None
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = one.astype(wide), other.astype(wide)
        close = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        worst = np.nanmax(np.abs(a - b), initial=0)
    return None if close else f"its values differ by up to {worst}"


def compared(name: str, place: str, tolerance: float, ask: Callable[[Call, str], Any]) -> list[str]:
    """The samples of an operator for which a device gives something else than the CPU."""
    found: list[str] = []
    for number, call in enumerate(calls_of(name)):
        expected, actual = ask(call, "cpu"), ask(call, place)
        if (actual is None) != (expected is None) or len(actual or ()) != len(expected or ()):
            found.append(f"sample {number}: another number of results")
            continue
        pairs = zip(actual or (), expected or (), strict=True)
        problems = [difference(one, other, place, tolerance) for one, other in pairs]
        found += [f"sample {number}: {problem}" for problem in problems if problem is not None]
    return found


def storage_of(data: bytes, place: str) -> UntypedStorage:
    """Memory of a device with these bytes."""
    storage = UntypedStorage(len(data))
    storage[:] = np.frombuffer(data, np.uint8)
    return storage.to(device=place)
