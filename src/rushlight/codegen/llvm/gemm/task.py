"""Emits a GEMM kernel of a plan: the task over macro tiles, its tiling function, and its epilogue and prologue."""

from __future__ import annotations

from dataclasses import fields

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.builder.functions import Functions, KernelFunction
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.gemm.macro_tile import emit_task
from rushlight.codegen.llvm.gemm.tiling import emit_plan
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.kernel import Attached, GemmKernel


def core_name(tile: GemmTile) -> str:
    """The symbol of a tile's core. A core is compiled once per machine and shared by all modules."""
    return "rushlight_gemm_" + "_".join([str(getattr(tile, field.name)) for field in fields(tile)])


def emit_gemm_kernel(kernel: GemmKernel, target: CodeTarget, functions: Functions) -> KernelFunction:
    """Adds the functions of a kernel: its task, the one that counts its tiles, and attached kernels.

    That of tiles is `i64 (args, batches, threads)`. The core is external.
    """
    tile, scratch, split_k = kernel.tile, kernel.epilogue is not None, kernel.split_k
    tiles = functions.add("tiles", lambda name: emit_plan(tile, name, scratch=scratch, split_k=split_k))
    attached = {inner.role: _add_attached(inner, target, functions) for inner in kernel.attached}
    core, epilogue, panel = core_name(tile), attached.get("epilogue"), attached.get("prologue")

    def emit(name: str) -> str:
        return emit_task(tile, name, core, epilogue, scratch=scratch, panel=panel, split_k=split_k)

    return KernelFunction(functions.add("kernel", emit), tiles)


def _add_attached(inner: Attached, target: CodeTarget, functions: Functions) -> str:
    """The name of the function that a product calls to run an attached kernel on a tile or panel."""
    rows = functions.add(f"{inner.role}_rows", lambda name: emit_kernel(inner.kernel, target, name, functions))
    return functions.add(inner.role, lambda name: _emit_adapter(inner, target, name, rows))


def _emit_adapter(inner: Attached, target: CodeTarget, name: str, rows: str) -> str:
    """Emits the function that is called on a tile or panel: it lays out the arguments of the attached kernel.

    These are the tile or panel, the buffers among the product's arguments, the position and size of the tile or panel,
    and the sizes among the product's arguments.
    """
    parameters = ", ".join([f"i64 %{arg}" for arg in inner.args])
    code = FunctionBuilder(f"define internal void @{name}(ptr %args, ptr %memory, {parameters}) {target.attributes}")
    code.let("kernel_args", f"alloca [{len(inner.kernel.buffers) + len(inner.kernel.sizes)} x i64], align 8")
    code.store("i64", code.let("address", "ptrtoint ptr %memory to i64"), "%kernel_args", 8)
    first_size = inner.first_arg + inner.buffers
    sources: list[int | str] = [
        *range(inner.first_arg, first_size),
        *[f"%{arg}" for arg in inner.args],
        *range(first_size, first_size + inner.sizes),
    ]
    for index, source in enumerate(sources, 1):
        value = code.load_word(f"value{index}", "%args", source) if isinstance(source, int) else source
        code.store("i64", value, code.address(f"to{index}", "i64", "%kernel_args", index), 8)
    count = "%rows" if inner.kernel.parallel_axes else "1"
    code.do(f"call void @{rows}(ptr %kernel_args, i64 0, i64 {count})")
    return code.finish()
