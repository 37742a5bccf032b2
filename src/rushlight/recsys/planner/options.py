"""What the planner speaks of: tables and their use, ways to divide them, and what each costs in time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, unique

from rushlight.recsys.configs import DataType
from rushlight.support.frozen import frozen


@unique
class ShardingType(Enum):
    """How a table is divided into boxes of rows and columns, and which ranks may hold them."""

    DATA_PARALLEL = "data_parallel"
    TABLE_WISE = "table_wise"
    COLUMN_WISE = "column_wise"
    ROW_WISE = "row_wise"
    TABLE_ROW_WISE = "table_row_wise"
    TABLE_COLUMN_WISE = "table_column_wise"
    GRID_SHARD = "grid_shard"


@unique
class EmbeddingComputeKernel(Enum):
    """Where rows lie and how they are looked up.

    `DENSE` gives gradients as tables, `FUSED` updates rows in the backward pass. `UVM` keeps rows in the host's
    memory, `CACHING` with a cache of them on the device. `QUANT` kernels look up quantised rows, for inference.
    """

    DENSE = "dense"
    FUSED = "fused"
    FUSED_UVM = "fused_uvm"
    FUSED_UVM_CACHING = "fused_uvm_caching"
    QUANT = "quant"
    QUANT_UVM = "quant_uvm"
    QUANT_UVM_CACHING = "quant_uvm_caching"

    @property
    def quantised(self) -> bool:
        """Whether rows have a scale and an offset."""
        return self.value.startswith("quant")

    @property
    def cached(self) -> bool:
        """Whether rows of the host are cached on the device."""
        return self.value.endswith("_caching")

    @property
    def in_host_memory(self) -> bool:
        """Whether rows lie in the host's memory, whatever the device."""
        return "_uvm" in self.value


@unique
class PartitionByType(Enum):
    """What shards of an option are placed on: any ranks, ranks of one host, all ranks, or all ranks of some hosts."""

    DEVICE = "device"
    HOST = "host"
    UNIFORM = "uniform"
    MULTI_HOST = "multi_host"


PARTITION_BY = {
    ShardingType.DATA_PARALLEL: PartitionByType.UNIFORM,
    ShardingType.ROW_WISE: PartitionByType.UNIFORM,
    ShardingType.TABLE_WISE: PartitionByType.DEVICE,
    ShardingType.COLUMN_WISE: PartitionByType.DEVICE,
    ShardingType.TABLE_ROW_WISE: PartitionByType.HOST,
    ShardingType.TABLE_COLUMN_WISE: PartitionByType.HOST,
    ShardingType.GRID_SHARD: PartitionByType.MULTI_HOST,
}


BY_GROUP = (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)
"""Sharding types that divide rows among the ranks of a host, or of a group of hosts with fast links."""


@frozen
class Perf:
    """Milliseconds of one step that a shard takes on its rank, by part. The total leaves out `input_dist_comms`."""

    fwd_compute: float = 0.0
    fwd_comms: float = 0.0
    bwd_compute: float = 0.0
    bwd_comms: float = 0.0
    input_dist_comms: float = 0.0
    prefetch_compute: float = 0.0

    @property
    def total(self) -> float:
        """What counts for a rank: the input exchange overlaps with the step before, the prefetch with nothing."""
        return self.fwd_compute + self.bwd_compute + self.fwd_comms + self.bwd_comms + self.prefetch_compute

    def __add__(self, other: Perf) -> Perf:
        return Perf(
            self.fwd_compute + other.fwd_compute,
            self.fwd_comms + other.fwd_comms,
            self.bwd_compute + other.bwd_compute,
            self.bwd_comms + other.bwd_comms,
            self.input_dist_comms + other.input_dist_comms,
            self.prefetch_compute + other.prefetch_compute,
        )


@frozen
class Storage:
    """Bytes in the device's memory, in the host's, and on disk."""

    hbm: int = 0
    ddr: int = 0
    ssd: int = 0

    def __add__(self, other: Storage) -> Storage:
        return Storage(self.hbm + other.hbm, self.ddr + other.ddr, self.ssd + other.ssd)

    def __sub__(self, other: Storage) -> Storage:
        return Storage(self.hbm - other.hbm, self.ddr - other.ddr, self.ssd - other.ssd)

    def fits_in(self, cap: Storage) -> bool:
        """Whether each kind of memory suffices."""
        return self.hbm <= cap.hbm and self.ddr <= cap.ddr and self.ssd <= cap.ssd


@frozen
class Shard:
    """A box of a table, [rows, columns] from an offset, what it costs, and the rank that holds it."""

    size: tuple[int, int]
    offset: tuple[int, int]
    storage: Storage | None = None
    perf: Perf | None = None
    rank: int | None = None


@frozen
class CacheParams:
    """A cache of rows on the device, for kernels that have one.

    `load_factor` is the share of the table's rows that fit into it. The other figures describe the ids of a global
    batch: how many different ones are expected, the area under the curve of misses (`cacheability`), and a histogram
    of how many lookups need a cache of which share of the rows.
    """

    load_factor: float | None = None
    prefetch_pipeline: bool = False
    cacheability: float | None = None
    expected_lookups: float | None = None
    hits: tuple[float, ...] = ()

    def expected_miss_rate(self, rows: int) -> float | None:
        """Return the share of lookups that the cache misses; None if nothing is known of the ids.

        A cache of k rows hits at reuse distances of up to k - 1.
        """
        if not self.hits or self.expected_lookups is None or self.load_factor is None:
            return None
        total = sum(self.hits)
        if total == 0:
            return 0.0
        reach = self.load_factor * rows - 1
        if reach < 0:
            return 1.0
        bins = min(int(reach * len(self.hits) / rows), len(self.hits) - 1)
        return 1 - sum(self.hits[: bins + 1]) / total


@frozen
class PlannedTable:
    """A table as the planner sees it: its shape, its numbers, and how often a step looks something up in it.

    `pooling_factors`, `num_poolings` and `batch_sizes` have an entry for each feature: ids of a sample, lookups of a
    sample, samples on a rank. `path` is the name of the module that has the table. `optimizer` decides how much state
    each row has. `output_dtype` is None for results of the table's own numbers.
    """

    name: str
    rows: int
    columns: int
    data_type: DataType
    features: tuple[str, ...]
    pooling_factors: tuple[float, ...]
    num_poolings: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    pooled: bool = True
    weighted: bool = False
    path: str = ""
    optimizer: str | None = None
    output_dtype: DataType | None = None
    cache: CacheParams | None = None

    @property
    def fqn(self) -> str:
        """The table's full name."""
        return f"{self.path}.{self.name}" if self.path else self.name

    @property
    def element_bytes(self) -> float:
        """Bytes of one number of a row."""
        return self.data_type.bits / 8

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, without scales, offsets and optimizer state."""
        return self.rows * self.data_type.row_bytes(self.columns)

    @property
    def batch_inputs(self) -> float:
        """Ids that the batch of one rank has for the table."""
        sizes = zip(self.pooling_factors, self.num_poolings, self.batch_sizes, strict=True)
        return sum([length * poolings * batch for length, poolings, batch in sizes])

    @property
    def batch_outputs(self) -> float:
        """Rows that one rank's batch gets: if pooled one for each bag that is not empty, else one for each id."""
        if not self.pooled:
            return self.batch_inputs
        sizes = zip(self.pooling_factors, self.num_poolings, self.batch_sizes, strict=True)
        return sum([min(1.0, length) * poolings * batch for length, poolings, batch in sizes])


@frozen
class ShardingOption:
    """One way to divide a table: its boxes, what each costs, and once it is placed the rank of each.

    `perfs` and `storages` are empty until an estimator has filled them, `ranks` until a partitioner has.
    """

    table: PlannedTable
    sharding_type: ShardingType
    compute_kernel: EmbeddingComputeKernel
    sizes: tuple[tuple[int, int], ...]
    offsets: tuple[tuple[int, int], ...]
    perfs: tuple[Perf, ...] = ()
    storages: tuple[Storage, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The table's name in its module."""
        return self.table.name

    @property
    def fqn(self) -> str:
        """The table's full name."""
        return self.table.fqn

    @property
    def partition_by(self) -> PartitionByType:
        """What its shards are placed on."""
        return PARTITION_BY[self.sharding_type]

    @property
    def num_shards(self) -> int:
        """How many boxes there are."""
        return len(self.sizes)

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The boxes with what is known of each."""
        count = self.num_shards
        perfs = self.perfs or (None,) * count
        storages = self.storages or (None,) * count
        ranks = self.ranks or (None,) * count
        parts = zip(self.sizes, self.offsets, storages, perfs, ranks, strict=True)
        return tuple([Shard(*part) for part in parts])

    @property
    def total_perf(self) -> float:
        """Milliseconds of all shards together."""
        return sum_by_object(self.perfs)

    @property
    def longest_perf(self) -> float:
        """Milliseconds of the shard that takes longest."""
        return max([perf.total for perf in {id(perf): perf for perf in self.perfs}.values()])

    @property
    def total_storage(self) -> Storage:
        """Bytes of all shards together."""
        return total_storage(self.storages)

    def with_estimates(self, *, perfs: Sequence[Perf] = (), storages: Sequence[Storage] = ()) -> ShardingOption:
        """Return the option with these costs; those that are not given stay."""
        return replace(self, perfs=tuple(perfs) or self.perfs, storages=tuple(storages) or self.storages)

    def on(self, ranks: Iterable[int]) -> ShardingOption:
        """Return the option placed on ranks, one for each shard."""
        return replace(self, ranks=tuple(ranks))


def sum_by_object(perfs: Sequence[Perf]) -> float:
    """Return the sum of totals. Shards of one size share an object, so 128 of them are one product."""
    counts: dict[int, int] = {}
    known: dict[int, Perf] = {}
    for perf in perfs:
        known[id(perf)] = perf
        counts[id(perf)] = counts.get(id(perf), 0) + 1
    return sum([known[key].total * count for key, count in counts.items()])


def total_storage(storages: Sequence[Storage]) -> Storage:
    """Return the sum of storages."""
    return Storage(
        sum([storage.hbm for storage in storages]),
        sum([storage.ddr for storage in storages]),
        sum([storage.ssd for storage in storages]),
    )
