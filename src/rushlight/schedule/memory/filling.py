"""Fills memory with zeros before stores that are not proven to write all of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rushlight.ir.coverage import runs_of
from rushlight.ir.dtype import real_dtype
from rushlight.ir.kernel import Axis, AxisKind, Kernel, Loop, Statement, Store
from rushlight.ir.plan import Launch, Plan
from rushlight.ir.scalar import Buffer, constant
from rushlight.ir.target import Target
from rushlight.ir.type import TensorType
from rushlight.ir.verify_memory import Undecided
from rushlight.sym import Size, SizeExpr, axis_symbol, free_symbols, product


def fill_first(plan: Plan, undecided: Iterable[Undecided]) -> Plan:
    """The plan with a launch that fills memory before each undecided write to memory that is not filled."""
    kernels, launches = list(plan.kernels), list(plan.launches)
    places: dict[Buffer, int] = {}
    for write in undecided:
        if not write.filled:
            places[write.buffer] = min(places.get(write.buffer, write.launch), write.launch)
    for buffer, offset in sorted(places.items(), key=lambda pair: -pair[1]):
        kernel, count = _fill(buffer, f"k{len(kernels)}_fill")
        launches.insert(offset, Launch(len(kernels), (buffer, *kernel.sizes), count, Target.GRAIN_STEPS))
        kernels.append(kernel)
    return replace(plan, kernels=tuple(kernels), launches=tuple(launches))


def _fill(buffer: Buffer, name: str) -> tuple[Kernel, Size]:
    """The kernel that writes zero to all elements of a buffer, and its number of parallel iterations."""
    real = real_dtype(buffer.type.dtype)
    inner = Buffer(buffer.name, TensorType((0,), real), buffer.scope)
    runs = runs_of(buffer.type, buffer.type.dtype.is_complex)
    axes = [axis_symbol(length, f"i{position}") for position, (_, length) in enumerate(runs)]
    offset: Size = 0
    symbols: dict[SizeExpr, None] = {}
    for axis, (step, length) in zip(axes, runs, strict=True):
        offset = offset + axis * step
        symbols.update(dict.fromkeys([*free_symbols(step), *free_symbols(length)]))
    body: Statement = Store(inner, offset, constant(0, real))
    kind = AxisKind.PARALLEL_VECTOR
    for axis, (_, length) in zip(axes, runs, strict=True):
        body = Loop(Axis(axis, length, kind), (body,))
        kind = AxisKind.PARALLEL
    return Kernel(name, (inner,), tuple(symbols), (body,)), product([length for _, length in runs])
