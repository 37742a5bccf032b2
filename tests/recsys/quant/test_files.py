"""Files of quantised tables: what is written is read, also tables that are never whole in memory."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
    PoolingType,
)
from rushlight.recsys.quant import (
    QuantEmbeddingBagCollection,
    QuantEmbeddingCollection,
    open_tables,
    save_tables,
    write_tables,
)

TYPES = [DataType.INT8, DataType.INT4, DataType.FP16, DataType.FP32]


def configs() -> list[EmbeddingBagConfig]:
    return [
        EmbeddingBagConfig(60, 4, "t", feature_names=["a", "b"]),
        EmbeddingBagConfig(50, 8, "u", feature_names=["b"], pooling=PoolingType.MEAN),
    ]


def features() -> KeyedJaggedTensor:
    return KeyedJaggedTensor(["a", "b"], rl.tensor([3, 0, 3, 5, 49]), lengths=rl.tensor([2, 0, 1, 2]))


@pytest.mark.parametrize("data_type", TYPES, ids=lambda each: each.value)
def test_what_is_written_is_read(data_type: DataType, tmp_path: Path):
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(configs())
    small = QuantEmbeddingBagCollection.from_float(collection, data_type)
    expected = small(features()).values().numpy()
    save_tables(small, tmp_path / "saved.safetensors")
    weights = {table.name: collection.embedding_bags[table.name].weight for table in configs()}
    for size in (7, 60):
        path = tmp_path / f"{size}.safetensors"
        write_tables(configs(), data_type, lambda table: weights[table.name].split(size), path)  # noqa: B023 - called here
        assert path.read_bytes() == (tmp_path / "saved.safetensors").read_bytes()
    read = open_tables(tmp_path / "saved.safetensors")
    assert read.configs() == collection.embedding_bag_configs()
    found = read(features())
    assert found.keys() == ["a", "b@t", "b@u"]
    np.testing.assert_array_equal(found.values().numpy(), expected)


@pytest.mark.parametrize("data_type", TYPES, ids=lambda each: each.value)
def test_rows_of_sequences_are_read(data_type: DataType, tmp_path: Path):
    rl.manual_seed(0)
    tables = [EmbeddingConfig(60, 4, "t", feature_names=["a"]), EmbeddingConfig(50, 4, "u", feature_names=["b"])]
    collection = EmbeddingCollection(tables, need_indices=True)
    save_tables(QuantEmbeddingCollection.from_float(collection, data_type), tmp_path / "saved.safetensors")
    found, expected = open_tables(tmp_path / "saved.safetensors")(features()), collection(features())
    bound = {DataType.INT8: 1e-3, DataType.INT4: 2e-2, DataType.FP16: 1e-4, DataType.FP32: 0.0}[data_type]
    for name, rows in expected.items():
        difference = found[name].values() - rows.values()
        assert float(difference.abs().max()) <= bound
        assert found[name].lengths().tolist() == rows.lengths().tolist()


def test_weights_of_ids_multiply_rows():
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(configs()[:1], is_weighted=True)
    small = QuantEmbeddingBagCollection.from_float(collection)
    given = features()
    weights = rl.tensor([1.0, -2.0, 0.5, 3.0, 1.0])
    found = small(KeyedJaggedTensor(given.keys(), given.values(), weights, given.lengths())).values()
    dense = small.table("t").rows(given.values()) * weights.unsqueeze(1)
    expected = rl.cat([rl.stack([dense[:2].sum(0), dense[2:2].sum(0)]), rl.stack([dense[2], dense[3:].sum(0)])], 1)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-6)


def test_other_files_and_damaged_ones_are_refused(tmp_path: Path):
    path = tmp_path / "tables.safetensors"
    rl.save({"t": rl.ones(3)}, path)
    with pytest.raises(rl.RushlightError, match="no embedding tables") as caught:
        open_tables(path)
    assert caught.value.code == "P005"
    save_tables(QuantEmbeddingBagCollection.from_float(EmbeddingBagCollection(configs())), path)
    whole = path.read_bytes()
    for wrong, code in ((whole[:-3], "P002"), (whole.replace(b"rows = 60", b"rows = 61"), "P002")):
        path.write_bytes(wrong)
        with pytest.raises(rl.RushlightError) as caught:
            open_tables(path)
        assert caught.value.code == code
    with pytest.raises(rl.RushlightError, match="other rows than its blocks"):
        write_tables(configs()[:1], DataType.INT8, lambda table: [rl.ones(59, 4)], path)
    assert path.read_bytes() == wrong  # it was not touched


LOOK_UP = """
    import sys
    import numpy as np
    import rushlight as rl
    from rushlight.recsys import KeyedJaggedTensor
    from rushlight.recsys.quant import open_tables

    def own_memory():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

    def lookup(tables, ids):
        return tables(KeyedJaggedTensor(["a"], rl.tensor(ids), lengths=rl.full((len(ids),), 1)))["a"].numpy()

    small, large = open_tables(sys.argv[1]), open_tables(sys.argv[2])
    lookup(small, np.arange(100))
    before = own_memory()
    for start in range(3):
        ids = np.arange(start * 191, 1_000_000, 24_989)
        found = lookup(large, ids)
        expected = np.repeat(np.float32(ids % 251)[:, None], 64, 1)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    print(own_memory() - before)
"""


@pytest.mark.row("9.4")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux what is resident")
def test_a_mapped_table_takes_no_memory_of_the_process(tmp_path: Path):
    """What is resident of a table of 72 MB are clean pages of its file, which the system drops as it likes."""

    def blocks(table: EmbeddingBagConfig):
        for first in range(0, table.num_embeddings, 50_000):
            numbers = rl.arange(first, min(first + 50_000, table.num_embeddings)) % 251
            yield numbers.float().unsqueeze(1).expand(-1, 64)

    paths = []
    for rows in (1000, 1_000_000):
        paths.append(str(tmp_path / f"{rows}.safetensors"))
        write_tables([EmbeddingBagConfig(rows, 64, "t", feature_names=["a"])], DataType.INT8, blocks, paths[-1])
    assert Path(paths[1]).stat().st_size > 64_000_000
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOOK_UP), *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8_000_000
