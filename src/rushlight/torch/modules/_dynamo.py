"""`torch._dynamo`, as far as programs steer the compiler by it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rushlight.compiler import mark_dynamic, mark_static, reset
from rushlight.torch.modules.compiler import allow_in_graph, assume_constant_result, disable, is_compiling
from rushlight.torch.submodule import Submodule

__all__ = [
    "OptimizedModule",
    "_trace_wrapped_higher_order_op",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "exc",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


config = Submodule(
    "Flags of a compiler that is not used; they may be set, and change nothing.",
    cache_size_limit=8,
    capture_scalar_outputs=True,
    recompile_limit=8,
    suppress_errors=False,
)


class Unsupported(RuntimeError):
    """An exception to catch: nothing raises it."""


class OptimizedModule:
    """A class for `isinstance`: nothing is an instance."""


def _plain() -> AbstractContextManager[None]:
    """Change nothing: elements of tensors are taken by index, and mapped, as they are written."""
    return nullcontext()


def mark_static_address(value: object, guard: bool = True) -> None:
    """Do nothing: where a tensor lies is no part of compiled code."""


def maybe_mark_dynamic(value: object, index: object) -> None:
    """Do nothing: sizes are symbols where a program allows it."""


exc = Submodule("Exceptions of a compiler that is not used.", Unsupported=Unsupported)
_trace_wrapped_higher_order_op = Submodule("Contexts of a compiler that is not used.", TransformGetItemToIndex=_plain)
