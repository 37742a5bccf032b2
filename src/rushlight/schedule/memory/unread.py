"""Finds results that no launch of a plan reads, so that stores to them may bypass the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import AnyKernel, Launch
from rushlight.ir.scalar import OPS, Buffer
from rushlight.term import postorder


def mark_unread(
    kernels: Sequence[AnyKernel], launches: Sequence[Launch], results: Sequence[Buffer]
) -> tuple[AnyKernel, ...]:
    """The kernels, each with the buffers that are results read by no launch, at all its launches."""
    uses: dict[Buffer, int] = {}
    for launch in launches:
        for buffer in launch.buffers:
            uses[buffer] = uses.get(buffer, 0) + 1
    alone = {buffer for buffer in results if uses.get(buffer) == 1}
    buffers: dict[int, set[Buffer]] = {}
    for launch in launches:
        kernel = kernels[launch.kernel]
        if isinstance(kernel, Kernel):
            places = zip(kernel.buffers, launch.arguments, strict=False)
            here = {inner for inner, outer in places if outer in alone}
            buffers[launch.kernel] = here & buffers.get(launch.kernel, here)
    marked = list(kernels)
    for number, unread in buffers.items():
        kernel = kernels[number]
        if unread and isinstance(kernel, Kernel):
            loaded = _loaded(kernel)
            unread_in_order = [buffer for buffer in kernel.buffers if buffer in unread and buffer not in loaded]
            marked[number] = replace(kernel, unread=tuple(unread_in_order))
    return tuple(marked)


def _loaded(kernel: Kernel) -> set[Buffer]:
    """The buffers that a kernel reads and has not written itself for reuse."""
    terms = list(postorder([store.value for store in kernel.stores()]))
    kept = {term.attr("buffer") for term in terms if term.op is OPS["keep"]}
    return {term.attr("buffer") for term in terms if term.op is OPS["load"]} - kept
