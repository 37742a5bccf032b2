"""Methods of new classes that C calls: while an instruction runs, stubs in their places have them interpreted."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.slots import lookup

_KINDS = (FunctionType, classmethod, staticmethod)
_NOT_CALLED = ("__new__", "__init_subclass__", "__class_getitem__")  # as methods of objects
_Covered = tuple[type, dict[str, object]]


class Stubs:
    """The stubs of one interpreter, in classes that nobody else has."""

    __slots__ = ("_covered",)

    def __init__(self) -> None:
        self._covered: list[_Covered] = []

    def __bool__(self) -> bool:
        return bool(self._covered)

    def cover(self, cls: type, interpreter: Evaluator) -> None:
        """Puts stubs into a class, in the place of its methods, which an interpreter runs."""
        if any(cls is covered for covered, _ in self._covered):
            return
        own = vars(cls)
        methods = {name: lookup(cls, name) for base in cls.__mro__ for name in vars(base)}
        called = {name: method for name, method in methods.items() if type(method) in _KINDS}
        stubs = {name: _stub(interpreter, method) for name, method in called.items() if name not in _NOT_CALLED}
        self._covered.append((cls, {name: own.get(name, MISSING) for name in stubs}))
        for name, stub in stubs.items():
            type.__setattr__(cls, name, stub)

    def lift(self) -> list[type]:
        """Takes all stubs away; the classes that had some."""
        lifted = [cls for cls, _ in self._covered]
        while self._covered:
            cls, own = self._covered.pop()
            for name, method in own.items():
                if method is MISSING:
                    type.__delattr__(cls, name)
                else:
                    type.__setattr__(cls, name, method)
        return lifted


def _stub(interpreter: Evaluator, method: Any) -> object:
    """A method that has another one interpreted."""
    kind = type(method)
    function = method if kind is FunctionType else method.__func__

    def stub(*args: object, **kwargs: object) -> object:
        return interpreter.hands(interpreter.call(function, args, kwargs))

    return stub if kind is FunctionType else kind(stub)


_NOBODY: Any = None


def _code_of_stubs() -> CodeType:
    function: Any = _stub(_NOBODY, _code_of_stubs)
    return function.__code__


_CODE = _code_of_stubs()


def is_stub(function: FunctionType) -> bool:
    """Whether a function is a stub."""
    return function.__code__ is _CODE
