"""What an option costs: milliseconds of a step and bytes of memory, for each shard. The formulas are TorchRec's.

Times are bytes over bandwidths. A shard's time depends on its columns and, for copies that are kept equal, on its
rows, so shards of one size share one `Perf`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum, unique

from rushlight.recsys.planner.options import (
    BY_GROUP,
    EmbeddingComputeKernel,
    Perf,
    PlannedTable,
    ShardingOption,
    ShardingType,
    Storage,
)
from rushlight.recsys.planner.topology import UVM_CACHING_RATIO, Topology
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

ID_BYTES = 8
_TABLE_WISE = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE)

# Numbers of state for each number of a table.
OPTIMIZERS = {
    "sgd": 0.0,
    "adagrad": 1.0,
    "adam": 2.0,
    "lamb": 2.0,
}
# Numbers of state for each row.
ROW_WISE_OPTIMIZERS = {"rowwise_adagrad": (0.0, 1.0), "rowwise_adam": (1.0, 1.0)}


@frozen
class CommsBytes:
    """Bytes of a number that ranks exchange; None for those of the table."""

    forward_all_to_all: float | None = None
    backward_all_to_all: float | None = None
    forward_reduce_scatter: float | None = None
    backward_reduce_scatter: float | None = None


@unique
class PipelineType(Enum):
    """How many batches are on their way at once, which decides how often inputs are kept."""

    NONE = "none"
    TRAIN_SPARSE_DIST = "train_sparse_dist"
    TRAIN_PREFETCH_SPARSE_DIST = "train_prefetch_sparse_dist"


@frozen
class _Work:
    """Bytes of one shard's lookup, and of the results that ranks exchange."""

    ids: float
    rows: float
    outputs: float
    forward: float
    backward: float


class EmbeddingPerfEstimator:
    """Milliseconds of each shard of an option, by part of the step.

    EmbeddingPerfEstimator(Topology(2)).estimate(options)
    """

    def __init__(
        self, topology: Topology, *, is_inference: bool = False, comms_bytes: CommsBytes | None = None
    ) -> None:
        self.topology = topology
        self.is_inference = is_inference
        self.comms_bytes = comms_bytes or CommsBytes()

    def estimate(self, options: Iterable[ShardingOption]) -> list[ShardingOption]:
        """Return the options with the time of each shard."""
        return [option.with_estimates(perfs=self.perfs(option)) for option in options]

    def perfs(self, option: ShardingOption) -> tuple[Perf, ...]:
        """Return the time of each shard of an option."""
        bandwidth = self._bandwidth(option)
        by_rows = option.sharding_type is ShardingType.DATA_PARALLEL
        known: dict[tuple[int, int], Perf] = {}
        perfs: list[Perf] = []
        for rows, columns in option.sizes:
            key = (rows if by_rows else 0, columns)
            perf = known.get(key)
            if perf is None:
                perf = known[key] = self._perf(option, rows, columns, bandwidth)
            perfs.append(perf)
        return tuple(perfs)

    def _bandwidth(self, option: ShardingOption) -> float:
        cache = option.table.cache
        ratio, prefetch = (cache.load_factor, cache.prefetch_pipeline) if cache else (None, False)
        bandwidth = self.topology.kernel_bandwidth(option.compute_kernel, ratio, prefetch)
        if not bandwidth:
            fail(
                "E020",
                f"{self.topology.compute_device} has no kernel {option.compute_kernel.value}",
                table=option.fqn,
                hint="constrain the table's compute_kernels to those of the device",
            )
        return bandwidth

    def _perf(self, option: ShardingOption, rows: int, columns: int, bandwidth: float) -> Perf:
        table, kind, constants = option.table, option.sharding_type, self.topology.constants
        work = self._work(table, kind, columns)
        size = (
            constants.input_factor * work.ids
            + constants.lookup_factor * work.rows
            + constants.output_factor * work.outputs
        )
        penalty = constants.block_penalty(columns) if kind in _TABLE_WISE else 1.0
        fwd_compute = constants.overhead_ms + size * penalty / bandwidth
        fwd_comms, bwd_comms = self._exchange(table, kind, rows, columns, work, bandwidth)
        if self.is_inference:
            bwd_compute = bwd_comms = 0.0
        else:
            bwd_compute = fwd_compute * constants.bwd_compute_multiplier
            if table.weighted:
                bwd_compute *= constants.weighted_feature_bwd_compute_multiplier
                bwd_compute += fwd_compute * constants.weighted_kernel_multiplier
        return Perf(
            fwd_compute=fwd_compute,
            fwd_comms=fwd_comms,
            bwd_compute=bwd_compute,
            bwd_comms=bwd_comms,
            input_dist_comms=self._input_exchange(table, kind),
            prefetch_compute=self._prefetch(option, columns),
        )

    def _work(self, table: PlannedTable, kind: ShardingType, columns: int) -> _Work:
        """Bytes that a shard reads and writes. Row-wise shards see their part of the ids of all ranks' batches."""
        number = table.element_bytes
        ids, outputs, world = table.batch_inputs, table.batch_outputs, self.topology.world_size
        if kind is ShardingType.DATA_PARALLEL:
            written = outputs * columns * number
            return _Work(self._id_bytes(table, ids), ids * columns * number, written, 0.0, 0.0)
        parts = self.topology.row_parts(kind)
        # Kernels of whole rows read at least 32 numbers of each.
        read = max(columns, 32) if kind in _TABLE_WISE else columns
        rows_out = outputs * world * columns / (1 if table.pooled else parts)
        forward, backward = self._number_bytes(table, kind)
        return _Work(
            self._id_bytes(table, ids / parts * world),
            ids / parts * world * read * number,
            rows_out * forward,
            rows_out * forward,
            rows_out * backward,
        )

    @staticmethod
    def _id_bytes(table: PlannedTable, ids: float) -> float:
        nbytes = math.ceil(ids * ID_BYTES)
        return nbytes * 2 if table.weighted else nbytes

    def _number_bytes(self, table: PlannedTable, kind: ShardingType) -> tuple[float, float]:
        """Bytes of an exchanged number, forward and backward."""
        comms = self.comms_bytes
        reduces = kind in BY_GROUP or (kind is ShardingType.ROW_WISE and table.pooled)
        chosen = (
            (comms.forward_reduce_scatter, comms.backward_reduce_scatter)
            if reduces
            else (comms.forward_all_to_all, comms.backward_all_to_all)
        )
        forward, backward = [table.element_bytes if nbytes is None else nbytes for nbytes in chosen]
        return forward, backward

    def _exchange(
        self, table: PlannedTable, kind: ShardingType, rows: int, columns: int, work: _Work, bandwidth: float
    ) -> tuple[float, float]:
        """Milliseconds in which results, and backward their gradients, are exchanged."""
        topology = self.topology
        copying = work.backward * topology.constants.batched_copy_factor / bandwidth
        if kind is ShardingType.DATA_PARALLEL:
            return 0.0, self._all_reduce(rows * columns * table.element_bytes, bandwidth)
        if kind in BY_GROUP:
            return self._exchange_of_groups(table, columns, work, copying)
        link = topology.link_bandwidth(topology.world_size, topology.local_world_size)
        backward = work.backward / link
        return work.forward / link, backward + copying if kind is ShardingType.ROW_WISE else backward

    def _exchange_of_groups(
        self, table: PlannedTable, columns: int, work: _Work, copying: float
    ) -> tuple[float, float]:
        """Reduced within the group that has the rows, then sent to the other groups; backward the reverse."""
        topology, comms = self.topology, self.comms_bytes
        size = topology.intra_group_size
        inner = topology.link_bandwidth(size, min(size, topology.local_world_size))
        forward, backward = work.forward / inner, work.backward / inner + copying
        groups = topology.world_size // size
        if groups > 1:
            numbers = table.batch_outputs * groups * columns / topology.link_bandwidth(groups, 1)
            sent, returned = [
                table.element_bytes if nbytes is None else nbytes
                for nbytes in (comms.forward_all_to_all, comms.backward_all_to_all)
            ]
            forward += numbers * sent
            backward += numbers * returned
        return forward, backward

    def _all_reduce(self, nbytes: float, bandwidth: float) -> float:
        """A ring's sum of dense gradients, and the elementwise kernels of the update."""
        topology = self.topology
        hosts = min(topology.world_size / topology.local_world_size, 2)
        link = topology.inter_host_bw * topology.local_world_size  # a network card for each rank
        summed = nbytes * (2 * hosts - 1) / hosts / link
        if topology.world_size > 2 * topology.local_world_size:
            summed *= 2
        return summed + nbytes * topology.constants.dense_update_factor / bandwidth

    def _input_exchange(self, table: PlannedTable, kind: ShardingType) -> float:
        if kind is ShardingType.DATA_PARALLEL:
            return 0.0
        topology = self.topology
        nbytes = math.ceil(table.batch_inputs * topology.world_size * ID_BYTES)
        return nbytes / topology.link_bandwidth(topology.world_size, topology.local_world_size)

    def _prefetch(self, option: ShardingOption, columns: int) -> float:
        table, cache = option.table, option.table.cache
        if cache is None or option.compute_kernel is not EmbeddingComputeKernel.FUSED_UVM_CACHING:
            return 0.0
        rate = cache.expected_miss_rate(table.rows)
        if rate is None or cache.expected_lookups is None or option.sharding_type is ShardingType.DATA_PARALLEL:
            return 0.0
        fetched = rate * cache.expected_lookups / self.topology.row_parts(option.sharding_type)
        return fetched * columns * table.element_bytes / self.topology.hbm_to_ddr_mem_bw


class EmbeddingStorageEstimator:
    """Bytes of each shard of an option: rows, optimizer state, cache, and what a step keeps of inputs and outputs.

    With `pipeline_type`, inputs are counted as often as batches are on their way, and outputs only if
    `run_embedding_at_peak_memory`.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        pipeline_type: PipelineType = PipelineType.NONE,
        run_embedding_at_peak_memory: bool = False,
        is_inference: bool = False,
    ) -> None:
        self.topology = topology
        self.pipeline_type = pipeline_type
        self.run_embedding_at_peak_memory = run_embedding_at_peak_memory
        self.is_inference = is_inference

    def estimate(self, options: Iterable[ShardingOption]) -> list[ShardingOption]:
        """Return the options with the memory of each shard."""
        return [option.with_estimates(storages=self.storages(option)) for option in options]

    def storages(self, option: ShardingOption) -> tuple[Storage, ...]:
        """Return the memory of each shard of an option."""
        known: dict[tuple[int, int], Storage] = {}
        storages: list[Storage] = []
        for size in option.sizes:
            storage = known.get(size)
            if storage is None:
                storage = known[size] = self._storage(option, *size)
            storages.append(storage)
        return tuple(storages)

    def _storage(self, option: ShardingOption, rows: int, columns: int) -> Storage:
        table, kernel, on_device = option.table, option.compute_kernel, self.topology.on_device
        whole = table.nbytes + (table.rows * 4 if kernel.quantised else 0)
        in_ddr = kernel.in_host_memory or not on_device
        # Quantised rows of an accelerator without a memory for them lie in the host's.
        in_ddr = in_ddr or (kernel.quantised and self.topology.compute_device == "mtia")
        hbm, ddr = (0, whole) if in_ddr else (whole, 0)
        ratio = self._cache_ratio(table) if kernel.cached else None
        if ratio is not None:
            hbm = round(ddr * ratio)
        share = None if option.sharding_type is ShardingType.DATA_PARALLEL else rows * columns
        inputs, outputs = self._io(table, option.sharding_type, rows, columns)
        hbm_rows = self._state(table, hbm, share, rows, ratio)
        ddr_rows = self._state(table, ddr, share, rows, None)
        return Storage(
            hbm_rows + self._kept(inputs, outputs, kernel) if on_device else 0,
            ddr_rows + (inputs + outputs if not on_device and not self.is_inference else 0),
        )

    @staticmethod
    def _cache_ratio(table: PlannedTable) -> float:
        return (table.cache and table.cache.load_factor) or UVM_CACHING_RATIO

    def _state(self, table: PlannedTable, nbytes: int, share: int | None, rows: int, cache_ratio: float | None) -> int:
        """Bytes of a shard, with optimizer state and what a cache needs for each row."""
        part = nbytes if share is None else math.ceil(nbytes * share / (table.rows * table.columns))
        if self.is_inference:
            return part
        # Of each row a cache keeps where it is (4 bytes), of each slot the row and when it was used last (16).
        index = 0 if cache_ratio is None else math.ceil(rows * (4 + cache_ratio * 16))
        return part + math.ceil(part * optimizer_multiplier(table)) + index

    def _io(self, table: PlannedTable, kind: ShardingType, rows: int, columns: int) -> tuple[int, int]:
        """Bytes of a shard's ids and results."""
        number = table.element_bytes if table.output_dtype is None else table.output_dtype.bits / 8
        ids, outputs, world = table.batch_inputs, table.batch_outputs, self.topology.world_size
        if kind is ShardingType.DATA_PARALLEL:
            return math.ceil(ids * ID_BYTES), math.ceil(outputs * table.columns * number)
        if rows * columns == 0:
            return 0, 0
        parts = self.topology.row_parts(kind)
        if not table.pooled:
            outputs = ids / parts
        return math.ceil(ids / parts * world * ID_BYTES), math.ceil(outputs * world * columns * number)

    def _kept(self, inputs: int, outputs: int, kernel: EmbeddingComputeKernel) -> int:
        """Bytes of inputs and outputs on the device at the peak."""
        if self.is_inference:
            return 0
        at_peak = outputs if self.run_embedding_at_peak_memory else 0
        if self.pipeline_type is PipelineType.TRAIN_SPARSE_DIST:
            return 2 * inputs + at_peak
        if self.pipeline_type is PipelineType.TRAIN_PREFETCH_SPARSE_DIST:
            # A prefetch has bursts of seven times its inputs.
            return 3 * inputs + (7 * inputs if kernel.cached else 0) + at_peak
        return inputs + outputs


def optimizer_multiplier(table: PlannedTable) -> float:
    """Return numbers of optimizer state for each number of the table."""
    name = table.optimizer
    if name is None:
        return 0.0
    if name in ROW_WISE_OPTIMIZERS:
        numbers, for_each_row = ROW_WISE_OPTIMIZERS[name]
        return numbers + for_each_row / table.columns
    require(
        name in OPTIMIZERS,
        "E020",
        f"the planner knows no optimizer {name!r}",
        table=table.fqn,
        hint=f"one of {', '.join([*OPTIMIZERS, *ROW_WISE_OPTIMIZERS])}",
    )
    return OPTIMIZERS[name]


def estimate(
    options: Sequence[ShardingOption], perf: EmbeddingPerfEstimator, storage: EmbeddingStorageEstimator
) -> list[ShardingOption]:
    """Return the options with times and memory."""
    return [option.with_estimates(perfs=perf.perfs(option), storages=storage.storages(option)) for option in options]
