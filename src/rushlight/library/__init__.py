"""Custom operators: defined by a program, and then eager, compiled, exported, differentiated and batched like others.

@rl.library.custom_op("mine::scaled", mutates_args=())
def scaled(x: rl.Tensor, factor: float = 2.0) -> rl.Tensor:
    return rl.from_numpy(x.numpy() * factor)


@scaled.register_fake
def _(x, factor=2.0):
    return rl.empty_like(x)
"""

from rushlight.library.checks import opcheck
from rushlight.library.operators import OPERATORS, CustomOpDef, custom_op
from rushlight.library.registering import (
    Library,
    define,
    get_ctx,
    impl,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
    triton_op,
)
from rushlight.library.schemas import infer_schema
from rushlight.library.tags import Tag
from rushlight.support.peer_names import absent_name

__all__ = [
    "OPERATORS",
    "CustomOpDef",
    "Library",
    "Tag",
    "custom_op",
    "define",
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
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
