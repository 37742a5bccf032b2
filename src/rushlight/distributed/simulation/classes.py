"""Classes of ranks that do the same, of which one runs for all.

The groups of the first rank tell the mesh. Ranks that it lays along an axis are taken to do the same if the first, the
second and the last of them do; else each is a class of its own. Some ranks drawn at random check it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from rushlight.distributed.simulation.recording import Doing, Trace
from rushlight.support.errors import fail

Run = Callable[[int], Trace]
FEW = 8
"""Worlds of so many ranks run each of them."""
_MOST = 128  # classes
_CHECKED = 3  # ranks drawn at random
_UNEQUAL, _NOISE = 1.5, 5e-3  # of computing: unequal by a ratio, and by more than so many seconds
_AGAIN = 3  # runs of ranks that seem to compute for longer than others


class Class(NamedTuple):
    """Ranks that do the same, and what the one that ran did."""

    ranks: tuple[int, ...]
    trace: Trace

    def __str__(self) -> str:
        first = ", ".join([str(rank) for rank in self.ranks[:3]])
        if len(self.ranks) == 1:
            return f"rank {first}"
        return f"ranks {first}" if len(self.ranks) <= 3 else f"ranks {first}, … ({len(self.ranks)} of them)"


def find_classes(world: int, run: Run, of_rank: Callable[[int], Hashable] | None, seed: int) -> list[Class]:
    """The classes of a world; `of_rank` tells them where the caller knows. Errors: A002 where ranks of one differ."""
    if of_rank is None and world > FEW:
        return _by_mesh(world, run, seed)
    found: dict[Hashable, list[int]] = {}
    for rank in range(world):
        found.setdefault(rank if of_rank is None else of_rank(rank), []).append(rank)
    return [Class(tuple(ranks), run(ranks[0])) for ranks in found.values()]


def signature(trace: Trace) -> tuple[object, ...]:
    """What a rank does, as other ranks of its class say it: its calls, with groups and peers relative to itself."""
    numbers = [(event.doing, event.number) for event in trace.events if event.doing is not Doing.COMPUTE]
    calls = [
        (call.verb, call.nbytes, call.agreement, pattern(call.ranks), call.tag, _direction(call.peer, trace.rank))
        for call in trace.calls
    ]
    return *numbers, *calls


def pattern(ranks: Sequence[int]) -> tuple[int, ...]:
    """The ranks of a group relative to its first."""
    return tuple([rank - ranks[0] for rank in ranks])


def _direction(peer: int | None, rank: int) -> int:
    return 0 if peer is None else (peer > rank) - (peer < rank)


def computing(trace: Trace) -> float | None:
    """The seconds that a rank computes in its quickest step; None without steps."""
    return min([sum([event.seconds for event in step]) for step in trace.steps], default=None)


class _Runs:
    """The ranks that have run, and how alike they are."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._traces: dict[int, Trace] = {}

    def of(self, rank: int) -> Trace:
        """What a rank does."""
        if rank not in self._traces:
            self._traces[rank] = self._run(rank)
        return self._traces[rank]

    def alike(self, one: int, other: int) -> bool:
        """Whether two ranks do the same, and in their steps compute for as long but for noise."""
        if signature(self.of(one)) != signature(self.of(other)):
            return False
        for _ in range(_AGAIN):
            slower = self._slower(one, other)
            if slower is None:
                return True
            # Whatever disturbs a run makes it slower, so the slower one is asked again, and the quicker run counts.
            self._traces[slower] = min(self.of(slower), self._run(slower), key=lambda trace: computing(trace) or 0.0)
        return self._slower(one, other) is None

    def _slower(self, one: int, other: int) -> int | None:
        """Of two ranks the one that computes for longer; None where that may be noise."""
        mine, its = computing(self.of(one)), computing(self.of(other))
        if mine is None or its is None:
            return None
        less, more = sorted((mine, its))
        if more - less < _NOISE or more < _UNEQUAL * less:
            return None
        return one if mine > its else other


def _by_mesh(world: int, run: Run, seed: int) -> list[Class]:
    runs = _Runs(run)
    shape = _shape(runs.of(0), world)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    differ = [
        any(not runs.alike(0, stride * place) for place in {1, size - 1})
        for size, stride in zip(shape, strides, strict=True)
    ]
    count = math.prod([size for size, differs in zip(shape, differ, strict=True) if differs])
    if count > _MOST:
        hint = "say which ranks are alike: classes=lambda rank: ..."
        fail("A002", f"sim: {count} classes of ranks", mesh=shape, differing_axes=differ, hint=hint)
    spans = [range(size) if differs else (0,) for size, differs in zip(shape, differ, strict=True)]
    rests = [(0,) if differs else range(size) for size, differs in zip(shape, differ, strict=True)]
    others = [_rank(place, strides) for place in itertools.product(*rests)]
    firsts = [_rank(place, strides) for place in itertools.product(*spans)]
    home = {first + other: first for first in firsts for other in others}
    _check(home, world, runs, seed)
    return [Class(tuple([first + other for other in others]), runs.of(first)) for first in firsts]


def _rank(place: Sequence[int], strides: Sequence[int]) -> int:
    return sum([index * stride for index, stride in zip(place, strides, strict=True)])


def _shape(trace: Trace, world: int) -> tuple[int, ...]:
    """The mesh that a rank's groups are rows of, by their strides; one axis where they are of none."""
    sizes, covered = list[int](), 1  # of the axes from the innermost one on
    for stride, count in sorted({_row(call.ranks) for call in trace.calls if 1 < len(call.ranks) < world}):
        if stride >= covered and stride % covered == 0:
            sizes += [stride // covered, count]
            covered = stride * count
    if world % covered:
        return (world,)
    return tuple([size for size in (world // covered, *reversed(sizes)) if size > 1])


def _row(ranks: Sequence[int]) -> tuple[int, int]:
    """The stride of a group and its number of ranks; stride 0 where it has none."""
    stride = ranks[1] - ranks[0]
    return (stride if pattern(ranks) == tuple(range(0, stride * len(ranks), stride)) else 0), len(ranks)


def _check(home: Mapping[int, int], world: int, runs: _Runs, seed: int) -> None:
    """Some ranks drawn at random do what those do that run for them, by `home`. Errors: A002 where one does not."""
    for rank in random.Random(seed).sample(range(world), _CHECKED):
        if not runs.alike(home[rank], rank):
            hint = "say which ranks are alike: classes=lambda rank: ..."
            fail(
                "A002",
                f"sim: rank {rank} does otherwise than rank {home[rank]}, beside which the mesh lays it",
                hint=hint,
            )
