"""How users write the arguments of a function that is being compiled, for messages: `x`, `pair[0]`, `rows['mask']`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from inspect import CO_VARARGS
from types import CodeType

_LEAF = re.compile(r"(a\d+) = (args|kwargs)\[(\d+|'\w+')\](.*)")


def written_arguments(function: object, unpack: Iterable[str]) -> dict[str, str]:
    """What users write for the leaves of a call, by the leaves' names. `unpack` are lines such as `a0 = args[0][1]`.

    Leaves that go to no parameter with a name, and those of functions without code of their own, are left out.
    """
    code, skipped = _code_of(function)
    if code is None:
        return {}
    paths: dict[str, str] = {}
    for leaf in map(_LEAF.fullmatch, unpack):
        if leaf is not None:
            name, where, key, rest = leaf.groups()
            parameter = _positional(code, int(key) + skipped) if where == "args" else _keyword(code, key)
            if parameter:
                paths[name] = parameter + rest
    return paths


def _code_of(function: object) -> tuple[CodeType | None, int]:
    """The code of what is called, and how many of its first parameters are bound."""
    called = getattr(function, "forward", function)
    if not hasattr(called, "__code__") and not hasattr(called, "__func__"):
        called = getattr(called, "__call__", called)  # noqa: B004 - its code is wanted
    return getattr(called, "__code__", None), int(hasattr(called, "__func__"))


def _positional(code: CodeType, position: int) -> str:
    if position < code.co_argcount:
        return code.co_varnames[position]
    if not code.co_flags & CO_VARARGS:
        return ""
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    return f"{rest}[{position - code.co_argcount}]"


def _keyword(code: CodeType, key: str) -> str:
    return key[1:-1] if key[1:-1] in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] else ""
