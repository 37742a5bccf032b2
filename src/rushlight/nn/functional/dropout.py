"""Elements, or whole channels, set to 0 by chance."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require


@checked
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return the input with elements set to 0 with probability `p`, and the others divided by `1 - p`."""
    require(0.0 <= p <= 1.0, "A002", f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    result = ops.dropout(input, p, training)
    return input.copy_(result) if inplace else result
