"""The tile language: kernels as Python functions with loops over tiles.

```python
@rl.tile.kernel
def softmax(x):
    out = rl.empty_like(x)
    for i in tile(x.shape[0]):
        row = x[i, :]
        scaled = (row - row.amax(1, keepdim=True)).exp()
        out[i, :] = scaled / scaled.sum(1, keepdim=True)
    return out
```

The module can be called: `rl.tile(x, dims)` repeats a tensor, as PyTorch's function does.
"""

import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any as _Any

from rushlight.eager.functions import tile as _repeated
from rushlight.tile.kernel import Kernel, kernel
from rushlight.tile.language import atomic_add, atomic_max, atomic_min, cdiv, dot, load, store
from rushlight.tile.ranges import BlockSize, Tile, register_block_size, tile
from rushlight.tile.tuning import tune

__all__ = [
    "BlockSize",
    "Kernel",
    "Tile",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "cdiv",
    "dot",
    "kernel",
    "load",
    "register_block_size",
    "store",
    "tile",
    "tune",
]


class _Module(_ModuleType):
    """The module, which is the function that repeats tensors as well."""

    __wrapped__ = _repeated

    def __call__(self, input: _Any, dims: _Any) -> _Any:
        return _repeated(input, dims)


_sys.modules[__name__].__class__ = _Module
