"""The order of a backward pass and of its accumulations.

The eager tape, joint graphs and compiled autograd all use it. It knows nothing of tensors: a `Step` is anything that a
forward pass recorded, and gradients are whatever `add` adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar


class Step(Protocol):
    """One recorded event. `sequence` grows with every event; a sink (a leaf) has `SINK`, and runs at once.

    `edges` say where the gradients of its inputs go: a step and the number of one of its outputs, or None.
    """

    @property
    def sequence(self) -> int:
        """When it was recorded; every step's edges lead to earlier steps, or to sinks."""
        ...

    @property
    def edges(self) -> Sequence[Edge | None]:
        """One per input."""
        ...

    @property
    def folds(self) -> Sequence[int]:
        """The inputs to each of which it gives the sum of several gradients."""
        ...

    @property
    def merges(self) -> bool:
        """Whether there are steps that may run with it as one, and that wait for it."""
        ...

    @property
    def paths(self) -> Sequence[Edge | None] | None:
        """Where gradients of its outputs lead to. None: where its edges do, which some steps have for others too."""
        ...

    @property
    def rest(self) -> Sequence[Step]:
        """The steps that have to run with it, one after the other: they give what it leaves to them."""
        ...


class Merged(Step, Protocol):
    """Several steps that run as one; each of them waits for the one before it.

    `edges` are those of all steps, but the ones from step to step. It takes the gradients of all of their outputs.
    """

    def joined(self, gradients: Sequence[list[Any]]) -> list[Any]:
        """The gradients of the outputs of all steps in one list, for those that have arrived at each."""
        ...

    @property
    def steps(self) -> Sequence[Step]:
        """The steps, in order."""
        ...


Edge = tuple[Step, int]
G = TypeVar("G")
SINK = 1 << 62


class Apart(tuple[Any, ...]):
    """Several gradients of one input, to be added one after the other."""

    __slots__ = ()


@dataclass(slots=True)
class _Arrivals(Generic[G]):
    """What a step has received, and how many of its users have not run yet."""

    gradients: list[G | None] = field(default_factory=list)
    waiting: int = 0


def walk(
    roots: Iterable[tuple[Edge, G | None]],
    run: Callable[[Step, list[G | None], Mapping[int, G]], Sequence[G | Apart | None]],
    add: Callable[[G, G], G],
    *,
    prepare: Callable[[Step, list[G | None], bool], None] | None = None,
    targets: Iterable[Edge] = (),
    captured: Callable[[Edge, G | None], None] | None = None,
    until_targets: bool = False,
    part: Mapping[int, Step] | None = None,
    merged: Callable[[Step], Merged | None] | None = None,
) -> None:
    """Runs the steps that the roots depend on, each once, after all of its users.

    `run` takes a step, the gradients of its outputs (None where nothing arrived), and those of its `folds` where
    something has arrived already, with that. It gives one or None per edge, and for these several that are to be added.

    Order: steps whose users have all run go by descending sequence, sinks first, so operators run in the reverse
    order of their calls. Gradients that meet at one output fold on the right in the order in which they arrive: roots
    first, then users in reverse order of calls, then a user's operands from left to right.

    When everything has arrived at a step, `prepare(step, gradients, runs)` may replace gradients, then `captured(edge,
    gradient)` is called for the targets among its outputs, then it `runs` unless nothing wanted lies behind it. With
    `until_targets` only steps on the way from roots to targets run. With a `part`, by identity, the others are neither
    prepared nor run. `merged(step)` may give the step as one with those that follow it, where nobody asks for what
    arrives at these.
    """
    pairs = list(roots)
    wanted: dict[int, list[Edge]] = {}
    for edge in targets:
        wanted.setdefault(id(edge[0]), []).append(edge)
    reached = reachable([edge[0] for edge, _ in pairs]) if part is None else part
    asked = _leading_to(reached, wanted) if until_targets else None
    leading = (
        None if asked is None else asked | {id(one) for key in asked & reached.keys() for one in reached[key].rest}
    )
    arrivals: dict[int, _Arrivals[G]] = _count_users(reached, leading, wanted)
    ready: list[tuple[int, int, Step]] = []
    order = 0
    for edge, gradient in pairs:
        _arrive(arrivals[id(edge[0])], edge[1], gradient, add)
    steps = {id(edge[0]): edge[0] for edge, _ in pairs}
    for key in steps:
        if not arrivals[key].waiting and (leading is None or key in leading):
            order += 1
            heappush(ready, (-steps[key].sequence, order, steps[key]))
    while ready:
        step = heappop(ready)[2]
        gradients = arrivals.pop(id(step)).gradients
        inside = part is None or id(step) in part
        runs = inside and (leading is None or any(edge and id(edge[0]) in leading for edge in step.edges))
        if prepare is not None and inside and (asked is None or id(step) in asked):
            prepare(step, gradients, runs)
        for edge in wanted.get(id(step), ()):
            if captured is not None:
                captured(edge, gradients[edge[1]] if edge[1] < len(gradients) else None)
        if not runs:
            continue
        whole = merged(step) if merged is not None and step.merges else None
        if whole is not None:
            gradients = whole.joined([gradients, *[arrivals.pop(id(one)).gradients for one in whole.steps[1:]]])
            step = whole
        edges = step.edges
        arrived = any(gradient is not None for gradient in gradients)
        begun = _begun(step, edges, arrivals) if step.folds else {}
        results = run(step, gradients, begun) if arrived else [None] * len(edges)
        for edge, gradient in zip(edges, results, strict=True):
            if edge is None or (leading is not None and id(edge[0]) not in leading):
                continue
            user = arrivals[id(edge[0])]
            if isinstance(gradient, Apart):
                for one in gradient:
                    _arrive(user, edge[1], one, add)
            else:
                _arrive(user, edge[1], gradient, add)
            user.waiting -= 1
            if not user.waiting:
                order += 1
                heappush(ready, (-edge[0].sequence, order, edge[0]))


def _arrive(at: _Arrivals[G], output: int, gradient: G | None, add: Callable[[G, G], G]) -> None:
    gradients = at.gradients
    if output >= len(gradients):
        gradients.extend([None] * (output + 1 - len(gradients)))
    if gradient is not None:
        before = gradients[output]
        gradients[output] = gradient if before is None else add(before, gradient)


def _begun(step: Step, edges: Sequence[Edge | None], arrivals: Mapping[int, _Arrivals[G]]) -> dict[int, G]:
    """Those of a step's folds for which something has arrived from elsewhere, and what."""
    begun: dict[int, G] = {}
    for position in step.folds:
        edge = edges[position]
        at = None if edge is None else arrivals.get(id(edge[0]))
        if edge is None or at is None or edge[1] >= len(at.gradients):
            continue
        gradient = at.gradients[edge[1]]
        if gradient is not None:
            begun[position] = gradient
    return begun


def reachable(roots: Sequence[Step]) -> Mapping[int, Step]:
    """The steps below the roots by identity, roots included."""
    reached: dict[int, Step] = {}
    stack = list(roots)
    while stack:
        step = stack.pop()
        if id(step) not in reached:
            reached[id(step)] = step
            stack.extend([edge[0] for edge in step.edges if edge is not None and id(edge[0]) not in reached])
    return reached


def executed(roots: Sequence[Step], targets: Sequence[Edge] | None) -> set[int]:
    """The steps, by identity, that a pass from the roots runs: with targets, those that lead there."""
    reached = reachable(roots)
    if targets is None:
        return set(reached)
    return _leading_to(reached, {id(edge[0]): [edge] for edge in targets}) & set(reached)


def _leading_to(reached: Mapping[int, Step], wanted: dict[int, list[Edge]]) -> set[int]:
    """The steps from which a wanted step can be reached.

    Edges lead from higher to lower sequence numbers, or to sinks.
    """
    leading: set[int] = {key for key in wanted if key in reached}
    for step in sorted(reached.values(), key=lambda step: step.sequence if step.sequence != SINK else -1):
        if id(step) not in leading and _leads_on(step, leading):
            leading.add(id(step))
    return leading


def _leads_on(step: Step, leading: set[int]) -> bool:
    edges = step.edges if step.paths is None else step.paths
    return any(edge is not None and id(edge[0]) in leading for edge in edges)


def _count_users(
    reached: Mapping[int, Step], leading: set[int] | None, wanted: Mapping[int, object]
) -> dict[int, _Arrivals[G]]:
    arrivals: dict[int, _Arrivals[G]] = {key: _Arrivals() for key in (*wanted, *reached)}
    for key, step in reached.items():
        if leading is not None and key not in leading:
            continue
        for edge in step.edges:
            if edge is not None and (leading is None or id(edge[0]) in leading):
                arrivals[id(edge[0])].waiting += 1
    return arrivals
