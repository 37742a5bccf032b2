"""What the compiler did for some functions, in numbers."""

from __future__ import annotations

from typing import TypeGuard

from rushlight.capture import CompiledFunction, CompiledModule, explain_entries
from rushlight.support.frozen import frozen


@frozen
class Report:
    """Sums over the graphs of some compiled functions.

    `kernels` are different ones, `launches` are those of calling each graph once. `compile_seconds` were spent in this
    process: what came from the cache cost none. `arena_bytes` is the largest graph's memory for intermediate results.
    """

    graphs: int
    recompiles: int
    kernels: int
    launches: int
    compile_seconds: float
    arena_bytes: int
    cache_hits: int
    cache_misses: int


def is_compiled(function: object) -> TypeGuard[CompiledFunction | CompiledModule]:
    """Whether something is what `rl.compile` returned."""
    return isinstance(function, CompiledFunction | CompiledModule)


def report(*functions: object) -> Report:
    """The report of compiled functions and modules; others count as nothing."""
    compiled = [function for function in functions if is_compiled(function)]
    entries = [explain_entries(function) for function in compiled]
    executables = [executable for some in entries for entry in some for executable in entry.executables]
    summaries = [executable.summary for executable in executables]
    fresh = [executable.summary for executable in executables if not executable.cached]
    return Report(
        graphs=sum([len(some) for some in entries]),
        recompiles=sum([max(0, len(some) - 1) for some in entries]),
        kernels=sum([summary.kernels for summary in summaries]),
        launches=sum([summary.launches for summary in summaries]),
        compile_seconds=sum([summary.compile_ns for summary in fresh]) / 1e9,
        arena_bytes=max([summary.arena_hint_bytes for summary in summaries], default=0),
        cache_hits=len(executables) - len(fresh),
        cache_misses=len(fresh),
    )
