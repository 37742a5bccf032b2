"""LLVM IR as text: kernels, matrix products and entry points."""

from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.entry import emit_entry
from rushlight.codegen.llvm.entry.module import emit_module
from rushlight.codegen.llvm.kernel.function import emit_kernel

__all__ = ["CodeTarget", "emit_entry", "emit_kernel", "emit_module"]
