"""numpy without arithmetic: while `poisoned()` lasts, every ufunc and every function of numpy that computes raises.

Arrays made meanwhile are of a class whose operators and methods raise too. Left alone is what only makes, describes or
copies arrays: `ALLOWED`.
"""

import contextlib

import numpy as np
from numpy._core import _methods

ALLOWED = {
    "array",
    "asarray",
    "ascontiguousarray",
    "broadcast_to",
    "can_cast",
    "copyto",
    "dtype",
    "empty",
    "errstate",
    "finfo",
    "frombuffer",
    "geterr",
    "iinfo",
    "may_share_memory",
    "ndarray",
    "ndindex",
    "result_type",
    "seterr",
    "shares_memory",
}
MAKERS = ("array", "asarray", "ascontiguousarray", "empty", "frombuffer", "broadcast_to")


class Computed(AssertionError):
    """numpy computed something while it was poisoned."""


class InertArray(np.ndarray):
    """An array that can be read and written but not computed with."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        raise Computed(f"numpy.{ufunc.__name__}.{method} on an array")

    def __array_function__(self, function, types, args, options):
        if function.__name__ in ALLOWED:
            return super().__array_function__(function, types, args, options)
        raise Computed(f"numpy.{function.__name__} on an array")


def _raising(name):
    def poison(*args, **options):
        raise Computed(f"numpy.{name} was called")

    return poison


def _making(function):
    def make(*args, **options):
        return function(*args, **options).view(InertArray)

    return make


def _poisons():
    for name in dir(np):
        value = getattr(np, name)
        computes = isinstance(value, np.ufunc) or (callable(value) and not isinstance(value, type))
        if computes and not name.startswith("_") and name not in ALLOWED:
            yield np, name, _raising(name)
    for name in MAKERS:
        yield np, name, _making(getattr(np, name))
    yield np, "ndarray", InertArray
    for name in ("umr_sum", "umr_prod", "umr_maximum", "umr_minimum", "umr_any", "umr_all"):
        yield _methods, name, _raising(name)


@contextlib.contextmanager
def poisoned():
    """While it lasts, numpy computes nothing."""
    kept = [(module, name, getattr(module, name), poison) for module, name, poison in _poisons()]
    try:
        for module, name, _, poison in kept:
            setattr(module, name, poison)
        yield
    finally:
        for module, name, value, _ in kept:
            setattr(module, name, value)
