"""Plans are text that can be read, edited and checked."""

import random
import subprocess
import sys
from contextlib import contextmanager

import pytest

import rushlight as rl
from planning import RECORDED, constraints_of, tables_of
from rushlight.recsys.configs import DataType, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.planner import (
    CacheParams,
    CommsBytes,
    Constants,
    EmbeddingShardingPlanner,
    EstimatorSettings,
    FixedAbsoluteStorageReservation,
    ParameterConstraints,
    PipelineType,
    Plan,
    SearchSettings,
    ShardingType,
    Topology,
    Workload,
)

QUICK = SearchSettings(effort=500, nodes=2000, milp_nodes=0)


def bag(name: str, rows: int = 1000, columns: int = 64, **more) -> EmbeddingBagConfig:
    return EmbeddingBagConfig(num_embeddings=rows, embedding_dim=columns, name=name, **more)


def plan_of(*tables, topology: Topology | None = None, **arguments) -> Plan:
    topology = topology or Topology(4, "cuda", local_world_size=2)
    return EmbeddingShardingPlanner(topology, 256, search=QUICK, **arguments).plan(tables)


@contextmanager
def refused(*codes: str):
    with pytest.raises(rl.RushlightError) as caught:
        yield caught
    assert caught.value.code in codes and caught.value.hint


def of_kind(kind: ShardingType, rows: int = 10, columns: int = 256) -> Plan:
    constraints = {"t": ParameterConstraints(sharding_types=[kind], min_partition=64)}
    return plan_of(bag("t", rows, columns), constraints=constraints)


@pytest.mark.parametrize("kind", ShardingType)
def test_every_sharding_type_reads_as_it_was_written(kind: ShardingType):
    plan = of_kind(kind)
    assert plan["t"].sharding_type is kind
    again = Plan.parse(plan.text())
    assert again == plan and again.text() == plan.text()
    covered = {(row, column) for shard in plan["t"].shards for row, column in cells(shard)}
    assert covered == {(row, column) for row in range(10) for column in range(256)}
    parts = sum(len(cells(shard)) for shard in plan["t"].shards)
    assert parts == (4 if kind is ShardingType.DATA_PARALLEL else 1) * 2560


def cells(shard) -> list[tuple[int, int]]:
    (height, width), (row, column) = shard.size, shard.offset
    return [(row + i, column + j) for i in range(height) for j in range(width)]


def test_a_plan_with_everything_in_it_reads_as_it_was_written():
    topology = Topology(
        2,
        "cuda",
        hbm_cap=[2**30, 2**31],
        pod_size=1,
        inter_host_bw=1e6,
        hbm_to_ddr_mem_bw=1.5e7,
        constants=Constants(overhead_ms=0.01, half_block_penalty=1.3),
    )
    constraints = {
        "a": ParameterConstraints(
            pooling_factors=[3.0, 0.25], num_poolings=[1.0, 2.0], batch_sizes=[256, 128], is_weighted=True
        ),
        "b": ParameterConstraints(
            cache_params=CacheParams(0.25, True, 0.5, 1000.0, (1.0, 2.0)), output_dtype=DataType.FP16, optimizer="adam"
        ),
        "n.a": ParameterConstraints(),
        'm.quo"te\x7f': ParameterConstraints(sharding_types=["row_wise"], compute_kernels=["fused"]),
    }
    settings = EstimatorSettings(False, PipelineType.TRAIN_SPARSE_DIST, True, CommsBytes(forward_all_to_all=2.0))
    planner = EmbeddingShardingPlanner(
        topology,
        256,
        constraints=constraints,
        storage_reservation=FixedAbsoluteStorageReservation(2**20),
        search=QUICK,
        settings=settings,
    )
    tables = {
        "": [bag("a", feature_names=["f", "g"]), bag("b", 5000, 128, data_type=DataType.FP16)],
        "m": [EmbeddingConfig(num_embeddings=77, embedding_dim=8, name='quo"te\x7f')],
        "n": [bag("a", data_type=DataType.INT8)],
    }
    plan = planner.plan(tables)
    text = plan.text()
    assert Plan.parse(text) == plan and Plan.parse(text).text() == text
    assert plan['m.quo"te\x7f'].table.pooled is False
    plan.check(tables)
    assert plan['m.quo"te\x7f'].sizes == ((25, 8), (52, 8))  # rows in proportion of memory


def test_an_edit_changes_what_it_says():
    plan = of_kind(ShardingType.TABLE_WISE)
    other = (plan["t"].ranks[0] + 1) % 4
    edited = Plan.parse(plan.text().replace(f"ranks = [{plan['t'].ranks[0]}]", f"ranks = [{other}]"))
    assert edited["t"].ranks == (other,) and [name for name, _ in edited.on_rank(other)] == ["t"]
    rows = Plan.parse(of_kind(ShardingType.ROW_WISE).text().replace("shard_rows = 3", "shard_rows = [1, 2, 3, 4]"))
    assert [shard.size for shard in rows["t"].shards] == [(1, 256), (2, 256), (3, 256), (4, 256)]
    assert Plan.parse(rows.text()) == rows


@pytest.mark.row("9.2")
def test_the_same_input_gives_the_same_text():
    case = RECORDED["small-27"]
    texts = {
        EmbeddingShardingPlanner(
            Topology(**case["topology"]), case["batch_size"], constraints=constraints_of(case), search=QUICK
        )
        .plan(tables_of(case))
        .text()
        for _ in range(2)
    }
    assert len(texts) == 1


SCRIPT = """
import sys
import rushlight.recsys.planner as planner
from rushlight.recsys.configs import EmbeddingBagConfig
tables = [EmbeddingBagConfig(1000 * (i + 1), 64, f"t{i}") for i in range(7)]
sys.stdout.write(planner.EmbeddingShardingPlanner(planner.Topology(4, "cuda"), 64).plan(tables).text())
bad = [name for name in sys.modules if name.startswith(("mpi4py", "rushlight.distributed", "rushlight.eager"))]
sys.stderr.write(" ".join(bad))
"""


@pytest.mark.row("9.6")
def test_a_plan_needs_no_process_group_and_is_one_in_all_processes():
    runs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout and runs[0].stdout.startswith("# A plan")
    assert "rushlight.distributed" not in runs[0].stderr and "mpi4py" not in runs[0].stderr


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('sharding_type = "row_wise"', 'sharding_type = "diagonal"', "sharding_type is not one of"),
        ("ranks = ", "rangs = ", "ranks is missing"),
        ('ranks = "all"', "ranks = [0, 1, 2]", "3 ranks for 4 shards"),
        ('ranks = "all"', "ranks = [0, 1, 2, 4]", "no rank 4"),
        ('ranks = "all"', "ranks = [1, 0, 2, 3]", "all ranks in their order"),
        ('ranks = "all"', "ranks = [0, 1, 2, -3]", "ranks is not"),
        ("shard_rows = 3", "shard_rows = 2", "8 together"),
        ("shard_rows = 3", "shard_rows = [5, 5]", "2 blocks"),
        ("rows = 10", "rows = -10", "rows is not an integer"),
        ("rows = 10", "rows = 1e3", "rows is not an integer"),
        ("format = 1", "format = 2", "format 2"),
        ("batch_size = 256", "batch_size = 0", "batch_size"),
        ("world_size = 4", "world_size = true", "world_size"),
        ("[[table]]", "[[tabel]]", "nothing named tabel"),
        ("rows = 10", "rows = 10\nrows = 11", "no TOML"),
        ("rows = 10", "rows = [[[", "no TOML"),
        ("pooling_factors = [1.0]", "pooling_factors = [nan]", "pooling_factors"),
        ("pooling_factors = [1.0]", "pooling_factors = [1.0, 2.0]", "for each feature"),
        ("pooling_factors = [1.0]", "pooling_factors = [-1.0]", "none negative"),
    ],
)
def test_texts_that_are_no_plan_say_why(old: str, new: str, why: str):
    text = of_kind(ShardingType.ROW_WISE).text()
    assert text.count(old) == 1 or old == "ranks = "
    with refused("E020", "E023") as caught:
        Plan.parse(text.replace(old, new))
    assert why in str(caught.value)


def test_random_texts_end_in_registered_errors():
    text = of_kind(ShardingType.GRID_SHARD).text()
    draw = random.Random(3)
    for _ in range(400):
        start = draw.randrange(len(text))
        part = draw.choice(["", "-", "0", "[", '"', "\n", "1e400", "table", "\x00", "é" * 3, text[:50]])
        mutated = text[:start] + part + text[start + draw.randrange(12) :]
        try:
            Plan.parse(mutated)
        except rl.RushlightError as problem:
            assert problem.code in ("E001", "E020", "E021", "E022", "E023"), problem


def test_a_plan_for_other_tables_or_ranks_is_refused():
    plan = plan_of(bag("a"), bag("b"))
    plan.check([bag("b"), bag("a")])
    for tables, why in (
        ([bag("a")], "the model has not"),
        ([bag("a"), bag("b"), bag("c")], "lacks table 'c'"),
        ([bag("a"), bag("b", 999)], "shape"),
        ([bag("a"), bag("b", data_type=DataType.FP16)], "FP16"),
    ):
        with refused("E024") as caught:
            plan.check(tables)
        assert why in str(caught.value)
    with pytest.raises(ValueError, match="4 ranks, and there are 8"):
        plan.check(topology=Topology(8, "cuda"))
    with refused("E022") as caught:
        plan.check(topology=Topology(4, "cuda", hbm_cap=1000))
    assert "bytes of hbm" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"world_size": 0}, "E020"),
        ({"world_size": 4, "local_world_size": 3}, "E020"),
        ({"world_size": 4, "compute_device": "tpu"}, "E020"),
        ({"world_size": 4, "hbm_cap": [1, 2]}, "E020"),
        ({"world_size": 4, "ddr_cap": -5}, "E020"),
        ({"world_size": 4, "intra_host_bw": 0}, "E020"),
        ({"world_size": 4, "hbm_mem_bw": float("nan")}, "E020"),
    ],
)
def test_impossible_topologies_are_refused(given: dict, code: str):
    with refused(code):
        Topology(**given)


@pytest.mark.parametrize(
    ("constraint", "code"),
    [
        ({"sharding_types": ["sideways"]}, "E021"),
        ({"compute_kernels": ["quant"]}, "E021"),
        ({"pooling_factors": [-1.0]}, "E020"),
        ({"pooling_factors": [1.0, 2.0]}, "E020"),
        ({"min_partition": 0}, "E020"),
        ({"optimizer": "sdg"}, "E020"),
    ],
)
def test_impossible_constraints_are_refused(constraint: dict, code: str):
    with refused(code):
        plan_of(bag("t"), constraints={"t": ParameterConstraints(**constraint)})


def test_constraints_of_tables_that_are_not_there_are_refused():
    with refused("E021") as caught:
        plan_of(bag("t"), constraints={"u": ParameterConstraints()})
    assert "tables: ['t']" in str(caught.value)


@pytest.mark.parametrize("cap", [0, 1000, 200_000])
def test_tables_that_do_not_fit_are_refused(cap: int):
    with refused("E022") as caught:
        plan_of(bag("a"), bag("b"), topology=Topology(2, "cpu", ddr_cap=cap))
    assert "bytes" in str(caught.value)


def test_a_description_is_what_its_text_says():
    text = """
batch_size = 128
reserve = 0.1
optimizer = "rowwise_adagrad"
[topology]
world_size = 4
compute_device = "cuda"
hbm_cap = 1_000_000_000
[[table]]
name = "user"
path = "sparse.ebc"
rows = 100_000
columns = 64
features = ["u", "v"]
pooling_factors = [20.0, 1.0]
sharding_types = ["table_wise"]
[[table]]
name = "words"
rows = 50
columns = 8
pooling = "NONE"
"""
    workload = Workload.parse(text)
    assert workload.topology == Topology(4, "cuda", hbm_cap=10**9) and workload.batch_size == 128
    planner = EmbeddingShardingPlanner(workload.topology, 128, constraints=workload.constraints, search=QUICK)
    plan = planner.plan(workload.tables)
    assert plan["sparse.ebc.user"].sharding_type is ShardingType.TABLE_WISE
    assert plan["user"].table.optimizer == "rowwise_adagrad" and not plan["words"].table.pooled
    with pytest.raises(ValueError, match="sharding_typs"):
        Workload.parse(text.replace("sharding_types", "sharding_typs"))
    with pytest.raises(ValueError, match="describes no table"):
        Workload.parse("batch_size = 1\n[topology]\nworld_size = 1\n")
