"""Models and weights of the recordings of TorchRec's models."""

import gzip
import json
import zlib
from pathlib import Path

import numpy as np

import rushlight as rl
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor

_DATA = Path(__file__).parents[1] / "recsys" / "models" / "data" / "torchrec.json.gz"
# Written by torchrec 1.8 on torch 2.13: outputs, gradients and names of states, of weights that names give.
RECORDED = json.loads(gzip.decompress((_DATA).read_bytes()))
CASES = {case["name"]: case for case in RECORDED["modules"]}


def filled(module: rl.nn.Module) -> rl.nn.Module:
    with rl.no_grad():
        for name, one in module.state_dict().items():
            random = np.random.RandomState(zlib.crc32(name.encode()) & 0xFFFF)
            one.copy_(rl.tensor(random.uniform(-0.5, 0.5, tuple(one.shape)).astype(np.float32)))
    return module


def numbers(seed: int, *shape: int) -> rl.Tensor:
    return rl.tensor(np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32))


def tables() -> EmbeddingBagCollection:
    return EmbeddingBagCollection(
        [
            EmbeddingBagConfig(name="a", embedding_dim=4, num_embeddings=9, feature_names=["f", "g"]),
            EmbeddingBagConfig(name="b", embedding_dim=4, num_embeddings=5, feature_names=["h"]),
        ]
    )


def ids() -> KeyedJaggedTensor:
    lengths = rl.tensor([1, 2, 0, 0, 2, 1, 1, 1, 1])
    return KeyedJaggedTensor(["f", "g", "h"], rl.tensor([1, 2, 8, 0, 3, 3, 4, 1, 0]), lengths=lengths)


DENSE = (6, [7, 4])
