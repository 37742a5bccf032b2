"""LLVM IR as text: kernels, matrix products and entry points."""

from rushlight.codegen.llvm.entry import emit_entry
from rushlight.codegen.llvm.kernel import emit_kernel
from rushlight.codegen.llvm.module import emit_module
from rushlight.codegen.llvm.target import CodeTarget

__all__ = ["CodeTarget", "emit_entry", "emit_kernel", "emit_module"]
