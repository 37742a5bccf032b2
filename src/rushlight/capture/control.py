"""How calls of control flow run: which of their graphs, and how often. Graphs are functions of lists of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rushlight.eager.memory import array_of
from rushlight.ops import Operator, control

Body = Callable[[Sequence[Any]], list[Any]]


def run_cond(predicate: Any, operands: Sequence[Any], branches: tuple[Body, Body], types: Any, sizes: Any) -> list[Any]:
    """The results of one branch."""
    return branches[0 if array_of(predicate) else 1](operands)


DRIVERS: Mapping[Operator, Callable[..., list[Any]]] = MappingProxyType({control.cond: run_cond})
