"""Every operator with every rule, and nothing else.

Modules that nothing imports at the start are loaded when a rule of one of their operators is first asked for. Programs
name operators by namespace, as `rl.ops.mine.clipped` or `rl.ops.aten.add.Tensor`.
"""

from importlib import import_module

from rushlight.ops.deferred import FAMILIES
from rushlight.ops.record import OPERATORS, Fact, Operator, Sample, defer, define

__all__ = ["OPERATORS", "Fact", "Operator", "Sample", "define"]

_NAMESPACES = ("aten", "prims")  # PyTorch's, of operators that are ours
defer(FAMILIES)


def __getattr__(name: str) -> object:
    if name in _NAMESPACES or any(one.startswith(f"{name}::") for one in OPERATORS):
        return import_module("rushlight.library.namespaces").Namespace(name)  # many floors above
    raise AttributeError(f"module {__name__} has no attribute {name}")
