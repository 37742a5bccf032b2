"""The call of an operator: which keys are active, and who of them answers.

active = (the operands' keys | the thread's included keys) & ~the thread's excluded keys. The highest active key with
a kernel answers; one that returns NotImplemented declines, and the next is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from rushlight.eager.dispatch.keys import Key, bit, keys_in
from rushlight.eager.dispatch.state import STATE
from rushlight.eager.dispatch.table import Kernel, backend_key, table_of, tables, tables_generation
from rushlight.ir.value import Value
from rushlight.ops.record import GENERATION, OPERATORS
from rushlight.support.errors import RushlightError, error, fail
from rushlight.term import Op

_TOP = len(Key)
_CPU = bit(Key.CPU)
_TRACING = bit(Key.TRACING)
_DEEPEST = 200  # kernels of redispatching operators within each other before it must be a cycle


class Dispatched(Value):
    """A value that says by `keys` who should answer operators on it."""

    __slots__ = ("keys",)

    keys: int


def keys_of(operands: tuple[object, ...]) -> int:
    """The union of the operands' keys, members of tensor lists included."""
    keys = 0
    for operand in operands:
        if isinstance(operand, Dispatched):
            keys |= operand.keys
        elif isinstance(operand, tuple):
            for part in operand:
                if isinstance(part, Dispatched):
                    keys |= part.keys
    return keys


def dispatch(op: Op, operands: tuple[Any, ...], attrs: Mapping[str, object], keys: int = 0) -> Any:
    """Calls an operator on its operands.

    If there is no tensor among them, as for `full`, `keys` are the keys of the operands. Errors from below name this
    operator, since it is the one that was called.
    """
    result = 0
    for operand in operands:  # as `keys_of`, without a call
        if isinstance(operand, Dispatched):
            result |= operand.keys
        elif operand.__class__ is tuple:
            result |= keys_of(operand)
    state = STATE
    active = ((result or keys) | state.included) & ~state.excluded
    if active & _TRACING:
        attrs = _settle[0](op, attrs)
    try:
        return call_below(_TOP, op, active, operands, attrs)
    except RushlightError as report:
        name_operation(report, op.name)
        raise
    except Exception as problem:
        report = _explanation[0](op, operands, attrs)
        if report is None:
            raise
        raise report from problem


Settling = Callable[[Op, Mapping[str, object]], Mapping[str, object]]
_settle: list[Settling] = [lambda op, attrs: attrs]


def set_settling(settle: Settling) -> None:
    """Sets what turns numbers of a trace among attributes into sizes or constants."""
    _settle[0] = settle


Explanation = Callable[[Op, tuple[object, ...], Mapping[str, object]], RushlightError | None]
_explanation: list[Explanation] = [lambda op, operands, attrs: None]


def set_explanation(explain: Explanation) -> None:
    """Sets what says which argument made an operator fail in another way than with a registered error."""
    _explanation[0] = explain


@contextmanager
def called(name: str) -> Generator[None]:
    """Names an operation by what the user called, where that is made of operators of other names."""
    try:
        yield
    except RushlightError as report:
        name_operation(report, name)
        raise


def name_operation(report: RushlightError, name: str) -> None:
    """Lets an error name the operation that the user called where it names another operator, or none."""
    operation = report.operation
    inner = operation in (None, "copy_", "allocate") or operation in OPERATORS
    if inner or (operation is not None and operation.partition(".")[0].rstrip("_") in OPERATORS):
        _, colon, rest = report.message.partition(": ") if operation is not None else ("", ": ", report.message)
        report.message = f"{name.partition('.')[0]}{colon}{rest}"
        report.args = (report.message,)


def call_function(op: Op, operands: tuple[object, ...], attrs: Mapping[str, Any]) -> Any:
    """Calls an operator that may have no tensor operand: then its `device` attribute says who answers, or the CPU."""
    device = attrs.get("device") if attrs else None
    return dispatch(op, operands, attrs, _CPU if device is None else bit(backend_key(device.type)))


def call_below(limit: int, op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """Asks the active keys below `limit`, highest first: how boxed kernels redispatch, from their own key."""
    entries = tables.get(op)
    if entries is None or tables_generation[0] != GENERATION[0]:
        entries = table_of(op)
    if entries.prepare is not None and limit == _TOP:
        operands = entries.prepare(operands, active)
    kernels = entries.kernels
    left = active & ((1 << limit) - 1)
    while left:
        key = left.bit_length() - 1
        kernel = kernels[key]
        if kernel is not None:
            if kernel.leaf:
                result = kernel.function(op, active, operands, attrs)
            else:
                prepared = kernel.prepared
                result = NotImplemented if prepared is None else prepared(op, active, operands, attrs)
                if result is NotImplemented:
                    result = _run(kernel, Key(key), limit, op, active, operands, attrs)
            if result is not NotImplemented:
                return result
        left ^= 1 << key
    raise _nobody(op, active)


def call_without(key: Key, op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """As `call_below` from the highest key; the key stays active for operators that the call consists of."""
    return call_below(_TOP + 1, op, active & ~bit(key), operands, attrs)


@contextmanager
def running(op: Op, key: Key) -> Generator[None]:
    """Notes that a kernel of `op` at `key` is calling operators, so that endless recursion is named."""
    state = STATE
    before = state.running
    if len(before) >= _DEEPEST:
        _cycle(before, op)
    state.running = (*before, (op, key))
    try:
        yield
    finally:
        state.running = before


def _run(
    kernel: Kernel, key: Key, limit: int, op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]
) -> Any:
    """Runs a kernel that may call operators: from the top, without this key and the one redispatching."""
    state = STATE
    excluded = state.excluded
    # A leaf kernel that redispatches has left its key active: it is excluded here, where it begins to matter.
    above = 1 << limit if limit < _TOP else 0
    state.excluded = excluded | above if kernel.reenters else excluded | above | 1 << key
    try:
        with running(op, key):
            if kernel.boxed:
                return kernel.function(op, active, operands, attrs)
            return kernel.function(*operands, **attrs)
    finally:
        state.excluded = excluded


def _nobody(op: Op, active: int) -> Exception:
    names = [key.name for key in keys_in(active)]
    stack = [f"{one.name} at {key.name}" for one, key in STATE.running]
    hint = "register a kernel for one of the keys"
    if stack:
        within = " > ".join(stack)
        hint = f"called within {within}, whose keys are excluded meanwhile: a kernel written in itself must re-enter"
    return error("A006", f"{op.name}: no kernel answers", keys=names, hint=hint)


def _cycle(running: tuple[tuple[Op, Key], ...], op: Op) -> NoReturn:
    names = [f"{one.name} at {key.name}" for one, key in running]
    last = next((at for at in range(len(running) - 2, -1, -1) if running[at][0] is running[-1][0]), 0)
    fail("A004", f"{op.name}: kernels call each other without end", cycle=" > ".join(names[last:]))
