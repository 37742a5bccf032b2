"""Races two choices: the same graph compiled with each, compared bit by bit, then timed in turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rushlight.build.executable import Executable
from rushlight.build.native import Chooser, compile_native
from rushlight.ir.choice import BLOCKS, Blocks, Product
from rushlight.ir.dtype import BY_NAME, from_numpy_dtype
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ir.type import TensorType
from rushlight.ops.record import OPERATORS
from rushlight.runtime import descriptor, pool
from rushlight.support.frozen import frozen
from rushlight.sym import Size, optimization_hint
from rushlight.tune.records import with_sizes_of

Array = npt.NDArray[Any]
ROUNDS, LEAST_ROUNDS = 8, 2
MOST_S = 1.0  # for a race, if rounds are left
_OTHERS = {"float32": "float64", "float64": "float32", "bfloat16": "float32", "int8": "int32"}
SAMPLE_S = 0.003  # a sample is so many runs that it takes about so long


def up_to(size: int) -> int:
    """The power of two that ends the range of a size."""
    return 1 << max(0, size - 1).bit_length()


@frozen
class Problem:
    """A product to tune for: the cost model's tile, sizes, and its name in the records."""

    tile: GemmTile
    sizes: tuple[int, int, int, int]
    epilogue: bool
    name: str

    @staticmethod
    def of(product: Product) -> Problem:
        """The problem for a product: an unknown size stands for its range."""
        tile = product.tile
        operands = [
            f"a {'packed' if tile.a_packed else 'plain'} {tile.a_format}",
            f"b {'made' if tile.b_made else 'packed' if tile.b_packed else 'plain'} {tile.b_format}",
        ]
        sizes = [f"{letter}{_range(size)}" for letter, size in zip("BMNK", product.sizes, strict=True)]
        words = [tile.dtype, *sizes, *operands, *(["epilogue"] if product.epilogue else [])]
        batches, rows, columns, inner = [optimization_hint(size) for size in product.sizes]
        return Problem(tile, (batches, rows, columns, inner), product.epilogue, ", ".join(words))

    def __str__(self) -> str:
        return self.name


def _range(size: Size) -> str:
    return f"={size}" if isinstance(size, int) else f"<={up_to(optimization_hint(size))}"


Choice = TypeVar("Choice", bound=Hashable)
Asked = TypeVar("Asked", contravariant=True)


Answer = tuple[float | None, float]
"""The seconds of a choice, None where its results differ, and those of the best so far."""


def share_of(answer: Answer) -> float:
    """How long a choice took, as a share of the best one's time; infinite where its results differ."""
    return math.inf if answer[0] is None else answer[0] / max(answer[1], 1e-12)


class Contest(Protocol[Asked]):
    """Runs choices for one graph against each other."""

    def prepare(self, choice: Asked) -> object:
        """Hears which choice will be asked about soon."""
        ...

    def run(self, choice: Asked, best: Asked) -> Answer | None:
        """The seconds of a choice and of the best so far; None where no more can be said."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


class Race(Generic[Choice]):
    """Runs choices for one graph against each other in this process, on operands that are given once."""

    def __init__(self, graph: Graph, operands: Sequence[Array], chooser: Callable[[Choice], Chooser]) -> None:
        self._graph = graph
        self._operands = operands
        self._chooser = chooser
        self._runners: dict[Choice, Runner] = {}

    def prepare(self, choice: Choice) -> None:
        """Nothing is made ahead."""

    def close(self) -> None:
        """Lets go of the code."""
        self._runners.clear()

    def run(self, choice: Choice, best: Choice) -> Answer:
        """See `compare`."""
        return compare(self._runner(choice), self._runner(best))

    def _made(self, choice: Choice) -> Runner:
        executable = compile_native(self._graph, self._chooser(choice))
        return Runner(executable, self._operands, written_by(self._graph))

    def _runner(self, choice: Choice) -> Runner:
        if choice not in self._runners:
            self._runners[choice] = self._made(choice)
        return self._runners[choice]


def written_by(graph: Graph) -> list[int]:
    """The positions of the operands that a graph overwrites."""
    return [position for position, _ in graph.mutations]


def compare(mine: Runner, best: Runner) -> Answer:
    """The seconds of one and of the best so far; None for the first where their results differ.

    They are the least of samples that are taken in turns: what else the machine does only adds to a time.
    """
    if mine.made() != best.made():
        return None, best.sample()
    end = time.perf_counter() + MOST_S
    samples = [(mine.sample(), best.sample())]
    while len(samples) < LEAST_ROUNDS or (len(samples) < ROUNDS and time.perf_counter() < end):
        samples.append((mine.sample(), best.sample()))
    return min([pair[0] for pair in samples]), min([pair[1] for pair in samples])


def product_race(problem: Problem, race: Callable[..., Contest[GemmTile]] = Race) -> Contest[GemmTile]:
    """A race of tiles, on random operands."""
    graph, random = graph_of(problem), np.random.default_rng(0)
    return race(graph, [_operand(call.type, random) for call in graph.parameters], Always)


class Always(Chooser):
    """Chooses the sizes of one tile, and blocks, for code that is not cached."""

    def __init__(self, tile: GemmTile | None = None, blocks: Blocks = BLOCKS) -> None:
        self._tile = tile
        self._blocks = blocks

    def key(self, graph: Graph) -> None:
        """There is none."""

    def choose(self, product: Product) -> GemmTile:
        """The product's tile with the sizes of this one."""
        return product.tile if self._tile is None else with_sizes_of(product.tile, self._tile)

    def blocks(self, graph: Graph) -> Blocks:
        """These blocks."""
        return self._blocks

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """Nothing is left to choose."""


class Prepared:
    """An executable with operands, and with arrays that `empty(shape, dtype)` makes for its `results`."""

    def __init__(
        self, executable: Executable, operands: Sequence[Array], empty: Callable[..., Array] = np.empty
    ) -> None:
        self._executable = executable
        made = executable.infer_outputs([array.shape for array in operands])
        self.results = [
            _laid_out(empty(shape, type_.dtype.numpy), strides)
            for (shape, strides), type_ in zip(made, executable.output_types, strict=True)
        ]
        kept = _kept(executable, operands)
        self._arrays = [*operands, *kept, *self.results]  # descriptors do not hold them
        self._words = [_described(array) for array in self._arrays]
        self._work = executable.work_of([array.shape for array in self._arrays])

    def run(self) -> None:
        """One run."""
        self._executable.launch([address for _, address in self._words], self._work)


class Runner(Prepared):
    """The code of a choice on operands; `results` are the results of the first run.

    Operands at positions `written` are overwritten: code runs on copies, which samples begin with anew.
    """

    def __init__(self, executable: Executable, operands: Sequence[Array], written: Sequence[int] = ()) -> None:
        self._given = [(operands[position].copy(), operands[position]) for position in written]
        own = {position: copy for position, (copy, _) in zip(written, self._given, strict=True)}
        super().__init__(executable, [own.get(position, one) for position, one in enumerate(operands)])
        self.run()
        self._first = [array.copy() for array in (*self.results, *own.values())] if written else self.results
        self._restore()
        start = time.perf_counter()
        self.run()
        self._times = max(1, round(SAMPLE_S / max(time.perf_counter() - start, 1e-6)))

    def made(self) -> list[bytes]:
        """The results of the first run, and what it left in operands."""
        return [array.tobytes() for array in self._first]

    def _restore(self) -> None:
        for copy, original in self._given:
            np.copyto(copy, original)

    def sample(self) -> float:
        """Seconds per run, averaged over enough runs for a sample."""
        self._restore()
        # One thread's time is the processor's: what else the machine does is not counted.
        clock = time.process_time if pool.get_num_threads() == 1 else time.perf_counter
        start = clock()
        for _ in range(self._times):
            self.run()
        return (clock() - start) / self._times


def _laid_out(array: Array, strides: Sequence[int] | None) -> Array:
    """An array, or its memory in the order of other dense strides."""
    if strides is None or not array.size:
        return array
    return np.lib.stride_tricks.as_strided(array, array.shape, [stride * array.itemsize for stride in strides])


def graph_of(problem: Problem) -> Graph:
    """The graph of a problem. Operands that are packed or made are those of an expression: here, negative ones."""
    tile = problem.tile
    batches, rows, columns, inner = problem.sizes
    lead = (batches,) if batches != 1 else ()
    builder = GraphBuilder("product")
    operands: list[Node] = []
    for letter, sizes, form, computed in (
        ("a", (rows, inner), tile.a_format, tile.a_packed),
        ("b", (inner, columns), tile.b_format, tile.b_made),
    ):
        stored = (*lead, *sizes) if form == "row" else (*lead, *reversed(sizes))
        operand = builder.parameter(
            letter, TensorType(stored, BY_NAME[_OTHERS[tile.dtype] if computed else tile.dtype])
        )
        if computed:
            operand = builder.apply(OPERATORS["to_dtype"], (operand,), {"dtype": BY_NAME[tile.dtype]})
        if form == "column":
            operand = builder.apply(OPERATORS["transpose"], (operand,), {"dim0": -2, "dim1": -1})
        operands.append(operand)
    product = builder.apply(OPERATORS["_int_mm" if tile.dtype == "int8" else "matmul"], tuple(operands), {})
    if problem.epilogue:
        product = builder.apply(OPERATORS["relu"], (product,), {})
    return replace(builder.graph([product]), frozen=(1,) if tile.b_packed else ())


def _operand(type_: TensorType, random: np.random.Generator) -> Array:
    """Random elements, few enough different ones that a product of integers stays exact."""
    return random.integers(-8, 8, [int(size) for size in type_.shape]).astype(type_.dtype.numpy)


def _kept(executable: Executable, operands: Sequence[Array]) -> list[Array]:
    """Computes the cached values of frozen operands, once."""
    once = executable.once
    if once is None:
        return []
    kept = [np.empty([int(size) for size in type_.shape], type_.dtype.numpy) for type_ in once.output_types]
    words = [_described(array) for array in (*[operands[position] for position in executable.reads], *kept)]
    once.launch([address for _, address in words], once.work_of([array.shape for array in kept]))
    return kept


def _described(array: Array) -> tuple[Any, int]:
    strides = [stride // array.itemsize for stride in array.strides]
    dtype = from_numpy_dtype(array.dtype)
    assert dtype is not None
    return descriptor.describe(array.ctypes.data, dtype.code, array.shape, strides)
