"""GEMM kernels of a plan: the task over macro tiles, its tiling function, and the kernels that are attached to it."""

from __future__ import annotations

from dataclasses import fields

from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.gemm.macro_tile import emit_task
from rushlight.codegen.llvm.gemm.tiling import emit_plan
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.kernel import Attached, GemmKernel


def core_name(tile: GemmTile) -> str:
    """The symbol of a tile's core, which is compiled once per machine and shared by all modules."""
    return "rushlight_gemm_" + "_".join([str(getattr(tile, item.name)) for item in fields(tile)])


def plan_name(name: str) -> str:
    """The function that chooses a GEMM kernel's macro tiles: `i64 (args, batches, threads)`, the number of tiles."""
    return f"{name}_tiles"


def emit_gemm_kernel(kernel: GemmKernel, target: CodeTarget, name: str) -> str:
    """IR of the kernel function `@name`, of `plan_name(name)` and of what is attached. The core is external."""
    scratch = kernel.epilogue is not None
    texts = [emit_plan(kernel.tile, plan_name(name), scratch=scratch, split_k=kernel.split_k)]
    functions = {inner.role: f"{name}_{inner.role}" for inner in kernel.attached}
    for inner in kernel.attached:
        function = functions[inner.role]
        texts.append(emit_kernel(inner.kernel, target, f"{function}_rows"))
        texts.append(_emit_adapter(inner, target, function))
    epilogue, panel = functions.get("epilogue"), functions.get("prologue")
    core = core_name(kernel.tile)
    texts.append(emit_task(kernel.tile, name, core, epilogue, scratch=scratch, panel=panel, split_k=kernel.split_k))
    return "\n".join(texts)


def _emit_adapter(inner: Attached, target: CodeTarget, name: str) -> str:
    """IR of the function that is called on a tile or panel: it arranges the words that the attached kernel expects."""
    total = len(inner.kernel.buffers) + len(inner.kernel.sizes)
    parameters = ", ".join(f"i64 %{word}" for word in inner.args)
    lines = [
        f"define internal void @{name}(ptr %args, ptr %memory, {parameters}) {target.attributes} {{",
        f"  %words = alloca [{total} x i64], align 8",
        "  %memory_word = ptrtoint ptr %memory to i64",
        "  store i64 %memory_word, ptr %words, align 8",
    ]
    place = 1

    def put(value: str) -> None:
        nonlocal place
        lines.append(f"  %at{place} = getelementptr i64, ptr %words, i64 {place}")
        lines.append(f"  store i64 {value}, ptr %at{place}, align 8")
        place += 1

    def copy(word: int) -> None:
        lines.append(f"  %from{place} = getelementptr i64, ptr %args, i64 {word}")
        lines.append(f"  %word{place} = load i64, ptr %from{place}, align 8")
        put(f"%word{place}")

    for item in range(inner.buffers):
        copy(inner.first_arg + item)
    for word in inner.args:
        put(f"%{word}")
    for item in range(inner.sizes):
        copy(inner.first_arg + inner.buffers + item)
    count = "%rows" if inner.kernel.parallel_axes else "1"
    lines += [f"  call void @{name}_rows(ptr %words, i64 0, i64 {count})", "  ret void", "}"]
    return "\n".join(lines) + "\n"
