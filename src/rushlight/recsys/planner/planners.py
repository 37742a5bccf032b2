"""From a model's tables to a plan: options, memory that is left, proposals, the search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rushlight.recsys.planner.enumerators import EmbeddingEnumerator, ParameterConstraints, Tables, collections_of
from rushlight.recsys.planner.estimators import estimate
from rushlight.recsys.planner.options import ShardingOption, Storage, total_storage
from rushlight.recsys.planner.partitioners import GreedyPerfPartitioner, Partitioner
from rushlight.recsys.planner.plan import DEFAULT_SETTINGS, EstimatorSettings, Plan, rounded
from rushlight.recsys.planner.proposers import Proposer, best_placed, by_table
from rushlight.recsys.planner.reservations import FixedPercentageStorageReservation, StorageReservation
from rushlight.recsys.planner.search import search
from rushlight.recsys.planner.topology import Topology
from rushlight.support import settings as settings_
from rushlight.support.errors import RushlightError, error, fail
from rushlight.support.frozen import frozen


@frozen
class SearchSettings:
    """How much the search does, in counts and never in seconds: the same input gives the same plan.

    `effort` are placements tried, `nodes` those of branch and bound for small problems, `milp_nodes` those of each
    mixed integer programme, which needs SciPy; 0 leaves a stage out.
    """

    effort: int = 50_000
    nodes: int = 100_000
    milp_nodes: int = 50
    seed: int = 0


DEFAULT_SEARCH = SearchSettings()


class EmbeddingShardingPlanner:
    """Makes the plan of least bottleneck that it finds: the time of the rank that takes longest.

    By itself it searches. With `proposers`, TorchRec's way is gone first: each proposal is placed by the partitioner,
    and the best plan is where the search begins, so that the result is never worse. With `search=None` that plan is
    the result. Without a topology it is that of the launcher's ranks.

    EmbeddingShardingPlanner(Topology(8, "cuda"), batch_size=512).plan(tables)
    """

    def __init__(
        self,
        topology: Topology | None = None,
        batch_size: int = 512,
        *,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        storage_reservation: StorageReservation | None = None,
        proposers: Sequence[Proposer] = (),
        partitioner: Partitioner | None = None,
        search: SearchSettings | None = DEFAULT_SEARCH,
        settings: EstimatorSettings = DEFAULT_SETTINGS,
        optimizer: str | None = None,
    ) -> None:
        topology = topology or Topology(int(settings_.of_launcher().get("WORLD_SIZE", 1)), "cpu")
        self.topology = topology
        self.batch_size = batch_size
        self.storage_reservation = storage_reservation or FixedPercentageStorageReservation(0.15)
        self.proposers = tuple(proposers)
        self.partitioner = partitioner or GreedyPerfPartitioner()
        self.search = search
        self.settings = settings
        self.enumerator = EmbeddingEnumerator(
            topology,
            batch_size,
            constraints,
            perf_estimator=settings.perf(topology),
            storage_estimator=settings.storage(topology),
            optimizer=optimizer,
        )
        if search is None and not self.proposers:
            fail("E020", "a planner without a search needs proposers", hint="proposers=[GreedyProposer()]")

    def collective_plan(self, module: Tables, sharders: Iterable[Any] | None = None, pg: object = None) -> Plan:
        """Return the plan that all ranks make: none is sent, since the same model gives the same plan.

        `sharders` say which collections of the model are planned, each by its `module_type`.
        """
        del pg
        return self.plan(module if sharders is None else collections_of(module, [one.module_type for one in sharders]))

    def plan(self, tables: Tables, *, dense_bytes: int = 0) -> Plan:
        """Return a plan for the tables of a model; E022 if they do not fit.

        `dense_bytes` are those of parameters that are no tables, for reservations that count them.
        """
        options = self.enumerator.enumerate(tables)
        planned = [group[0].table for group in by_table(options).values()]
        room = self.storage_reservation.reserve(self.topology, planned, dense_bytes)
        proposed = best_placed(self.proposers, options, room, self.partitioner, self._estimated)
        if self.search is None:
            if proposed is None:
                raise _no_plan(options, room)
            return self._made(proposed, room, 0.0, proven=False, stage="proposals")
        found = search(
            options,
            room,
            effort=self.search.effort,
            nodes=self.search.nodes,
            milp_nodes=self.search.milp_nodes,
            seed=self.search.seed,
            starts=() if proposed is None else (proposed,),
        )
        if found is None:
            raise _no_plan(options, room)
        stage = "milp" if found.milp_used else "search"
        return self._made(found.plan, room, found.lower_bound, proven=found.proven, stage=stage)

    def _made(
        self, options: Sequence[ShardingOption], room: Topology, bound: float, *, proven: bool, stage: str
    ) -> Plan:
        return Plan(tuple(options), self.topology, room, self.batch_size, rounded(bound), proven, stage, self.settings)

    def _estimated(self, options: Sequence[ShardingOption]) -> list[ShardingOption]:
        return estimate(options, self.enumerator.perf_estimator, self.enumerator.storage_estimator)


def _no_plan(options: Sequence[ShardingOption], room: Topology) -> RushlightError:
    """What is said if nothing fits: a table that fits nowhere, or that all together are too large."""
    tables = by_table(options)
    for name, choices in tables.items():
        if not any(_could_fit(option, room) for option in choices):
            least = min([max([storage.hbm + storage.ddr for storage in option.storages]) for option in choices])
            message = f"table {name!r} fits on no ranks in any way that is allowed"
            return error("E022", message, bytes_of_a_shard=least, bytes_of_a_rank=max(room.memory))
    least_of_all = sum([min([_bytes(option.total_storage) for option in choices]) for choices in tables.values()])
    message = "no plan was found in which all tables fit into the memory that they may take"
    there = sum([_bytes(cap) if room.on_device else cap.ddr for cap in room.caps])
    return error("E022", message, bytes_needed_at_least=least_of_all, bytes_there=there)


def _could_fit(option: ShardingOption, room: Topology) -> bool:
    """Whether each shard fits on the rank with most memory."""
    cap = Storage(
        max([cap.hbm for cap in room.caps]), max([cap.ddr for cap in room.caps]), max([cap.ssd for cap in room.caps])
    )
    return all(storage.fits_in(cap) for storage in set(option.storages)) and total_storage(option.storages).fits_in(
        total_storage(room.caps)
    )


def _bytes(storage: Storage) -> int:
    return storage.hbm + storage.ddr
