"""Models with collections are exported, saved, loaded elsewhere, and divided among ranks again."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    KeyedJaggedTensor,
    PoolingType,
)
from rushlight.recsys import distributed as sharding
from rushlight.recsys.distributed import DistributedModelParallel
from rushlight.recsys.exporting import export_model, load_model, save_model
from rushlight.recsys.inference import quantize_inference_model
from rushlight.recsys.optim import RowWiseAdagrad

TABLES = [
    EmbeddingBagConfig(30, 4, "t", feature_names=["a", "b"]),
    EmbeddingBagConfig(20, 8, "u", feature_names=["b"], pooling=PoolingType.MEAN),
]


class Model(rl.nn.Module):
    """Dense and sparse parts. Two tables read one feature."""

    def __init__(self, sparse: EmbeddingBagCollection):
        super().__init__()
        self.sparse = sparse
        self.top = rl.nn.Linear(3 + 16, 2)

    def forward(self, dense: rl.Tensor, ids: KeyedJaggedTensor) -> rl.Tensor:
        return self.top(rl.cat([dense, self.sparse(ids).values()], 1)).sigmoid()


def batch(size: int) -> tuple[rl.Tensor, KeyedJaggedTensor]:
    rng = np.random.default_rng(size)
    lengths = rng.integers(0, 4, 2 * size)
    ids = rl.tensor(rng.integers(0, 20, lengths.sum()))
    dense = rl.tensor(rng.standard_normal((size, 3)).astype(np.float32))
    return dense, KeyedJaggedTensor(["a", "b"], ids, lengths=rl.tensor(lengths.astype(np.int64)))


def made(fused: bool = False) -> Model:
    rl.manual_seed(0)
    sparse = (
        FusedEmbeddingBagCollection(TABLES, RowWiseAdagrad, {"lr": 0.1}) if fused else EmbeddingBagCollection(TABLES)
    )
    return Model(sparse)


def test_a_collection_is_one_call_and_a_module_again():
    model = made()
    program = export_model(model, batch(3))
    assert [call.op.name for call in program.program.graph.calls].count("pooled_segments") == 1
    restored = program.module()
    sparse = restored.module.sparse
    assert type(sparse) is EmbeddingBagCollection
    assert [(table.name, table.shape, table.pooling) for table in sparse.embedding_bag_configs()] == [
        (table.name, table.shape, table.pooling) for table in TABLES
    ]
    assert sparse.embedding_names() == ["a", "b@t", "b@u"]
    assert sorted(restored.state_dict()) == sorted(f"module.{name}" for name in model.state_dict())
    dense, ids = batch(5)
    found, expected = restored(dense, ids), model(dense, ids)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    found.sum().backward()
    expected.sum().backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(restored.get_parameter(f"module.{name}").grad.numpy(), parameter.grad.numpy())


@pytest.mark.row("9.5")
def test_all_batches_are_one_artifact():
    model = made()
    compiled = rl.compile(export_model(model, batch(3)).module())
    before = rl.compiler.graph_count()
    for size in (0, 1, 7, 512):
        with rl.no_grad():
            found, expected = compiled(*batch(size)), model(*batch(size))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert rl.compiler.graph_count() == before + 1


def test_a_collection_alone_gives_what_it_gave():
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(TABLES, is_weighted=False)
    _, ids = batch(4)
    found, expected = export_model(collection, (ids,)).module()(ids), collection(ids)
    assert found.keys() == expected.keys() == ["a", "b@t", "b@u"]
    np.testing.assert_array_equal(found["b@u"].detach().numpy(), expected["b@u"].detach().numpy())


def divided(path: str, size: int, kind: str) -> np.ndarray:
    """What a loaded model gives for a rank's half of a batch, its tables divided."""
    model = load_model(path).module()
    collection, world, rank = model.module.sparse, dist.get_world_size(), dist.get_rank()
    way = sharding.row_wise() if kind == "row_wise" else sharding.column_wise([0, 1])
    own = sharding.construct_module_sharding_plan(collection, sharding.apply_to_all(collection, way), world_size=world)
    wrapped = DistributedModelParallel(model, plan=sharding.ShardingPlan({"module.sparse": own}))
    dense, ids = batch(size)
    half = slice(rank * size // world, (rank + 1) * size // world)
    rows = [part.to_dense()[half] for part in ids.to_dict().values()]
    parts = [one for feature in rows for one in feature]
    mine = KeyedJaggedTensor(ids.keys(), rl.cat(parts), lengths=rl.tensor([len(one) for one in parts]))
    return wrapped(dense[half], mine).detach().numpy().copy()


LOADED = """
import sys
import numpy as np
from rushlight.recsys.exporting import load_model
sys.path[:0] = [sys.argv[2]]
from test_exporting import batch

model = load_model(sys.argv[1]).module()
np.savez(sys.argv[3], *[model(*batch(size)).detach().numpy() for size in (0, 1, 7)])
"""


@pytest.mark.row("9.5")
def test_what_is_saved_is_loaded_by_another_process_and_divided_again(tmp_path: Path):
    model, path = made(fused=True), tmp_path / "model.safetensors"
    save_model(export_model(model, batch(3)), path)
    command = [sys.executable, "-c", LOADED, path, Path(__file__).parent, tmp_path / "found.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "found.npz") as found:
        for size, array in zip((0, 1, 7), found.values(), strict=True):
            np.testing.assert_array_equal(array, model(*batch(size)).detach().numpy())
    for kind in ("row_wise", "column_wise"):
        halves = dist.spawn(divided, 2, (str(path), 8, kind))
        np.testing.assert_allclose(np.concatenate(halves), model(*batch(8)).detach().numpy(), atol=1e-6)


def test_other_calls_and_other_files_are_refused(tmp_path: Path):
    program = export_model(made(), batch(3))
    dense, ids = batch(2)
    for wrong in ((dense,), (dense, ids.permute([1, 0])), (dense, dense)):
        with pytest.raises(rl.RushlightError) as caught:
            program.module()(*wrong)
        assert caught.value.code == "C022"
    with pytest.raises(rl.RushlightError) as caught:
        export_model(made(), (dense, [ids]))
    assert caught.value.code == "C035"
    path = tmp_path / "model.safetensors"
    rl.export.save(program.program, path)
    with pytest.raises(rl.RushlightError, match="not written by save_model") as caught:
        load_model(path)
    assert caught.value.code == "P005"
    rl.export.save(program.program, path, extra_files={"embeddings.json": '{"arguments": 3}'})
    with pytest.raises(rl.RushlightError) as caught:
        load_model(path)
    assert caught.value.code == "P002"


def test_tables_that_something_else_reads_are_not_restored():
    class Decayed(Model):
        def forward(self, dense: rl.Tensor, ids: KeyedJaggedTensor) -> rl.Tensor:
            return super().forward(dense, ids) + self.sparse.embedding_bags["t"].weight.square().sum()

    program = export_model(Decayed(EmbeddingBagCollection(TABLES)), batch(3))
    with pytest.raises(rl.RushlightError, match="read by another call"):
        program.module()


class Sequences(rl.nn.Module):
    """Pooled rows, and rows of sequences: tensors, a dict of jagged tensors and a keyed tensor."""

    def __init__(self, need_indices: bool = False) -> None:
        super().__init__()
        self.bags = EmbeddingBagCollection(TABLES)
        configs = [
            EmbeddingConfig(30, 4, "s", feature_names=["a", "b"]),
            EmbeddingConfig(20, 4, "v", feature_names=["b"]),
        ]
        self.rows = EmbeddingCollection(configs, need_indices=need_indices)

    def forward(self, dense: rl.Tensor, ids: KeyedJaggedTensor):
        rows, pooled = self.rows(ids), self.bags(ids)
        return dense + pooled.values().sum(1, keepdim=True), rows, pooled, rows["b@v"].values().sum(1)


def served(data_type: str, need_indices: bool = False) -> Sequences:
    rl.manual_seed(0)
    model = Sequences(need_indices)
    return model if data_type == "FP32" else quantize_inference_model(model, DataType[data_type])


def arrays(result) -> list[np.ndarray]:
    """All tensors of a result of Sequences."""
    first, rows, pooled, last = result
    parts = [part for own in rows.values() for part in (own.values(), own.lengths(), own.weights_or_none())]
    found = [first, last, *parts, *pooled.to_dict().values()]
    return [part.detach().numpy().copy() for part in found if part is not None]


READ = """
import sys
import numpy as np
from rushlight.recsys.exporting import load_model
sys.path[:0] = [sys.argv[2]]
from test_exporting import arrays, batch

model = load_model(sys.argv[1]).module()
np.savez(sys.argv[3], *[part for size in (0, 1, 7, 512) for part in arrays(model(*batch(size)))])
"""


@pytest.mark.generated
@pytest.mark.row("9.5")
@pytest.mark.parametrize("data_type", ["FP32", "INT8", "INT4", "FP16"])
def test_sequences_and_rows_of_few_bits_are_modules_again(data_type: str, tmp_path: Path):
    model, path = served(data_type, need_indices=data_type == "FP32"), tmp_path / "model.safetensors"
    exported = export_model(model, batch(3))
    wanted = 1 if data_type == "FP32" else 2
    assert [call.op.name for call in exported.program.graph.calls].count("recsys::lookup") == wanted
    save_model(exported, path)
    restored = exported.module()
    assert type(restored.module.rows) is type(model.rows)
    assert type(restored.module.bags) is type(model.bags)
    assert sorted(restored.state_dict()) == sorted(f"module.{name}" for name in model.state_dict())
    expected = [part for size in (0, 1, 7, 512) for part in arrays(model(*batch(size)))]
    command = [sys.executable, "-c", READ, path, Path(__file__).parent, tmp_path / "found.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "found.npz") as found:
        for array, other in zip(found.values(), expected, strict=True):
            np.testing.assert_array_equal(array, other)
    compiled = rl.compile(restored)
    before = rl.compiler.graph_count()
    for size in (0, 1, 7, 512):
        with rl.no_grad():
            for array, other in zip(arrays(compiled(*batch(size))), arrays(model(*batch(size))), strict=True):
                np.testing.assert_array_equal(array, other)
    assert rl.compiler.graph_count() == before + 1
    halves = dist.spawn(divided_sequences, 2, (str(path), 8))
    for place, other in enumerate(arrays(model(*batch(8)))[:2]):
        np.testing.assert_allclose(np.concatenate([one[place] for one in halves]), other, atol=1e-6)


def divided_sequences(path: str, size: int) -> list[np.ndarray]:
    """Dense results, and the last ones, of a loaded model whose tables are divided by rows."""
    model = load_model(path).module()
    world, rank = dist.get_world_size(), dist.get_rank()
    plans = {}
    for name in ("bags", "rows"):
        one = getattr(model.module, name)
        ways = sharding.apply_to_all(one, sharding.row_wise())
        plans[f"module.{name}"] = sharding.construct_module_sharding_plan(one, ways, world_size=world)
    wrapped = DistributedModelParallel(model, plan=sharding.ShardingPlan(plans))
    dense, ids = batch(size)
    half = slice(rank * size // world, (rank + 1) * size // world)
    parts = [row for part in ids.to_dict().values() for row in part.to_dense()[half]]
    mine = KeyedJaggedTensor(ids.keys(), rl.cat(parts), lengths=rl.tensor([len(one) for one in parts]))
    first, _, _, last = wrapped(dense[half], mine)
    return [first.detach().numpy().copy(), last.detach().numpy().copy()]
