"""One module for a plan: its kernels, each distinct one once, its entry point, and that of what runs once before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.entry import emit_entry
from rushlight.codegen.llvm.entry.row_blocks import emit_row_blocks
from rushlight.codegen.llvm.gemm.macro_tile import declare_core
from rushlight.codegen.llvm.gemm.task import core_name, emit_gemm_kernel
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.plan import ENTRY, ONCE, Plan, RowBlockKernel


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


def emit_module(plan: Plan, target: MachineTarget, name: str = ENTRY) -> tuple[str, tuple[str, ...]]:
    """LLVM IR of a plan, and the messages of its assertions by number.

    Kernels that differ in nothing but names are one function. Cores of matrix products are declared, not defined.
    """
    module = _Module(CodeTarget(target.architecture, target.vector_bytes))
    if plan.once is not None:
        module.add(plan.once, ONCE)
    module.add(plan, name)
    return module.text(), tuple([assertion.message for assertion in plan.assertions])


class _Module:
    def __init__(self, target: CodeTarget) -> None:
        self.target = target
        self.texts: list[str] = []
        self.known: dict[str, str] = {}
        self.cores: dict[str, None] = {}

    def add(self, plan: Plan, name: str) -> None:
        """The entry of a plan, and those of its kernels that are not there yet."""
        functions: list[str] = []
        for kernel in plan.kernels:
            functions.append(
                self.row_block(plan, kernel, functions) if isinstance(kernel, RowBlockKernel) else self.kernel(kernel)
            )
        self.texts.append(emit_entry(plan, self.target, functions, name))

    def row_block(self, plan: Plan, kernel: RowBlockKernel, functions: Sequence[str]) -> str:
        """The name of the function that runs bands; `functions` are those of the kernels before it."""
        text = emit_row_blocks(kernel, plan.kernels, functions, self.target, "bands")
        if text not in self.known:
            self.known[text] = f"bands_{len(self.known)}"
            self.texts.append(text.replace("@bands", f"@{self.known[text]}"))
        return self.known[text]

    def kernel(self, kernel: Kernel | GemmKernel) -> str:
        """The name of a kernel's function."""
        key = kernel_text(kernel)
        if key not in self.known:
            name = self.known[key] = f"kernel_{len(self.known)}"
            if isinstance(kernel, GemmKernel):
                self.cores[core_name(kernel.tile)] = None
                self.texts.append(emit_gemm_kernel(kernel, self.target, name))
            else:
                self.texts.append(emit_kernel(kernel, self.target, name))
        return self.known[key]

    def text(self) -> str:
        """All of it, what is defined elsewhere first."""
        return "\n".join([*[declare_core(core) for core in self.cores], *self.texts])
