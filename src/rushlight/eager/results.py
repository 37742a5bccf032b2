"""Named tuples for operators with several results, as torch.return_types."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from rushlight.ops.record import Operator


@functools.cache
def results_type(op: Operator) -> type[Any]:
    """The named tuple of an operator's results, with the names that the schema gives them."""
    make: Any = NamedTuple
    return make(op.name.partition(".")[0], [(result.name, Any) for result in op.schema.results])


def named_results(op: Operator, results: Any) -> Any:
    """The results under the names that the schema gives them; what an override gives is left as it is."""
    return results_type(op)(*results) if results.__class__ is tuple else results
