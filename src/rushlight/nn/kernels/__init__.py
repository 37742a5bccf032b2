"""Kernels in the tile language that models share: norms, rotations, divergences, products, routing, sequences.

They are operators: with gradients, in compiled functions and exported files, and tuned like kernels of programs.

```python
from rushlight.nn import kernels

loss = kernels.linear_cross_entropy(hidden, weight, labels)
```
"""

from rushlight.nn.kernels.divergences import jsd, kl, linear_cross_entropy, linear_jsd
from rushlight.nn.kernels.products import int4_mm, jagged_dense, jagged_outer
from rushlight.nn.kernels.routing import top_k_routing
from rushlight.nn.kernels.rowwise import rms_norm, rotary, swiglu
from rushlight.nn.kernels.sequences import paged_attention, selective_scan

__all__ = [
    "int4_mm",
    "jagged_dense",
    "jagged_outer",
    "jsd",
    "kl",
    "linear_cross_entropy",
    "linear_jsd",
    "paged_attention",
    "rms_norm",
    "rotary",
    "selective_scan",
    "swiglu",
    "top_k_routing",
]
