"""The smallest part of a graph whose compiled code is wrong.

What each call gives is known: it is computed call by call. So any set of calls is a graph of its own, whose inputs are
what other calls gave, and delta debugging (Zeller and Hildebrandt, 2002) leaves out calls while the code is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.build.reference import Array
from rushlight.ir.graph import NUMBER, PARAMETER, RESULT, Call, Graph, parameter, with_dense_outputs
from rushlight.ir.sizes import with_hidden_sizes
from rushlight.ir.value import map_operands
from rushlight.repro.given import laid_out
from rushlight.repro.running import Arrays, by_calls, compiled, differing, sizes_of
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen


@frozen
class Shrunk:
    """A graph that is wrong, with inputs; `tried` parts were compiled to find it."""

    graph: Graph
    arrays: tuple[Array, ...]
    tried: int


def is_wrong(graph: Graph, arrays: Arrays) -> bool:
    """Whether compiled code gives other bits than its calls one by one."""
    return bool(differing(compiled(graph, arrays), by_calls(graph, arrays)))


def shrink(graph: Graph, arrays: Arrays, wrong: Callable[[Graph, Arrays], bool] = is_wrong) -> Shrunk:
    """The smallest part of a graph that is found wrong, by sets of calls. Errors: C043 where the graph is not wrong.

    `wrong` judges a graph with its inputs.
    """
    parts = Parts(graph, arrays)
    tried = 0

    def fails(kept: Sequence[Call]) -> bool:
        nonlocal tried
        tried += 1
        return wrong(*parts.of(kept))

    calls = parts.calls
    if not fails(calls):
        fail("C043", "shrink: compiled code gives what the calls give one by one", graph=graph.name)
    smallest, found = parts.of(_least(calls, fails))
    return Shrunk(smallest, tuple(found), tried)


def _least(calls: Sequence[Call], fails: Callable[[Sequence[Call]], bool]) -> Sequence[Call]:
    """A part of a list that fails, of which no piece can be left out; the list itself fails."""
    pieces = 2
    while len(calls) > 1:
        length = -(-len(calls) // pieces)
        starts = range(0, len(calls), length)
        chunks = [calls[start : start + length] for start in starts]
        rests = [[*calls[:start], *calls[start + length :]] for start in starts] if len(chunks) > 2 else []
        smaller = next((part for part in (*chunks, *rests) if fails(part)), None)
        if smaller is not None:
            pieces = 2 if smaller in chunks else max(2, pieces - 1)
            calls = smaller
        elif length == 1:
            break
        else:
            pieces = min(2 * pieces, len(calls))
    return calls


class Parts:
    """Sets of calls of a graph as graphs, with their inputs."""

    def __init__(self, graph: Graph, arrays: Arrays) -> None:
        self.calls = [call for call in graph.calls if call.op not in (NUMBER, RESULT)]
        self._graph = graph
        self._values = {id(call): array for call, array in zip(graph.parameters, arrays, strict=True)}
        self._sizes = sizes_of(graph, arrays)
        made = [call for call in graph.calls if call.op is not NUMBER and not isinstance(call.type, tuple)]
        every = with_dense_outputs(Graph(graph.parameters, graph.calls, tuple(made), name=graph.name))
        for call, array in zip(made, by_calls(every, arrays), strict=True):
            self._values[id(call)] = array
        self._needed = {id(call) for call in graph.results()}

    def of(self, kept: Sequence[Call]) -> tuple[Graph, list[Array]]:
        """The graph of some calls: what it reads of others are inputs, what is not read within it are outputs."""
        wanted = {id(call) for call in kept}
        images: dict[int, Call] = {}
        parameters: list[tuple[Call, Array]] = []
        calls: list[Call] = []

        def image(operand: Call) -> Call:
            if id(operand) not in images:
                made = parameter(f"in{len(parameters)}", operand.type)
                parameters.append((made, self._values[id(operand)]))
                images[id(operand)] = made
            return images[id(operand)]

        read: set[int] = set()
        for call in self._graph.calls:
            of_kept = call.op is RESULT and id(call.operands[0]) in wanted
            if call.op is NUMBER or of_kept or id(call) in wanted:
                read.update([id(operand) for operand in call.inputs()])
                made = Call(
                    call.op, map_operands(call.operands, image), call.attrs, call.type, call.frames, call.region
                )
                images[id(call)] = made
                calls.append(made)
        ends = [call for call in self._graph.calls if self._is_end(call, images, read)]
        graph = Graph(
            tuple([made for made, _ in parameters]),
            tuple(calls),
            tuple([images[id(call)] for call in ends]),
            name=self._graph.name,
        )
        return self._with_sizes(with_dense_outputs(graph.without_dead_calls()), [array for _, array in parameters])

    def _is_end(self, call: Call, images: dict[int, Call], read: set[int]) -> bool:
        """Whether a call is an output of its part: made there, and read by no call of it, or given by the graph."""
        made = images.get(id(call))
        if made is None or made.op in (NUMBER, PARAMETER) or isinstance(call.type, tuple):
            return False
        return id(call) not in read or id(call) in self._needed

    def _with_sizes(self, graph: Graph, arrays: list[Array]) -> tuple[Graph, list[Array]]:
        """The graph with an input for sizes that none of its tensors shows."""
        graph, hidden = with_hidden_sizes(graph)
        if hidden:
            shape = [self._sizes[symbol] for symbol in hidden]
            arrays = [*arrays, laid_out(shape, [0] * len(shape), graph.parameters[-1].type.dtype.numpy)]
        return graph, arrays
