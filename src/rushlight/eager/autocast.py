"""The setting of autocast in this thread, its key, which casts operands, and functions with a policy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rushlight.eager.dispatch import STATE, Key, bit, call_below, register_fallback
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import Handle
from rushlight.ir.dtype import DType, bfloat16, float16, float32
from rushlight.ops.record import OPERATORS, Operator
from rushlight.support.frozen import frozen
from rushlight.term import Op

F = TypeVar("F", bound=Callable[..., Any])
AUTOCAST = bit(Key.AUTOCAST)
_CASTABLE = (float32, float16, bfloat16)  # float64 is what it is on purpose


@frozen
class Setting:
    """On which kinds of device autocast is on, its dtype for each, and whether cast weights are kept.

    There is one object for each combination, which compiled functions are guarded on.
    """

    enabled: frozenset[str]
    dtypes: tuple[tuple[str, DType], ...]
    caches: bool

    def dtype(self, device_type: str) -> DType:
        """The dtype of a kind of device."""
        return dict(self.dtypes).get(device_type, float16)


@functools.cache
def _made(enabled: frozenset[str], dtypes: tuple[tuple[str, DType], ...], caches: bool) -> Setting:
    return Setting(enabled, dtypes, caches)


_OFF = _made(frozenset(), (("cpu", bfloat16), ("cuda", float16)), True)
_regions = itertools.count()


def setting() -> Setting:
    """The setting of this thread."""
    return STATE.autocast or _OFF


def change(
    *, device_type: str = "", enabled: bool | None = None, dtype: DType | None = None, caches: bool | None = None
) -> None:
    """Changes the setting: of a kind of device, whether it is on and its dtype; and whether cast weights are kept."""
    now = setting()
    kinds, dtypes = now.enabled, dict(now.dtypes)
    if enabled is not None:
        kinds = kinds | {device_type} if enabled else kinds - {device_type}
    if dtype is not None:
        dtypes[device_type] = dtype
    restore(_made(kinds, tuple(sorted(dtypes.items())), now.caches if caches is None else caches))


def restore(value: Setting) -> None:
    """Makes a setting that of this thread."""
    STATE.autocast = None if value is _OFF else value
    STATE.included = STATE.included | AUTOCAST if value.enabled else STATE.included & ~AUTOCAST


def enter_region() -> int:
    """Begins a region within which cast weights are kept; returns how deep it is nested."""
    if STATE.autocast_depth == 0 or STATE.cast_weights is None:
        STATE.cast_weights = (next(_regions), {})
    STATE.autocast_depth += 1
    return STATE.autocast_depth


def leave_region() -> int:
    """Ends a region; returns how many are left. Cast weights are forgotten at the end of the outermost one."""
    STATE.autocast_depth -= 1
    if STATE.autocast_depth == 0:
        forget_weights()
    return STATE.autocast_depth


def forget_weights() -> None:
    """Forgets the weights that were cast."""
    STATE.cast_weights = None if STATE.autocast_depth == 0 else (next(_regions), {})


def answer(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The kernel at the key of autocast: operands are cast by the operator's policy.

    An operator without policy, and what any consists of, runs as it is.
    """
    policy = op.autocast if isinstance(op, Operator) else None
    if policy is not None:
        operands = _cast(operands, policy)
    return call_below(Key.AUTOCAST, op, active, operands, attrs)


def autocasts(policy: str) -> Callable[[F], F]:
    """Gives a function a policy, as a record's `autocast` gives one to an operator.

    It may call several operators. In a region its tensors are cast, and what it consists of runs as it is.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> Any:
            if not STATE.included & ~STATE.excluded & AUTOCAST:
                return function(*args, **kwargs)
            names = tuple(kwargs)
            cast = _cast((*args, *kwargs.values()), policy)
            excluded = STATE.excluded
            STATE.excluded = excluded | AUTOCAST
            try:
                return function(*cast[: len(args)], **dict(zip(names, cast[len(args) :], strict=True)))
            finally:
                STATE.excluded = excluded

        made: Any = call
        made.autocast = policy
        return made

    return decorate


def _cast(operands: tuple[object, ...], policy: str) -> tuple[Any, ...]:
    now = setting()
    cast = _to_float32 if policy == "float32" else _to_lower
    if any(isinstance(operand, Handle) and operand.form.device.type in now.enabled for operand in flatten(operands)):
        return tuple([_each(operand, now, cast) for operand in operands])
    return operands


def _each(operand: object, now: Setting, cast: Callable[[Handle, Setting], object]) -> object:
    if isinstance(operand, tuple):
        return tuple([_each(element, now, cast) for element in operand])
    if not isinstance(operand, Handle) or operand.form.type.weak or operand.form.device.type not in now.enabled:
        return operand
    return cast(operand, now) if operand.dtype in _CASTABLE else operand


def _to_float32(tensor: Handle, now: Setting) -> object:
    return tensor if tensor.dtype is float32 else OPERATORS["to_dtype"](tensor, float32)


def _to_lower(tensor: Handle, now: Setting) -> object:
    dtype = now.dtype(tensor.form.device.type)
    if tensor.dtype is dtype:
        return tensor
    region = STATE.cast_weights
    record = tensor.gradient
    weight = record is not None and record.required and record.node is None and tensor.view_of is None
    if not weight or not now.caches or region is None or tensor.dtype is not float32:
        return OPERATORS["to_dtype"](tensor, dtype)
    number, kept = region
    if STATE.tracer is not None:  # what is traced lives no longer than its trace
        kept = STATE.tracer.memos.setdefault(("cast weights", number), {})
    key = (id(tensor), tensor.version.value, dtype, STATE.grad)
    if key not in kept:
        kept[key] = (tensor, OPERATORS["to_dtype"](tensor, dtype))
    return kept[key][1]


register_fallback(Key.AUTOCAST, answer)
