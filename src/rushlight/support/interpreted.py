"""Functions of ours around one of the program's, as decorators make them: capture looks into those that say so here.

Others it calls as they are, and what they call back runs once, while a graph is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_codes: set[int] = set()  # of functions, by identity: each definition has one, which its module keeps


def interpreted(function: F) -> F:
    """Says that a function only calls the one that it is around, in a scope or with hooks."""
    made: Any = function
    _codes.add(id(made.__code__))
    return function


def is_interpreted(function: FunctionType) -> bool:
    """Whether capture looks into a function of ours."""
    return id(function.__code__) in _codes


WITHIN = "__rushlight_within__"  # of a function of ours: what its callers call in its place where they are interpreted
