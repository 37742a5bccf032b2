"""Emits the module of a plan: its kernels, each distinct one once, its entry point, and that of its `once` plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rushlight.codegen.llvm.builder.functions import Functions, KernelFunction
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.entry import emit_entry
from rushlight.codegen.llvm.entry.row_blocks import emit_row_blocks
from rushlight.codegen.llvm.gemm.macro_tile import declare_core
from rushlight.codegen.llvm.gemm.task import core_name, emit_gemm_kernel
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.plan import ENTRY, ONCE, Plan, RowBlockKernel


class MachineTarget(Protocol):
    """A target as code generation needs it: `ir.target.Target` or `CodeTarget`."""

    @property
    def architecture(self) -> str:
        """The first part of the target triple."""
        ...

    @property
    def vector_bytes(self) -> int:
        """The width of the vector registers."""
        ...


def emit_module(
    plan: Plan, target: MachineTarget, name: str = ENTRY, grid: bool = False
) -> tuple[str, tuple[str, ...]]:
    """The LLVM IR of a plan, and the messages of its assertions by number.

    Kernels with the same code are one function. Cores of matrix products are declared, not defined. The kernels of a
    `grid` run here, threads one after the other.
    """
    module = _Module(CodeTarget(target.architecture, target.vector_bytes, grid))
    if plan.once is not None:
        module.add(plan.once, ONCE)
    module.add(plan, name)
    return module.text(), tuple([assertion.message for assertion in plan.assertions])


class _Module:
    def __init__(self, target: CodeTarget) -> None:
        self.target = target
        self.functions = Functions()
        self.entries: list[str] = []
        self.cores: dict[str, None] = {}

    def add(self, plan: Plan, name: str) -> None:
        """Adds the entry of a plan, and its kernels, unless an earlier plan has added them."""
        functions: list[KernelFunction] = []
        for kernel in plan.kernels:
            functions.append(
                self.row_block(kernel, functions) if isinstance(kernel, RowBlockKernel) else self.kernel(kernel)
            )
        self.entries.append(emit_entry(plan, self.target, functions, name))

    def row_block(self, kernel: RowBlockKernel, functions: Sequence[KernelFunction]) -> KernelFunction:
        """A row block kernel's function; `functions` are those of the kernels before it."""

        def emit(name: str) -> str:
            return emit_row_blocks(kernel, functions, self.target, name)

        return KernelFunction(self.functions.add("row_blocks", emit))

    def kernel(self, kernel: Kernel | GemmKernel) -> KernelFunction:
        """A kernel's function."""
        if isinstance(kernel, GemmKernel):
            self.cores[core_name(kernel.tile)] = None
            return emit_gemm_kernel(kernel, self.target, self.functions)
        return KernelFunction(
            self.functions.add("kernel", lambda name: emit_kernel(kernel, self.target, name, self.functions))
        )

    def text(self) -> str:
        """The module: declarations of cores, then all functions."""
        return "\n".join([*[declare_core(core) for core in self.cores], *self.functions.shared(), *self.entries])
