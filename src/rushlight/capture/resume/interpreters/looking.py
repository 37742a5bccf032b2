"""Which containers and tensors a trace looks into, by what instructions and calls do with values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, UnionType
from typing import Any

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.hooks import CallParts
from rushlight.capture.interpreter.operations import Operation
from rushlight.capture.interpreter.slots import lookup
from rushlight.capture.resume.breaks import INLINED, PROMISE, Break
from rushlight.capture.resume.interpreters.cautious import CautiousInterpreter
from rushlight.capture.resume.reached import ReachedObjects
from rushlight.capture.state.reachable import MARK, variables_of
from rushlight.eager.handle import Handle
from rushlight.support.errors import DataDependentError

# Instructions that move values, or that ask which objects they are.
_MOVING = frozenset(
    {"NOP", "RESUME", "CACHE", "EXTENDED_ARG", "SETUP_FINALLY", "PRECALL", "COPY_FREE_VARS", "POP_TOP", "END_FOR"}
    | {"PUSH_NULL", "COPY", "SWAP", "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_AND_CLEAR"}
    | {"STORE_FAST", "STORE_FAST_MAYBE_NULL", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "DELETE_FAST"}
    | {"MAKE_CELL", "LOAD_CLOSURE", "LOAD_DEREF", "LOAD_GLOBAL", "JUMP", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"}
    | {"IS_OP", "RETURN_VALUE", "RETURN_CONST", "FOR_ITER"}
)  # what an iterator goes over is opened where the iterator is made
# Instructions that look into a container, and not into what it holds.
_SHALLOW = frozenset({"BINARY_SUBSCR", "DELETE_SUBSCR", "GET_ITER", "GET_LEN", "UNPACK_SEQUENCE", "UNPACK_EX"})
_BOUND = frozenset({BuiltinFunctionType, MethodWrapperType, MethodType})
_ENDS = (Break, DataDependentError)  # a graph ends before the instruction, which Python carries out
_OF_TYPES = type.__dict__["__instancecheck__"]
_MOST_OPERANDS = 2  # of instructions that leave a value in the place of one of their operands, or leave these there
# Functions of C that do not look into what they are given, nor keep it.
_TELLING = frozenset(map(id, [callable, id, type]))
_CHECKING = frozenset(map(id, [isinstance, issubclass]))  # nor these, unless a class answers itself
_TAKING = frozenset(map(id, [getattr, hasattr, vars]))  # nor these, but for the attributes of tensors
_FRAMED = frozenset({FunctionType, MethodType})  # what a call has a frame of, or hands to `native`


class LookingInterpreter(CautiousInterpreter):
    """An interpreter that writes down which containers and tensors it looks into."""

    __slots__ = ("looks",)

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(reached)
        self.looks = reached.looks

    def native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that is not interpreted: it may look into all that its arguments hold."""
        if not self.looks.closed:
            return super().native(function, args, kwargs)
        found = self.looks.held(_looked_at((function,), (function, *args, *kwargs.values())), objects=True)
        try:
            result = super().native(function, args, kwargs)
        except _ENDS:
            raise
        except BaseException:
            self.looks.through(found)
            raise
        self.looks.through(found)
        return result

    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
        """What a call gives, of which no instruction tells."""
        if self.looks.closed and type(function) not in _FRAMED:
            self._through((function,), (function, *args, *(kwargs or {}).values()))
        return super().call(function, args, kwargs)

    def call_back(self, function: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """What a call gives that a function of ours makes. Another one of ours it calls as it is."""
        called: Any = function
        plain: object = called.__func__ if type(function) is MethodType else function
        if type(plain) is FunctionType and isinstance(plain, FunctionType) and self.is_leaf(plain):
            self.calls_leaf(plain)
            return called(*args, **kwargs)
        return self.call(function, args, kwargs)

    def hands(self, value: object) -> object:
        """Is told of a value that C gets from what it has called back: C looks into it."""
        if self.looks.closed:
            self._through((), (value,))
        return super().hands(value)

    def _through(self, called: Sequence[object], values: Sequence[object]) -> None:
        self.looks.through(self.looks.held(_looked_at(called, values), objects=True))

    def owner(self, value: object, name: str) -> object:
        """What an attribute is taken of: a tensor is looked at, also for one of its methods."""
        if issubclass(type(value), Handle):
            self.looks.into((value,))
        if name == "__dict__" and hasattr(type(value), MARK) and (variables := variables_of(value)) is not None:
            self.looks.into_variables(variables, tuple(variables))
        return super().owner(value, name)

    def promises(self, promise: str) -> None:
        """Is told what callers of a compiled function are promised, which is called."""

    def callee(self, function: object) -> object:
        """What is called in place of a function: of a compiled one, what was compiled.

        Of a partial the keywords stand in a dict.
        """
        if hasattr(type(function), INLINED):
            self.promises(getattr(function, PROMISE))
            function = getattr(function, INLINED)
        called = super().callee(function)
        if type(called) is partial:
            self.looks.into((called.keywords,))
        return called

    def parts_of(self, function: FunctionType) -> CallParts:
        """What a call reads of a function: defaults by name stand in a dict."""
        parts = super().parts_of(function)
        self.looks.into(parts)
        return parts


def looking(name: str, operation: Operation) -> Operation:
    """An instruction that writes down what it looks into, once it has been carried out."""
    if name in _MOVING:
        return operation
    if name == "LOAD_ATTR":
        return _taking(operation)

    def carry_out(interpreter: LookingInterpreter, frame: Frame, operand: Any) -> object:
        if not interpreter.looks.closed:
            return operation(interpreter, frame, operand)
        before = frame.stack[:]
        try:
            changed = operation(interpreter, frame, operand)
        except _ENDS:
            raise
        except BaseException:
            _look(interpreter, name, before)
            raise
        used = before[_kept(before, frame.stack) :]
        if not (name == "CALL" and changed):  # a frame of its own has the arguments of a call as variables
            _look(interpreter, name, _looked_at(used[:2], used) if name == "CALL" else used)
        return changed

    return carry_out


def _looked_at(called: Sequence[object], values: Sequence[object]) -> Sequence[object]:
    """Which of the values that a call is given it may look into. Its function is among those `called`."""
    if any(map(_appends, called)):
        return [value for value in values if not _appends(value)]
    functions = set(map(id, called))
    if functions & _TELLING or (functions & _CHECKING and all(map(_is_plain, values))):
        return ()
    if functions & (_TAKING | _CHECKING):
        return [value for value in values if issubclass(type(value), Handle)]
    return values


def _appends(function: object) -> bool:
    """Whether a function is the method that appends to a list, which does not look into it."""
    if type(function) is not BuiltinFunctionType or not isinstance(function, BuiltinFunctionType):
        return False
    return function.__name__ == "append" and type(function.__self__) is list


def _is_plain(value: object) -> bool:
    """Whether a value is no class that answers itself what is of it, nor several classes in one object."""
    kind = type(value)
    if issubclass(kind, type):
        return lookup(kind, "__instancecheck__") is _OF_TYPES
    if issubclass(kind, UnionType):
        return False
    return all(map(_is_plain, value)) if kind is tuple and isinstance(value, tuple) else True


def _look(interpreter: LookingInterpreter, name: str, values: Sequence[object]) -> None:
    if name in _SHALLOW:
        interpreter.looks.into(values)
    else:
        interpreter.looks.through(interpreter.looks.held(values, objects=False))


def _kept(before: list[object], after: list[object]) -> int:
    """How many values of a stack an instruction has left alone."""
    count = 0
    for value, other in zip(before[:-_MOST_OPERANDS], after, strict=False):
        if value is not other:
            break
        count += 1
    return count


def _taking(operation: Callable[..., object]) -> Operation:
    """An instruction that takes an attribute: a method does not look into its owner before it is called."""

    def carry_out(interpreter: LookingInterpreter, frame: Frame, operand: Any) -> object:
        if not interpreter.looks.closed:
            return operation(interpreter, frame, operand)
        owner = frame.stack[-1]
        size = len(frame.stack)
        try:
            changed = operation(interpreter, frame, operand)
        except _ENDS:
            raise
        except BaseException:
            interpreter.looks.into((owner,))
            raise
        taken = frame.stack[size - 1 :]
        if not any(type(value) in _BOUND and getattr(value, "__self__", None) is owner for value in taken):
            interpreter.looks.into((owner,))
        return changed

    return carry_out
