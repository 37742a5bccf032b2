"""A packaged collection of 8-bit tables: the bits of the compiled collection, and its latency beside float32 tables."""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.export import export, package
from rushlight.recsys import DataType, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys.inference import quantize_inference_model

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "packages" / "rushlight-runtime" / "src"))

import rushlight_runtime  # noqa: E402

ROWS, WIDTH, FEATURES, POOLING = 20_000, 64, 4, 10
BATCHES = (1, 64, 512)
ROUNDS = 15


class Pooled(rl.nn.Module):
    """The rows of some tables, pooled: [batch, features * width]."""

    def __init__(self, collection: rl.nn.Module) -> None:
        super().__init__()
        self.collection = collection

    def forward(self, values: rl.Tensor, lengths: rl.Tensor) -> rl.Tensor:
        """`values` are ids of all features, `lengths` how many of each bag."""
        return self.collection(KeyedJaggedTensor(NAMES, values, lengths=lengths)).values()


NAMES = [f"f{number}" for number in range(FEATURES)]


def collection() -> EmbeddingBagCollection:
    rl.manual_seed(0)
    tables = [EmbeddingBagConfig(ROWS, WIDTH, f"t_{name}", feature_names=[name]) for name in NAMES]
    return EmbeddingBagCollection(tables).requires_grad_(False)


def batch(size: int) -> tuple[rl.Tensor, rl.Tensor]:
    rng = np.random.default_rng(size)
    lengths = rng.integers(0, 2 * POOLING + 1, FEATURES * size)
    return rl.tensor(rng.integers(0, ROWS, lengths.sum())), rl.tensor(lengths)


def medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of processor time of each call, taken in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


@pytest.mark.row("9.4")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are written for Linux alone")
def test_a_packaged_collection_of_few_bits_has_its_bits_and_a_latency(tmp_path: Path):
    wide = Pooled(collection())
    narrow = quantize_inference_model(Pooled(collection()), DataType.INT8)
    package(export(narrow, batch(7)), tmp_path, shared=True)
    run = rushlight_runtime.load(tmp_path)
    plain, small = rl.compile(wide), rl.compile(narrow)
    for size in (0, *BATCHES):
        ids, lengths = batch(size)
        np.testing.assert_array_equal(run(ids.numpy(), lengths.numpy()), small(ids, lengths).numpy())
    assert (tmp_path / "model.safetensors").stat().st_size < 0.3 * 4 * ROWS * WIDTH * FEATURES
    for size in BATCHES:
        ids, lengths = batch(size)
        arrays = ids.numpy(), lengths.numpy()
        found = medians(
            {
                "packaged int8": lambda arrays=arrays: run(*arrays),
                "compiled int8": lambda ids=ids, lengths=lengths: small(ids, lengths),
                "compiled float32": lambda ids=ids, lengths=lengths: plain(ids, lengths),
            }
        )
        print(f"batch {size:3}: " + ", ".join([f"{name} {1e6 * taken:.0f} us" for name, taken in found.items()]))
        # No figure of a machine: what is asked is that the package does the compiled collection's work, and no more.
        assert 0 < found["packaged int8"] < 3 * found["compiled int8"] + 2e-3
