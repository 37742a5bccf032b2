"""Geometry, milliseconds and bytes of options are TorchRec's: its figures of 2,068 options are recorded."""

import gzip
import json
from pathlib import Path

import pytest

from rushlight.recsys.configs import DataType
from rushlight.recsys.planner import (
    CacheParams,
    Constants,
    EmbeddingComputeKernel,
    EmbeddingPerfEstimator,
    EmbeddingStorageEstimator,
    PipelineType,
    PlannedTable,
    ShardingOption,
    ShardingType,
    Topology,
)
from rushlight.recsys.planner.geometry import calculate_shard_sizes_and_offsets

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data" / "estimates.json.gz").read_bytes()))
CASES = [(topology, kind) for topology in range(len(RECORDED["topologies"])) for kind in ShardingType]
NAMES = {"float32": DataType.FP32, "float16": DataType.FP16, "int8": DataType.INT8}
PIPELINES = {
    "none": PipelineType.NONE,
    "train_sparse_dist": PipelineType.TRAIN_SPARSE_DIST,
    "train_prefetch_sparse_dist": PipelineType.TRAIN_PREFETCH_SPARSE_DIST,
}


def topology_of(recorded: dict) -> Topology:
    given = dict(recorded)
    names = ("bwd_compute_multiplier", "weighted_feature_bwd_compute_multiplier")
    constants = Constants(**{name: given.pop(name) for name in names if name in given})
    return Topology(constants=constants, **given)


def table_of(recorded: dict, quantised: bool) -> PlannedTable:
    factors = tuple(recorded["input_lengths"])
    cache = recorded.get("cache")
    return PlannedTable(
        name="t",
        rows=recorded["rows"],
        columns=recorded["columns"],
        data_type=DataType.INT8 if quantised else NAMES[recorded["dtype"]],
        features=tuple(f"f{each}" for each in range(len(factors))),
        pooling_factors=factors,
        num_poolings=tuple(recorded.get("num_poolings", (1.0,) * len(factors))),
        batch_sizes=tuple(recorded.get("batch_sizes", (recorded["batch"],) * len(factors))),
        pooled=recorded.get("is_pooled", True),
        weighted=recorded.get("is_weighted", False),
        optimizer=recorded.get("optimizer"),
        output_dtype=DataType[recorded["output_dtype"]] if "output_dtype" in recorded else None,
        cache=cache
        and CacheParams(
            load_factor=cache["load_factor"],
            prefetch_pipeline=cache.get("prefetch", False),
            cacheability=cache["cacheability"],
            expected_lookups=cache["expected_lookups"],
            hits=tuple(cache["hist"]),
        ),
    )


def option_of(recorded: dict, table: PlannedTable, topology: Topology, min_partition: int | None) -> ShardingOption:
    kind = ShardingType(recorded["sharding_type"])
    sizes, offsets = calculate_shard_sizes_and_offsets(
        table.rows,
        table.columns,
        kind,
        world_size=topology.world_size,
        group_size=topology.intra_group_size,
        min_partition=min_partition,
    )
    return ShardingOption(table, kind, EmbeddingComputeKernel(recorded["kernel"]), sizes, offsets)


def runs(option: ShardingOption) -> list[list[object]]:
    """The shards as the record has them: equal ones that follow each other once, with their number."""
    rows: list[list] = []
    for shard in option.shards:
        perf, storage = shard.perf, shard.storage
        times = [perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms]
        row = [
            list(shard.size),
            list(shard.offset),
            [*times, perf.input_dist_comms, perf.prefetch_compute],
            [storage.hbm, storage.ddr, storage.ssd],
        ]
        if rows and rows[-1][:4] == row:
            rows[-1][4] += 1
        else:
            rows.append([*row, 1])
    return [*rows[:3], len(rows), *rows[-2:]] if len(rows) > 6 else rows


@pytest.mark.row("9.2")
@pytest.mark.parametrize(("number", "kind"), CASES, ids=[f"{number}-{kind.value}" for number, kind in CASES])
def test_options_have_torchrecs_boxes_times_and_bytes(number: int, kind: ShardingType):
    topology = topology_of(RECORDED["topologies"][number])
    asked = 0
    for recorded in RECORDED["options"]:
        if (recorded["topology"], recorded["sharding_type"]) != (number, kind.value):
            continue
        asked += 1
        of_table = RECORDED["tables"][recorded["table"]]
        table = table_of(of_table, recorded["kernel"].startswith("quant"))
        option = option_of(recorded, table, topology, of_table.get("min_partition"))
        inference = recorded["inference"]
        storage = EmbeddingStorageEstimator(
            topology,
            pipeline_type=PIPELINES[recorded["pipeline"]],
            run_embedding_at_peak_memory=recorded["peak"],
            is_inference=inference,
        )
        (option,) = EmbeddingPerfEstimator(topology, is_inference=inference).estimate([option])
        (option,) = storage.estimate([option])
        for ours, theirs in zip(runs(option), recorded["shards"], strict=True):
            if isinstance(theirs, int):
                assert ours == theirs
                continue
            assert ours[0:2] + ours[3:] == theirs[0:2] + theirs[3:], recorded
            assert ours[2] == pytest.approx(theirs[2], rel=1e-9, abs=0), recorded
    assert asked > 10


def test_shards_of_one_size_share_an_estimate():
    topology = Topology(128, "cuda")
    table = table_of(RECORDED["tables"][0], quantised=False)
    sizes, offsets = calculate_shard_sizes_and_offsets(
        12_800, 64, ShardingType.ROW_WISE, world_size=128, group_size=128
    )
    option = ShardingOption(table, ShardingType.ROW_WISE, EmbeddingComputeKernel.FUSED, sizes, offsets)
    assert len({id(perf) for perf in EmbeddingPerfEstimator(topology).perfs(option)}) == 1
    assert len({id(each) for each in EmbeddingStorageEstimator(topology).storages(option)}) == 1


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [("sgd", 0), ("adagrad", 1), ("adam", 2), ("lamb", 2), ("rowwise_adagrad", 1 / 64), ("rowwise_adam", 1 + 1 / 64)],
)
def test_optimizer_state_counts(optimizer: str, states: float):
    topology = Topology(1, "cuda")
    recorded = {**RECORDED["tables"][0], "optimizer": optimizer}
    plain, with_state = table_of(RECORDED["tables"][0], False), table_of(recorded, False)
    sizes = [
        EmbeddingStorageEstimator(topology)
        .storages(
            ShardingOption(
                table, ShardingType.TABLE_WISE, EmbeddingComputeKernel.FUSED, ((table.rows, table.columns),), ((0, 0),)
            )
        )[0]
        .hbm
        for table in (plain, with_state)
    ]
    assert sizes[1] - sizes[0] == pytest.approx(plain.nbytes * states, abs=1)
