"""Which hooks a program calls as they are, since they do more than compute.

Tracing such a hook is right, but ends a graph at each of its effects, and depends on what it reads: a list that grows
makes another graph at each pass. A hook that is called as it is ends one graph, and the same ones serve all passes.
"""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, MethodType

from rushlight.capture.code.instructions import decode

_EFFECTS = frozenset(
    {"print", "input", "open", "exec", "eval", "append", "extend", "insert", "pop", "remove", "clear", "update"}
    | {"setdefault", "popitem", "add", "discard", "appendleft", "write", "writelines", "flush", "put", "set", "log"}
    | {"item", "tolist", "numpy", "float", "int", "bool", "id", "time", "perf_counter", "info", "debug", "warning"}
    | {"backward", "step"}
)
_STORES = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_NAME", "DELETE_ATTR", "DELETE_SUBSCR"})


def is_quiet(function: object) -> bool:
    """Whether nothing in a function's code is known to do more than compute."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    return isinstance(plain, FunctionType) and _computes(plain.__code__)


@functools.lru_cache(maxsize=1024)
def _computes(code: CodeType) -> bool:
    if not _EFFECTS.isdisjoint(code.co_names):
        return False
    free = set(code.co_freevars)
    for instruction in decode(code).instructions:
        if instruction.name in _STORES or (instruction.name == "STORE_DEREF" and instruction.operand in free):
            return False
    return all(_computes(value) for value in code.co_consts if isinstance(value, CodeType))


def is_interchangeable(function: object) -> bool:
    """Whether functions of the same code and globals do the same: they have no variables of their own."""
    if not isinstance(function, FunctionType):
        return False
    return not (function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function))
