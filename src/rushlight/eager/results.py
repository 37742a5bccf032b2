"""Named tuples for operators with several results, as torch.return_types."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from rushlight.ops.record import Operator

_types: dict[Operator, type[Any]] = {}


def named_results(op: Operator, results: tuple[Any, ...]) -> Any:
    """The results under the names that the schema gives them."""
    found = _types.get(op)
    if found is None:
        names = [result.name for result in op.schema.results]
        found = _types[op] = namedtuple(op.name.partition(".")[0], names)
    return found(*results)
