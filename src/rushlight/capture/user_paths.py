"""How users write the arguments of a function that is being compiled, for messages: `x`, `pair[0]`, `rows['mask']`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import CO_VARARGS
from types import CodeType

_GIVEN = re.compile(r"(args|kwargs)\[(\d+|'\w+')\](.*)")
_LEAF = re.compile(rf"(a\d+) = {_GIVEN.pattern}")
# An attribute of an object, or a leaf of what that gave.
_READ = re.compile(r"(a\w+) = (a\w+)(?:\.__dict__\['(\w+)'\]|(.*))")


def written_arguments(function: object, unpack: Iterable[str]) -> dict[str, str]:
    """What users write for the leaves of a call, by the leaves' names. `unpack` are lines such as `a0 = args[0][1]`.

    Leaves that go to no parameter with a name, and those of functions without code of their own, are left out.
    """
    code, skipped = _code_of(function)
    if code is None:
        return {}
    paths = {name: _parameter(code, skipped, where, key) + rest for name, where, key, rest in _leaves(unpack)}
    return {name: path for name, path in paths.items() if path[:1] not in ("", "[", ".")}


def written_variables(names: Sequence[str], values: Sequence[object], unpack: Sequence[str]) -> dict[str, str]:
    """The same for a part, which is given variables by position: `names` are theirs, "" that of one without a name.

    Where one of them is an object whose call has begun, what follows it is written as its caller does.
    """
    paths = {name: f"{names[int(key)]}{rest}" for name, _, key, rest in _leaves(unpack) if names[int(key)]}
    code, skipped = _code_of(values[0]) if names[:3] == ["self", "args", "kwargs"] else (None, 0)
    for name, path in paths.items():
        inner = None if code is None else _GIVEN.fullmatch(path)
        if code is not None and inner is not None:
            where, key, rest = inner.groups()
            paths[name] = (_parameter(code, skipped, where, key) or f"{where}[{key}]") + rest
    for name, owner, attribute, rest in [read.groups() for read in map(_READ.fullmatch, unpack) if read is not None]:
        if owner in paths:
            paths[name] = f"{paths[owner]}.{attribute}" if attribute else f"{paths[owner]}{rest}"
    return paths


def _leaves(unpack: Iterable[str]) -> list[tuple[str, ...]]:
    """The name, and `args` or `kwargs`, the key in it, and what follows, of each leaf."""
    return [leaf.groups() for leaf in map(_LEAF.fullmatch, unpack) if leaf is not None]


def _parameter(code: CodeType, skipped: int, where: str, key: str) -> str:
    return _positional(code, int(key) + skipped) if where == "args" else _keyword(code, key)


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
