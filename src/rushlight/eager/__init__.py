"""Tensors as the user holds them: dispatch, kernels on call, the autograd tape, fake tensors, symbols."""

from rushlight.eager import interception
from rushlight.eager.autograd import record
from rushlight.eager.execution import device, kernels, meta
from rushlight.eager.native.learning import python_calls
from rushlight.eager.override import answering
from rushlight.eager.tensor import Parameter, Tensor

__all__ = ["FALLBACK_KERNELS", "Parameter", "Tensor", "python_calls"]

FALLBACK_KERNELS = (
    kernels.run_on_cpu,
    meta.run_on_meta,
    device.run_on_device,
    record.record,
    interception.intercept,
    answering.intercept,
)
"""The boxed kernels that answer every operator; importing their modules registers them."""
