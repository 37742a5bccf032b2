"""From a graph to PTX: the pipeline with grids, then LLVM's code generator for NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from rushlight.build.pipeline import PLAN_STAGE, run_passes
from rushlight.codegen.llvm.entry.gpu import ARCHITECTURE, GridEntry, emit_grids
from rushlight.ir.choice import GRID
from rushlight.ir.graph import Graph
from rushlight.ir.grid.matrix_unit import MMA, WGMMA
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.runtime import llvm
from rushlight.support import clock
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

PTX_VERSIONS = MappingProxyType({"sm_80": "ptx80", "sm_90a": "ptx80", "sm_100": "ptx86"})
"""The version of PTX that is written for each architecture."""
UNITS_OF = MappingProxyType({"sm_80": MMA, "sm_90a": WGMMA, "sm_100": MMA})
"""What multiplies matrices of 16-bit numbers on each architecture."""


@frozen
class GpuCode:
    """PTX text, the entries in it: one for each kernel of the plan, in its order; and the plan, with its launches."""

    text: str
    entries: tuple[GridEntry, ...]
    plan: Plan


def compile_ptx(graph: Graph, architecture: str, tensor_cores: bool = True) -> GpuCode:
    """The PTX of a graph's kernels for an architecture, such as `sm_90a`. Errors: C006."""
    version = PTX_VERSIONS.get(architecture)
    if version is None:
        known = ", ".join(PTX_VERSIONS)
        fail("C006", "target: there is no such target", name=architecture, hint=f"known architectures: {known}")
    target = Target(f"{ARCHITECTURE}-nvidia-cuda", architecture, f"+{version}", 0)
    blocks = replace(GRID, unit=UNITS_OF[architecture] if tensor_cores else None)
    plan = run_passes(graph, target, until=PLAN_STAGE, blocks=blocks)
    with clock.stage("emit"):
        text, entries = emit_grids(plan)
    with clock.stage("LLVM"):
        return GpuCode(llvm.assembly(text, target, optimise=2), entries, plan)
