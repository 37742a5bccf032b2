"""Which of CPython's tests are run, and which are left out by what rule."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import unittest
from collections.abc import Iterator
from types import CodeType, FunctionType

FILES = (
    "bool",
    "dict",
    "list",
    "set",
    "iter",
    "generators",
    "coroutines",
    "collections",
    "functools",
    "itertools",
    "operator",
    "exceptions",
    "contextlib",
    "contextlib_async",
    "patma",
    "dataclasses",
    "enum",
)
"""The files, without `test_`."""
_PROCESS = "another process runs the code"
_THREAD = "it is about threads"
_COLLECTOR = "it is about the collector, lifetimes or reference counts"
LEFT_OUT = {
    "exec": "the code under test is compiled from text while the test runs",
    "eval": "the code under test is compiled from text while the test runs",
    "compile": "the code under test is compiled from text while the test runs",
    "threading": _THREAD,
    "Thread": _THREAD,
    "threading_helper": _THREAD,
    "start_threads": _THREAD,
    "subprocess": _PROCESS,
    "run_python_until_end": _PROCESS,
    "assert_python_ok": _PROCESS,
    "assert_python_failure": _PROCESS,
    "script_helper": _PROCESS,
    "gc": _COLLECTOR,
    "gc_collect": _COLLECTOR,
    "disable_gc": _COLLECTOR,
    "getrefcount": _COLLECTOR,
    "gettotalrefcount": _COLLECTOR,
    "weakref": _COLLECTOR,
    "check_free_after_iterating": _COLLECTOR,
    "getsizeof": "it measures the interpreter's own structures",
    "check_sizeof": "it measures the interpreter's own structures",
    "_testcapi": "it calls CPython's C interface",
    "_testinternalcapi": "it calls CPython's C interface",
    "builtins": "it replaces builtins, which whoever runs the body uses as well",
    "settrace": "it traces CPython's own frames",
    "setrecursionlimit": "it changes the limit of CPython's own stack",
    "infinite_recursion": "it changes the limit of CPython's own stack",
}
"""A test is left out if its body, or a method of its class that it calls, names one of these, for the reason."""


def are_installed() -> bool:
    """Whether the running interpreter has its tests."""
    return importlib.util.find_spec("test") is not None and importlib.util.find_spec("test.test_bool") is not None


def tests_of(file: str) -> dict[str, unittest.TestCase]:
    """The tests of a file by name, left out or not; doctests are no bodies and are not among them."""
    module = importlib.import_module(f"test.test_{file}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    return {f"{type(test).__name__}.{test._testMethodName}": test for test in _cases(suite)}


def _cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from _cases(entry)
        elif type(entry).__module__.startswith("test.") and hasattr(type(entry), entry._testMethodName):
            yield entry


def body_of(test: unittest.TestCase) -> CodeType:
    """The code of a test's method, without its decorators."""
    return inspect.unwrap(getattr(type(test), test._testMethodName)).__code__


def reason_left_out(test: unittest.TestCase) -> str | None:
    """Why a test is left out; None if it is run. What the body names is also what methods name that it names."""
    seen: set[str] = set()
    waiting = [body_of(test)]
    while waiting:
        for name in _names(waiting.pop()):
            if name in LEFT_OUT:
                return LEFT_OUT[name]
            method = inspect.unwrap(getattr(type(test), name, test))
            if name not in seen and isinstance(method, FunctionType) and method.__module__ == type(test).__module__:
                seen.add(name)
                waiting.append(method.__code__)
    return None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
