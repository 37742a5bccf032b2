"""Choices of an option for each table, one proposal after the other, by TorchRec's names and rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, product
from math import prod

from rushlight.recsys.planner.options import ShardingOption
from rushlight.recsys.planner.partitioners import Partitioner, rate
from rushlight.recsys.planner.topology import Topology
from rushlight.support.errors import RushlightError

MAX_PROPOSALS = 10_000

Estimate = Callable[[Sequence[ShardingOption]], list[ShardingOption]]


def by_table(options: Sequence[ShardingOption]) -> dict[str, list[ShardingOption]]:
    """Return the options of each table, tables in the order in which they come first."""
    tables: dict[str, list[ShardingOption]] = {}
    for option in options:
        tables.setdefault(option.fqn, []).append(option)
    return tables


def score(option: ShardingOption, use_depth: bool = True) -> float:
    """Return the milliseconds of the longest shard, or without `use_depth` of all together."""
    return option.longest_perf if use_depth else option.total_perf


class Proposer(ABC):
    """Proposes options for all tables until it has no more. `feedback` says what became of the last proposal."""

    @abstractmethod
    def load(self, options: Sequence[ShardingOption], estimate: Estimate | None = None) -> None:
        """Begin with these options; `estimate` fills in costs of options that the proposer makes itself."""

    @abstractmethod
    def propose(self) -> list[ShardingOption] | None:
        """Return an option for each table, or None after the last proposal."""

    @abstractmethod
    def feedback(self, partitionable: bool, perf_rating: float | None = None, topology: Topology | None = None) -> None:
        """Note whether the last proposal could be placed, and how long its longest rank takes."""


class _Listed(Proposer):
    """Proposals that do not depend on feedback."""

    def __init__(self) -> None:
        self._proposals: Iterator[list[ShardingOption]] = iter(())
        self._current: list[ShardingOption] | None = None

    @abstractmethod
    def proposals(self, tables: dict[str, list[ShardingOption]]) -> Iterator[list[ShardingOption]]:
        """Yield the proposals."""

    def load(self, options: Sequence[ShardingOption], estimate: Estimate | None = None) -> None:
        """Begin with these options."""
        self._proposals = self.proposals(by_table(options))
        self._current = next(self._proposals, None)

    def propose(self) -> list[ShardingOption] | None:
        """Return an option for each table, or None after the last proposal."""
        return self._current

    def feedback(self, partitionable: bool, perf_rating: float | None = None, topology: Topology | None = None) -> None:
        """Go on to the next proposal."""
        self._current = next(self._proposals, None)


class UniformProposer(_Listed):
    """One sharding type for all tables: of each its fastest option."""

    def __init__(self, use_depth: bool = True) -> None:
        super().__init__()
        self.use_depth = use_depth

    def proposals(self, tables: dict[str, list[ShardingOption]]) -> Iterator[list[ShardingOption]]:
        """Yield a proposal for each sharding type that all tables have."""
        kinds = list(dict.fromkeys([option.sharding_type for options in tables.values() for option in options]))
        for kind in kinds:
            chosen = [[option for option in options if option.sharding_type is kind] for options in tables.values()]
            if all(chosen):
                yield [min(options, key=lambda option: score(option, self.use_depth)) for options in chosen]


class GridSearchProposer(_Listed):
    """All combinations, fastest options first; none if there are more than `max_proposals`."""

    def __init__(self, max_proposals: int = MAX_PROPOSALS) -> None:
        super().__init__()
        self.max_proposals = max_proposals

    def proposals(self, tables: dict[str, list[ShardingOption]]) -> Iterator[list[ShardingOption]]:
        """Yield all combinations of options."""
        if prod([len(options) for options in tables.values()]) <= self.max_proposals:
            for proposal in product(*[sorted(options, key=score) for options in tables.values()]):
                yield list(proposal)


class GreedyProposer(Proposer):
    """The fastest option of each table, then the next one for the table with most memory, and so on.

    With `use_depth` an option is as fast as its longest shard, else as all shards together. After `threshold`
    proposals in a row that are worse than the best one it stops.
    """

    def __init__(self, use_depth: bool = True, threshold: int | None = None) -> None:
        self.use_depth = use_depth
        self.threshold = threshold
        self._tables: list[list[ShardingOption]] = []
        self._memory: list[list[tuple[int, ...]]] = []
        self._position: list[int] = []
        self._done = True
        self._best = float("inf")
        self._worse = 0

    def load(self, options: Sequence[ShardingOption], estimate: Estimate | None = None) -> None:
        """Begin with the fastest option of each table."""
        tables = by_table(options).values()
        self._tables = [sorted(each, key=lambda option: score(option, self.use_depth)) for each in tables]
        self._memory = [[_memory(option) for option in each] for each in self._tables]
        self._position = [0] * len(self._tables)
        self._done = not self._tables
        self._best, self._worse = float("inf"), 0

    def propose(self) -> list[ShardingOption] | None:
        """Return an option for each table, or None after the last proposal."""
        if self._done:
            return None
        return [options[position] for options, position in zip(self._tables, self._position, strict=True)]

    def feedback(self, partitionable: bool, perf_rating: float | None = None, topology: Topology | None = None) -> None:
        """Go on to the next option of the table with most memory that has one."""
        if self.threshold and perf_rating is not None:
            self._worse = 0 if perf_rating < self._best else self._worse + 1
            self._best = min(self._best, perf_rating)
            self._done = self._worse > self.threshold
        movable = [
            (self._memory[table][position], -table)
            for table, position in enumerate(self._position)
            if position + 1 < len(self._tables[table])
        ]
        movable = [each for each in movable if any(each[0])]
        if movable:
            self._position[-max(movable)[1]] += 1
        else:
            self._done = True


def _memory(option: ShardingOption) -> tuple[int, ...]:
    total = option.total_storage
    return (
        max([storage.hbm for storage in option.storages]),
        total.hbm,
        max([storage.ddr for storage in option.storages]),
        total.ddr,
    )


class DynamicProgrammingProposer(Proposer):
    """The fastest choice within a total of memory, for each total from high to low.

    Memory of the device is counted in bins, `hbm_bins_per_device` for each rank. Every state keeps its exact memory,
    of the cheapest choice that ends in its bin, so a state is off by less than one bin. The first proposal is that of
    least memory.
    """

    def __init__(self, hbm_bins_per_device: int = 100) -> None:
        self.hbm_bins_per_device = max(hbm_bins_per_device, 1)
        self._tables: list[list[ShardingOption]] = []
        self._proposals: Iterator[list[ShardingOption]] | None = None
        self._current: list[ShardingOption] | None = None

    def load(self, options: Sequence[ShardingOption], estimate: Estimate | None = None) -> None:
        """Begin with the option of least memory of each table."""
        ordered = sorted(options, key=lambda option: option.total_storage.hbm)
        self._tables = list(by_table(ordered).values())
        self._proposals = None
        self._current = [each[0] for each in self._tables] or None

    def propose(self) -> list[ShardingOption] | None:
        """Return an option for each table, or None after the last proposal."""
        return self._current

    def feedback(self, partitionable: bool, perf_rating: float | None = None, topology: Topology | None = None) -> None:
        """Solve the programme after the first proposal; then go on to the next total of memory."""
        if self._proposals is None:
            if topology is None or not self._tables:
                self._current = None
                return
            bins = self.hbm_bins_per_device * topology.world_size
            # Tables of a CPU lie in the host's memory; there TorchRec proposes nothing.
            choices = _choices_within(self._tables, topology.memory_kind, sum(topology.memory), bins)
            self._proposals = (
                [options[each] for options, each in zip(self._tables, choice, strict=True)] for choice in choices
            )
        self._current = next(self._proposals, None)


def _choices_within(tables: list[list[ShardingOption]], kind: str, memory: int, bins: int) -> list[list[int]]:
    """Return the choice of least total time for each bin of total memory, from the highest bin down.

    `cost[bin]` and `used[bin]` are time and memory of the best choice so far that ends in a bin.
    """
    if memory <= 0:
        return []
    width = memory / bins
    states: dict[int, tuple[float, float]] = {0: (0.0, 0.0)}
    history: list[dict[int, tuple[int, int]]] = []
    for options in tables:
        sizes = [getattr(option.total_storage, kind) / width for option in options]
        costs = [option.total_perf for option in options]
        reached: dict[int, tuple[float, float]] = {}
        origin: dict[int, tuple[int, int]] = {}
        for choice, (size, cost) in enumerate(zip(sizes, costs, strict=True)):
            for state in sorted(states):
                total, used = states[state][0] + cost, states[state][1] + size
                position = int(used)
                if position < bins and (position not in reached or total < reached[position][0]):
                    reached[position] = (total, used)
                    origin[position] = (choice, state)
        states = reached
        history.append(origin)
    return [_traced(history, state) for state in sorted(states, reverse=True)]


def _traced(history: list[dict[int, tuple[int, int]]], state: int) -> list[int]:
    choice: list[int] = []
    for origin in reversed(history):
        chosen, state = origin[state]
        choice.append(chosen)
    return choice[::-1]


def best_placed(
    proposers: Iterable[Proposer],
    options: Sequence[ShardingOption],
    topology: Topology,
    partitioner: Partitioner,
    estimate: Estimate | None = None,
    limit: int | None = None,
) -> list[ShardingOption] | None:
    """Place at most `limit` proposals of each and return the best plan; None if nothing fits."""
    best: list[ShardingOption] | None = None
    lowest = float("inf")
    known: dict[tuple[int, ...], float | None] = {}
    for proposer in proposers:
        proposer.load(options, estimate)
        for _ in count() if limit is None else range(limit):
            proposal = proposer.propose()
            if not proposal:
                break
            key = tuple([id(option) for option in proposal])
            if key not in known:
                plan = _placed(proposal, topology, partitioner)
                known[key] = rating = None if plan is None else rate(plan, topology.world_size)
                if plan is not None and rating is not None and rating < lowest:
                    best, lowest = plan, rating
            proposer.feedback(known[key] is not None, known[key], topology)
    return best


def _placed(
    proposal: Sequence[ShardingOption], topology: Topology, partitioner: Partitioner
) -> list[ShardingOption] | None:
    try:
        return partitioner.partition(proposal, topology)
    except RushlightError as problem:
        if problem.code != "E022":
            raise
        return None
