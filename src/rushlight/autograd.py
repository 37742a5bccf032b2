"""Gradients by name: `grad`, `backward`, custom functions, gradient modes and checks."""

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
from rushlight.support.peer_names import absent_name

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]

backward = checked(driver.backward)
grad = checked(driver.grad)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
