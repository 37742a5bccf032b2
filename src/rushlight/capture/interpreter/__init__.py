"""Interprets Python functions by their bytecode."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from rushlight.capture.interpreter import opcodes
from rushlight.capture.interpreter.loop import Interpreter

__all__ = ["Interpreter", "interpret", "opcodes"]


def _is_ours(function: FunctionType) -> bool:
    return function.__globals__.get("__name__", "").startswith("rushlight.")


def interpret(
    function: Callable[..., object], args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
) -> object:
    """What a call gives, by interpreting the bytecode of the function and of those that it calls. Errors: its own."""
    return Interpreter(_is_ours).call(function, args, kwargs or {})
