"""In which dtypes a sharded module computes and communicates: PyTorch's `MixedPrecisionPolicy`."""

from __future__ import annotations

from rushlight.ir.dtype import DType
from rushlight.support.frozen import frozen


@frozen
class MixedPrecisionPolicy:
    """Dtypes of gathering, reducing and results; None leaves a dtype as it is.

    Parameters are gathered in `param_dtype` and gradients reduced in `reduce_dtype`.
    Floating-point inputs of a module are converted to `param_dtype` unless `cast_forward_inputs` is False, and its
    outputs to `output_dtype`. What is kept, and what optimizers see, has the parameters' own dtype.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@frozen
class OffloadPolicy:
    """Parameters stay where they are."""


@frozen
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters are on the CPU between uses. Those of a model on the CPU are there anyway."""

    pin_memory: bool = True
