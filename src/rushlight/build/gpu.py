"""From a graph to PTX: the pipeline with grids, then LLVM's code generator for NVIDIA's GPUs."""

from __future__ import annotations

from types import MappingProxyType

from rushlight.build.pipeline import PLAN_STAGE, run_passes
from rushlight.codegen.llvm.entry.gpu import ARCHITECTURE, GridEntry, emit_grids
from rushlight.ir.choice import GRID
from rushlight.ir.graph import Graph
from rushlight.ir.target import Target
from rushlight.runtime import llvm
from rushlight.support import clock
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

PTX_VERSIONS = MappingProxyType({"sm_80": "ptx80", "sm_90a": "ptx80", "sm_100": "ptx86"})
"""The version of PTX that is written for each architecture."""


@frozen
class GpuCode:
    """PTX text, and the entries in it: one for each kernel of the plan, in its order."""

    text: str
    entries: tuple[GridEntry, ...]


def compile_ptx(graph: Graph, architecture: str) -> GpuCode:
    """The PTX of a graph's kernels for an architecture, such as `sm_90a`. Errors: C006."""
    version = PTX_VERSIONS.get(architecture)
    if version is None:
        known = ", ".join(PTX_VERSIONS)
        fail("C006", "target: there is no such target", name=architecture, hint=f"known architectures: {known}")
    target = Target(f"{ARCHITECTURE}-nvidia-cuda", architecture, f"+{version}", 0)
    plan = run_passes(graph, target, until=PLAN_STAGE, blocks=GRID)
    with clock.stage("emit"):
        text, entries = emit_grids(plan)
    with clock.stage("LLVM"):
        return GpuCode(llvm.assembly(text, target), entries)
