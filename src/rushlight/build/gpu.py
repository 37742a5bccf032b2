"""From a graph to code of GPUs: the pipeline with grids, then LLVM's code generators, PTX or objects for AMD's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rushlight.build.pipeline import PLAN_STAGE, run_passes
from rushlight.codegen.llvm.builder.gpu_words import AMD, NVIDIA
from rushlight.codegen.llvm.entry.gpu import GridEntry, emit_grids
from rushlight.ir.choice import GRID
from rushlight.ir.graph import Graph
from rushlight.ir.grid.matrix_unit import MMA, WGMMA, MatrixUnit
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


AMD_FEATURES = MappingProxyType({"gfx90a": "", "gfx942": "", "gfx1100": "+wavefrontsize32,-wavefrontsize64"})
"""The features of each of AMD's architectures."""


@frozen
class GpuCode:
    """PTX text, the entries in it: one for each kernel of the plan, in its order; and the plan, with its launches."""

    text: str
    entries: tuple[GridEntry, ...]
    plan: Plan


def compile_ptx(graph: Graph, architecture: str, tensor_cores: bool = True) -> GpuCode:
    """The PTX of a graph's kernels for an architecture, such as `sm_90a`. Errors: C006."""
    version = _known(architecture, PTX_VERSIONS)
    target = Target(f"{NVIDIA}-nvidia-cuda", architecture, f"+{version}", 0)
    plan = _plan_of(graph, target, UNITS_OF[architecture] if tensor_cores else None)
    with clock.stage("emit"):
        text, entries = emit_grids(plan, NVIDIA)
    with clock.stage("LLVM"):
        return GpuCode(llvm.assembly(text, target, optimise=2), entries, plan)


@frozen
class GpuObject:
    """A relocatable ELF object, the entries in it, and the plan. Each entry `NAME` has its descriptor `NAME.kd`."""

    code: bytes
    entries: tuple[GridEntry, ...]
    plan: Plan


def compile_amd(graph: Graph, architecture: str) -> GpuObject:
    """The object of a graph's kernels for one of AMD's architectures, such as `gfx90a`. Errors: C006."""
    features = _known(architecture, AMD_FEATURES)
    target = Target(f"{AMD}-amd-amdhsa", architecture, features, 0)
    plan = _plan_of(graph, target, None)
    with clock.stage("emit"):
        text, entries = emit_grids(plan, AMD)
    with clock.stage("LLVM"):
        return GpuObject(llvm.compile_object(text, target, optimise=2), entries, plan)


def _known(architecture: str, known: Mapping[str, str]) -> str:
    found = known.get(architecture)
    if found is None:
        hint = f"known architectures: {', '.join(known)}"
        fail("C006", "target: there is no such target", name=architecture, hint=hint)
    return found


def _plan_of(graph: Graph, target: Target, unit: MatrixUnit | None) -> Plan:
    return run_passes(graph, target, until=PLAN_STAGE, blocks=replace(GRID, unit=unit))
