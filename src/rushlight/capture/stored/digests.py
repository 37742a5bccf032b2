"""Digests of code and of what else a captured program depends on besides its guards."""

from __future__ import annotations

import functools
import hashlib
import platform
from types import CodeType, FunctionType

import numpy as np

from rushlight.build.key import source_digest
from rushlight.runtime import llvm
from rushlight.support import settings
from rushlight.term import structural_digest

_CODES = 4096  # functions whose digests are kept
_SETTINGS = (
    *("backend", "target", "numerics", "optimise", "activation_memory_budget", "without", "nan_asserts"),
    *("eager_calls", "num_threads", "compiled_autograd", "strict_fallbacks", "poison"),
)  # those that a trace, an entry or compiled code may depend on


@functools.lru_cache(maxsize=_CODES)
def code_digest(code: CodeType) -> str:
    """A digest of a function's code: instructions, constants, names, lines, and the code within it."""
    hashed = hashlib.blake2b(digest_size=20)
    for part in (code.co_code, code.co_exceptiontable, code.co_linetable):
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_qualname, code.co_filename)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)
    hashed.update(repr((names, counts, [_text(constant) for constant in code.co_consts])).encode())
    return hashed.hexdigest()


def _text(constant: object) -> str:
    """A constant of code as text, the same in all processes."""
    if isinstance(constant, CodeType):
        return code_digest(constant)
    if isinstance(constant, frozenset):
        return f"frozenset {sorted(map(_text, constant))}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text, constant))})"
    return f"{type(constant).__name__} {constant!r}"


def function_digest(function: FunctionType) -> str:
    """A digest of a function's code alone: what its closure and defaults hold is told apart by guards."""
    return code_digest(function.__code__)


def settings_text() -> str:
    """The settings that a captured program depends on."""
    values = settings.get()
    return repr([(name, getattr(values, name)) for name in _SETTINGS])


def environment_digest() -> str:
    """A digest of Rushlight's text, settings, versions and the processor that a program is made for."""
    target = repr(llvm.target_named(settings.get().target))
    versions = (platform.python_version(), platform.python_implementation(), np.__version__, llvm.version())
    return structural_digest([source_digest(), settings_text(), target, *versions])
