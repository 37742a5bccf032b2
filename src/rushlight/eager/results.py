"""Named tuples for operators with several results, as torch.return_types."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.ops.record import Operator

_types: dict[Operator, type[Any]] = {}


def named_results(op: Operator, results: tuple[object, ...]) -> Any:
    """The results under the names that the schema gives them."""
    found = _types.get(op)
    if found is None:
        make: Any = NamedTuple
        fields = [(result.name, Any) for result in op.schema.results]
        found = _types[op] = make(op.name.partition(".")[0], fields)
    assert found is not None
    return found(*results)
