"""Gradients by name: `grad`, `backward`, custom functions, gradient modes and checks."""

from __future__ import annotations

from rushlight.autograd import anomaly_mode, forward_ad, functional, grad_mode, graph, profiler
from rushlight.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from rushlight.autograd.grad_mode import is_multithreading_enabled, set_multithreading_enabled
from rushlight.eager.autograd import driver
from rushlight.eager.autograd.check import gradcheck, gradgradcheck
from rushlight.eager.autograd.function import Function, once_differentiable
from rushlight.eager.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail
from rushlight.support.peer_names import absent_name

__all__ = [
    "Function",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "once_differentiable",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

backward = checked(driver.backward)
grad = checked(driver.grad)


class _VariableClass(type):
    """Tensors are what PyTorch once called variables."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableClass):
    """The old name of tensors with gradients: `Variable(tensor, requires_grad)` is a tensor that shares the memory."""

    def __new__(cls, data: object, requires_grad: bool = False) -> Tensor:  # pyright: ignore[reportInconsistentConstructor] - gives a Tensor
        """A tensor on the same memory, without history."""
        if not isinstance(data, Tensor):
            fail("A001", "Variable: a tensor is expected", data=data)
        return data.detach().requires_grad_(requires_grad)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
