"""The PYTHON key: `__torch_dispatch__` of dispatch modes and of tensor subclasses, below autograd.

Modes come first, the innermost one first; then the subclasses among the operands, derived classes before their bases.
Each may return NotImplemented to let the next one answer. A mode is off while it answers; a subclass unwraps what it is
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from rushlight.eager.dispatch import STATE, Key, Scope, call_below, register_fallback
from rushlight.eager.execution.operands import flatten
from rushlight.eager.execution.views import view_plan
from rushlight.eager.handle import PYTHON, Handle, is_wrapper
from rushlight.eager.mutation import Mutation, arguments_of
from rushlight.eager.override.operator_function import ReadFunction, function_for
from rushlight.ops.record import Operator
from rushlight.support.errors import fail
from rushlight.term import Op


class TorchDispatchMode:
    """Base of modes: within `with mode:` every operator call below autograd comes to `__torch_dispatch__`."""

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        """Answers one call: `func(*args, **kwargs)` on tensors of `types`."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        self._scopes = [
            *getattr(self, "_scopes", []),
            Scope(modes=(*STATE.modes, self), included=STATE.included | PYTHON),
        ]
        self._scopes[-1].__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scopes.pop().__exit__(kind, error, trace)


def _classes(operands: tuple[object, ...]) -> Iterator[type]:
    """The subclasses that intercept, each once, derived classes before their bases."""
    classes: list[type] = []
    for operand in flatten(operands):
        cls = type(operand)
        if isinstance(operand, Handle) and operand.keys & PYTHON and cls not in classes:
            at = next((position for position, other in enumerate(classes) if issubclass(cls, other)), len(classes))
            classes.insert(at, cls)
    yield from classes


def _refuse_untraced(op: Op, operands: tuple[object, ...]) -> None:
    """C036 in a trace for modes, and for wrappers from outside: their inner tensors may be others at each call."""
    asked = [type(mode).__name__ for mode in STATE.modes]
    if not asked:
        known = STATE.tracer.wrappers if STATE.tracer.takes_wrappers else ()
        wrappers = [one for one in flatten(operands) if isinstance(one, Handle) and one.keys & PYTHON]
        asked = [type(one).__name__ for one in wrappers if id(one) not in known]
    if asked:
        fail("C036", f"{op.name}: __torch_dispatch__ is asked while a function is compiled", asked=", ".join(asked))


_read: list[ReadFunction] = []


def read_wrapper(tensor: Handle) -> Any:
    """The one element of a wrapper, as its class reads it: it is asked for `_local_scalar_dense`, as in PyTorch."""
    if not _read:
        _read.append(ReadFunction())
    cls: Any = type(tensor)
    with Scope(modes=(), included=STATE.included & ~PYTHON):
        result = cls.__torch_dispatch__(_read[0], (cls,), (tensor,), {})
    if result is NotImplemented:
        fail("A006", "item: no __torch_dispatch__ answers", classes=cls.__name__)
    return result


def intercept(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the PYTHON key."""
    if STATE.tracer is not None and STATE.tracer.refuses_python:
        _refuse_untraced(op, operands)
    args, kwargs = arguments_of(op, operands, attrs)
    func = function_for(op)
    types = tuple({type(operand): None for operand in flatten(operands) if isinstance(operand, Handle)})
    modes = STATE.modes
    for position in range(len(modes) - 1, -1, -1):
        rest = modes[:position]
        included = STATE.included | PYTHON if rest else STATE.included & ~PYTHON
        with Scope(modes=rest, included=included, excluded=STATE.excluded & ~PYTHON):
            result = modes[position].__torch_dispatch__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    with Scope(modes=(), included=STATE.included & ~PYTHON):
        asked = False
        target: Any = op.target_of(operands) if isinstance(op, Mutation) else None
        writes = None if target is None else target.version.value
        for cls in _classes(operands):
            asked = True
            result = cls.__torch_dispatch__(func, types, args, kwargs)
            if result is not NotImplemented:
                if target is not None and is_wrapper(target) and target.version.value == writes:
                    target.version.value += 1
                return result if target is not None else _related(op, operands, attrs, result)
        if asked:
            names = ", ".join([cls.__name__ for cls in _classes(operands)])
            fail("A006", f"{op.name}: no __torch_dispatch__ answers", classes=names)
        return call_below(Key.PYTHON, op, active, operands, attrs)


def _related(op: Op, operands: tuple[Any, ...], attrs: Mapping[str, object], result: object) -> object:
    """What a subclass answered: the view of a wrapper follows the history of that."""
    base = operands[0] if operands else None
    if not isinstance(base, Handle) or not is_wrapper(base) or not isinstance(result, Handle):
        return result
    if result is base or not is_wrapper(result) or result.view_of is not None:
        return result
    plan = view_plan(op, operands, attrs) if isinstance(op, Operator) else None
    if plan is not None:
        plan.relate(base, result)
        result.version = base.version
    return result


Prepared = Callable[[Op, tuple[Any, ...], Mapping[str, object]], object]
_prepared: dict[type, Prepared] = {}


def answer_prepared(cls: type, answer: Prepared) -> None:
    """Has `answer(op, operands, attrs)` asked first for calls on tensors of exactly this class.

    It is not asked in traces and modes.

    It answers what `__torch_dispatch__` would, but for views, and calls nothing of the program's; or NotImplemented.
    """
    _prepared[cls] = answer


def _prepared_call(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> object:
    state = STATE
    if not state.included and state.tracer is None:
        for operand in operands:
            answer = _prepared.get(operand.__class__)
            if answer is not None:
                return answer(op, operands, attrs)
    return NotImplemented


register_fallback(Key.PYTHON, intercept, reenters=True, prepared=_prepared_call)
