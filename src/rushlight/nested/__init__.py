"""Nested tensors: batches whose members differ in one size, without padding.

```python
batch = rl.nested.nested_tensor([rl.rand(2, 8), rl.rand(5, 8)], layout=rl.jagged)
batch.shape  # [2, j1, 8]
layer(batch).unbind()
```
"""

from __future__ import annotations

from rushlight.nested import rules  # noqa: F401 # pyright: ignore[reportUnusedImport] - it registers rules
from rushlight.nested.making import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from rushlight.nested.tensor import NestedTensor, RaggedSize

__all__ = [
    "NestedTensor",
    "RaggedSize",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
