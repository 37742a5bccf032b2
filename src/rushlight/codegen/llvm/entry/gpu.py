"""Emits the kernels of a plan of grids for a GPU: each distinct one once, with an entry that a driver launches.

A launch of `NAME_grid` has as many blocks as the plan's launch counts. Its only parameter are the kernel's argument
words: addresses of buffers, sizes, and the bytes of each buffer. One block of a processor may take all registers: to
spill some costs more than a second block gains.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.functions import Functions
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import Plan
from rushlight.support.frozen import frozen


@frozen
class GridEntry:
    """An entry: its name, the threads of a block, the argument words, and the kernel of the plan it is made for."""

    name: str
    threads: int
    words: int
    kernel: str


def emit_grids(plan: Plan, architecture: str) -> tuple[str, tuple[GridEntry, ...]]:
    """The LLVM IR of a plan's kernels for an architecture, and an entry for each: first those of `once`.

    Kernels with the same code share an entry.
    """
    functions = Functions()
    target = CodeTarget(architecture, 0, grid=True)
    entries: list[GridEntry] = []
    for part in (plan,) if plan.once is None else (plan.once, plan):
        for kernel in part.kernels:
            assert isinstance(kernel, Kernel), "plans for grids have loops alone"
            entries.append(_entry(kernel, functions, target))
    texts = dict.fromkeys([_entry_text(entry, target) for entry in entries])
    return "\n".join([*functions.texts, *texts]), tuple(entries)


def _entry(kernel: Kernel, functions: Functions, target: CodeTarget) -> GridEntry:
    name = functions.add("kernel", lambda name: emit_kernel(kernel, target, name, functions))
    words = len(kernel.buffers) + len(kernel.sizes)
    return GridEntry(f"{name}_grid", max(kernel.threads, 1), words, kernel.name)


def _entry_text(entry: GridEntry, target: CodeTarget) -> str:
    name, words = entry.name.removesuffix("_grid"), target.words
    begun = words.entry.format(name=entry.name, words=entry.words, threads=entry.threads)
    return f"""{begun}
  %block = {words.block}
  %begin = zext i32 %block to i64
  %end = add i64 %begin, 1
  call void @{name}(ptr %args, i64 %begin, i64 %end)
  ret void
}}
"""
