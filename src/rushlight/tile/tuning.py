"""Searching for the fast blocks of a kernel: the tuner's search, on the arguments of a call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rushlight import tune as tuner
from rushlight.build.native import Chooser
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.memory import array_of
from rushlight.ir.choice import BLOCKS, AxisBlock, AxisSpace, by_model

if TYPE_CHECKING:
    from rushlight.ir.choice import Blocks, Product
    from rushlight.ir.gemm_tile import GemmTile
    from rushlight.ir.graph import Graph
    from rushlight.tune import Tuner

DEFAULT_BUDGET_S = 10.0


class Tunable(Protocol):
    """A kernel."""

    operator: Any
    spaces: list[AxisSpace]

    def operator_with(self, chooser: Any) -> Any:
        """A record whose eager code has the tiles and blocks that are chosen."""
        ...

    def tensors(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Any, ...]:
        """The tensors among arguments."""
        ...

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs it."""
        ...


class Declared(Chooser):
    """Chooses the blocks that a kernel's loops name as numbers, and what the cost model says."""

    def __init__(self, kernel: Tunable) -> None:
        self._kernel = kernel

    def key(self, graph: Graph) -> str:
        """There is nothing beside the blocks."""
        return ""

    def choose(self, product: Product) -> GemmTile:
        """The cost model's tile."""
        return by_model(product)

    def blocks(self, graph: Graph) -> Blocks:
        """The blocks for a graph."""
        return declared_blocks(self._kernel.spaces)

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """The cost model needs nothing."""


def declared_blocks(spaces: Sequence[AxisSpace]) -> Blocks:
    """The cost model's blocks, and those that loops name as numbers."""
    blocks = BLOCKS
    for space in spaces:
        if space.low == space.high:
            blocks = blocks.with_axis(AxisBlock(space.parameter, space.dim, space.low))
    return blocks


class Searching(Chooser):
    """Chooses what a tuner finds on operands, as long as there are any; afterwards what is recorded."""

    def __init__(self, tuner: Tuner, kernel: Tunable, operands: list[Any]) -> None:
        self.tuner = tuner
        self.kernel = kernel
        self.operands = operands
        self.found: Blocks | None = None

    def key(self, graph: Graph) -> str:
        """The machine, and the ranges of the sizes."""
        return self.tuner.key(graph)

    def choose(self, product: Product) -> GemmTile:
        """The tile for a product."""
        return self.tuner.choose(product)

    def blocks(self, graph: Graph) -> Blocks:
        """The blocks for a graph."""
        if not self.operands:
            return self.tuner.blocks(graph)
        spaces = self.kernel.spaces
        self.found = self.tuner.search_blocks(graph, self.operands, declared_blocks(spaces), spaces)
        return self.found

    def note(self, product: Product) -> tuple[str, str] | None:
        """What is recorded for a product."""
        return self.tuner.note(product)

    def holds(self, notes: Sequence[tuple[str, str]]) -> bool:
        """Whether the records say the same still."""
        return self.tuner.holds(notes)

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """The search of blocks has asked for the tiles too."""
        if not self.operands:
            self.tuner.prepare(graph, blocks)


def tune(kernel: Tunable, *args: object, budget: float = DEFAULT_BUDGET_S, **kwargs: object) -> Blocks | None:
    """Searches for the fastest tiles and blocks of a kernel on such arguments, for so many seconds.

    They are recorded, and the kernel's eager calls have them from here on: a choice changes speed, never bits. Where a
    record fits nothing is measured. None where the call runs no code, such as one of empty tensors.

    >>> rl.tile.tune(softmax, rl.randn(4096, 1024), budget=5)
    """
    search = tuner.tuner_here()
    search.deadline, search.budget_s = time.perf_counter() + budget, budget / 2
    searching = Searching(search, kernel, [array_of(tensor) for tensor in kernel.tensors(args, kwargs)])
    kernel.operator = kernel.operator_with(searching)
    with no_grad():
        kernel(*args, **kwargs)
    searching.operands = []
    search.deadline = 0.0  # later forms have what is recorded, or the cost model's choice
    return searching.found
