"""GEMM kernels of a plan: the task over macro tiles, its tiling function, and the epilogue's entrance."""

from __future__ import annotations

from dataclasses import fields

from rushlight.codegen.llvm.gemm import emit_plan, emit_task
from rushlight.codegen.llvm.kernel import emit_kernel
from rushlight.codegen.llvm.target import CodeTarget
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.kernel import TASK_WORDS, TILE_WORDS, GemmKernel


def core_name(tile: GemmTile) -> str:
    """The symbol of a tile's core, which is compiled once per machine and shared by all modules."""
    return "rushlight_gemm_" + "_".join([str(getattr(tile, item.name)) for item in fields(tile)])


def plan_name(name: str) -> str:
    """The function that chooses a GEMM kernel's macro tiles: `i64 (args, batches, threads)`, the number of tiles."""
    return f"{name}_tiles"


def emit_gemm_kernel(kernel: GemmKernel, target: CodeTarget, name: str) -> str:
    """IR of the kernel function `@name`, of `plan_name(name)` and of the epilogue. The core is external."""
    core = core_name(kernel.tile)
    if kernel.epilogue is None:
        return "\n".join((emit_plan(kernel.tile, plan_name(name)), emit_task(kernel.tile, name, core)))
    epilogue = f"{name}_epilogue"
    return "\n".join(
        (
            emit_plan(kernel.tile, plan_name(name), scratch=True),
            emit_kernel(kernel.epilogue, target, f"{epilogue}_rows"),
            _emit_entrance(kernel, target, epilogue),
            emit_task(kernel.tile, name, core, epilogue, scratch=True),
        )
    )


def _emit_entrance(kernel: GemmKernel, target: CodeTarget, name: str) -> str:
    """IR of the function that the task calls on a tile: it arranges the words that the epilogue's kernel expects."""
    epilogue = kernel.epilogue
    assert epilogue is not None
    buffers, sizes = len(epilogue.buffers) - 1, len(epilogue.sizes) - len(TILE_WORDS)
    total = 1 + buffers + len(epilogue.sizes)
    lines = [
        f"define internal void @{name}(ptr %args, ptr %tile, i64 %tile_ld, i64 %batch, i64 %row, i64 %column, "
        f"i64 %rows, i64 %columns) {target.attributes} {{",
        f"  %words = alloca [{total} x i64], align 8",
        "  %tile_word = ptrtoint ptr %tile to i64",
        "  store i64 %tile_word, ptr %words, align 8",
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

    for item in range(buffers):
        copy(len(TASK_WORDS) + item)
    for word in TILE_WORDS:
        put(f"%{word}")
    for item in range(sizes):
        copy(len(TASK_WORDS) + buffers + item)
    lines += [f"  call void @{name}_rows(ptr %words, i64 0, i64 %rows)", "  ret void", "}"]
    return "\n".join(lines) + "\n"
