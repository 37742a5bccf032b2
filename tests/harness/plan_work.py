"""How often a plan computes each of its terms, counted from its loops for given sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rushlight.codegen.llvm.builder.analysis import Analysis
from rushlight.ir.kernel import TASK_ARGS, Axis, GemmKernel, Kernel, Loop, Statement, Store
from rushlight.ir.plan import THREADS, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import Scalar, bound_axes, chain_axis
from rushlight.sym import Size, SizeExpr, axis_size, evaluate, free_symbols
from rushlight.term import postorder

Sizes = Mapping[SizeExpr, int]


def work_of(plan: Plan, sizes: Sizes) -> int:
    """Terms that all launches compute, each as often as the axes that it depends on ask for."""
    once = 0 if plan.once is None else work_of(plan.once, sizes)
    return once + sum(_work_of_launch(plan, launch, {THREADS: 2, **sizes}) for launch in plan.launches)


def _work_of_launch(plan: Plan, launch: Launch, sizes: Sizes) -> int:
    kernel, words = plan.kernels[launch.kernel], launch.arguments
    if isinstance(kernel, GemmKernel):
        rows, columns, steps = (_value(words[TASK_ARGS.index(word)], sizes) for word in ("m", "n", "k"))
        return rows * columns * (steps + 1) * _value(launch.count, sizes)
    first = len(kernel.buffers) + isinstance(
        kernel, RowBlockKernel
    )  # row blocks have scratch memory before their buffers
    given = {symbol: _value(word, sizes) for symbol, word in zip(kernel.sizes, words[first:], strict=False)}
    if isinstance(kernel, Kernel):
        return _KernelWork(kernel, given).count()
    return _work_of_row_blocks(plan, kernel, {**sizes, **given})


def _work_of_row_blocks(plan: Plan, kernel: RowBlockKernel, sizes: Sizes) -> int:
    """The row block half-way, as often as there are row blocks."""
    known, row_blocks = dict(sizes), 1
    for loop in kernel.loops:
        step, extent = max(1, evaluate(loop.step, known)), evaluate(loop.extent, known)
        known[loop.start] = extent // 2 // step * step
        known[loop.length] = min(step, extent - known[loop.start])
        row_blocks *= -(-extent // step)
    if kernel.causal_bound is not None:
        known[kernel.causal_bound.symbol] = evaluate(kernel.causal_bound.far, known)
    return row_blocks * sum(_work_of_launch(plan, launch, known) for launch in kernel.launches)


def _value(size: object, sizes: Sizes) -> int:
    assert isinstance(size, (int, SizeExpr)), size
    return evaluate(size, sizes)


class _KernelWork:
    """A kernel whose loops inside of others have the lengths that they have half-way through these."""

    def __init__(self, kernel: Kernel, sizes: Sizes) -> None:
        self.kernel = kernel
        self.analysis = Analysis(kernel)
        self.known: dict[SizeExpr, int] = dict(sizes)
        self.lengths: dict[int, int] = {}
        self.loops: list[Axis] = []

    def count(self) -> int:
        analysis = self.analysis
        stores = self._loops(self.kernel.body, 1)
        for term in reversed(analysis.reductions):  # those around others first
            for axis in bound_axes(term):
                self.lengths[analysis.axis_bits[axis]] = self._length(axis_size(axis))
                self.known[axis] = self.lengths[analysis.axis_bits[axis]] // 2
        return stores + sum(self._times(term) for term in postorder(analysis.roots))

    def _loops(self, body: tuple[Statement, ...], around: int) -> int:
        stores = 0
        for statement in body:
            if isinstance(statement, Loop):
                axis = statement.axis
                length = 1 if isinstance(axis.extent, Scalar) else self._length(axis.extent)
                start = 0 if isinstance(axis.start, Scalar) else self._length(axis.start)
                self.lengths[self.analysis.axis_bits[axis.symbol]] = length
                self.known[axis.symbol] = start + length // 2
                self.loops.append(axis)
                stores += self._loops(statement.body, around * length)
            elif isinstance(statement, Store):
                stores += around
        return stores

    def _length(self, size: Size) -> int:
        missing = [] if isinstance(size, int) else [item for item in free_symbols(size) if item not in self.known]
        for axis in missing:
            self.known[axis] = self._length(axis_size(axis)) // 2
        return max(0, evaluate(size, self.known))

    def _times(self, term: Scalar) -> int:
        axes = self.analysis.free[term]
        if bound := bound_axes(term):
            own = 0 if self._is_running(term) else sum(self.analysis.axis_bits[axis] for axis in bound)
            axes |= own
        return math.prod([length for bit, length in self.lengths.items() if axes & bit])

    def _is_running(self, term: Scalar) -> bool:
        """Whether code carries a chain from turn to turn of a loop, as `codegen.llvm.running` does."""
        chain = chain_axis(term)
        return chain is not None and any(axis_size(chain) - axis.symbol == 1 for axis in self.loops)
