"""`torch.library`: custom operators, which `rushlight.library` defines."""

from __future__ import annotations

from rushlight.library import (
    OPERATORS,
    CustomOpDef,
    Library,
    custom_op,
    define,
    get_ctx,
    impl,
    infer_schema,
    opcheck,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
    triton_op,
)
from rushlight.torch.passing import refuse

__all__ = [
    "OPERATORS",
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]


def wrap_triton(triton_kernel: object, /) -> object:
    """Raise A006."""
    refuse("torch.library.wrap_triton", "kernels are made by the compiler here")


def fallthrough_kernel(*args: object) -> object:
    """Raise A006."""
    refuse("torch.library.fallthrough_kernel", "there are no kernels by key")
