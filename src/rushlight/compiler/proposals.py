"""From compiling as calls come to compiling ahead: specifications that say what a compiled function has been given."""

from __future__ import annotations

from rushlight.capture import CompiledModule
from rushlight.compiler.report import is_compiled
from rushlight.ir.spec.propose import propose
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.support.errors import fail


def propose_specs(function: object) -> list[ParamsSpec]:
    """A specification for each graph of a compiled function, the oldest first. Covered ones are left out.

    Each takes the arguments that the graph's guards on sizes take: `rl.compile(function, specs=...)` makes artifacts
    that nothing is guarded in, and with a `domain` proves that no call is left out. Sizes of the first calls are hints.
    """
    if not is_compiled(function):
        fail("A001", "propose_specs: this was not compiled", function=type(function).__name__)
    compiled = function._compiled if isinstance(function, CompiledModule) else function
    return propose([trace for trace in compiled.observed() if trace is not None])
