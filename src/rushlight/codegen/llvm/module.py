"""One module for a plan: its kernels, each distinct one once, and its entry point."""

from __future__ import annotations

from typing import Protocol

from rushlight.codegen.llvm.band import emit_band
from rushlight.codegen.llvm.entry import emit_entry
from rushlight.codegen.llvm.gemm import declare_core
from rushlight.codegen.llvm.gemm_kernel import core_name, emit_gemm_kernel
from rushlight.codegen.llvm.kernel import emit_kernel
from rushlight.codegen.llvm.target import CodeTarget
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.plan import BandKernel, Plan


class MachineTarget(Protocol):
    """What is asked of a target: `runtime.target.Target`, or a `CodeTarget`."""

    @property
    def architecture(self) -> str:
        """The first part of its triple."""
        ...

    @property
    def vector_bytes(self) -> int:
        """The width of its vector registers."""
        ...


def emit_module(plan: Plan, target: MachineTarget, name: str = "entry") -> tuple[str, tuple[str, ...]]:
    """LLVM IR of a plan, and the messages of its assertions by number.

    Kernels that differ in nothing but names are one function. Cores of matrix products are declared, not defined.
    """
    code_target = CodeTarget(target.architecture, target.vector_bytes)
    texts: list[str] = []
    functions: list[str] = []
    known: dict[str, str] = {}
    cores: dict[str, None] = {}
    for kernel in plan.kernels:
        if isinstance(kernel, BandKernel):
            text = emit_band(kernel, plan.kernels, functions, code_target, "bands")
            if text not in known:
                known[text] = f"bands_{len(known)}"
                texts.append(text.replace("@bands", f"@{known[text]}"))
            functions.append(known[text])
            continue
        key = kernel_text(kernel)
        if key not in known:
            known[key] = f"kernel_{len(known)}"
            if isinstance(kernel, GemmKernel):
                cores[core_name(kernel.tile)] = None
                texts.append(emit_gemm_kernel(kernel, code_target, known[key]))
            else:
                texts.append(emit_kernel(kernel, code_target, known[key]))
        functions.append(known[key])
    texts.append(emit_entry(plan, code_target, functions, name))
    texts[:0] = [declare_core(core) for core in cores]
    return "\n".join(texts), tuple([assertion.message for assertion in plan.assertions])
