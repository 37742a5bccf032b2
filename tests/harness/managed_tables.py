"""Tables whose ids have no bounds, and batches of such ids."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.recsys import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    FusedEmbeddingBagCollection,
    KeyedJaggedTensor,
)
from rushlight.recsys.modules import (
    HashZchManagedCollisionModule,
    LFU_EvictionPolicy,
    ManagedCollisionCollection,
    ManagedCollisionEmbeddingBagCollection,
    MCHManagedCollisionModule,
)
from rushlight.recsys.optim import RowWiseAdagrad


def managed(
    interval: int = 1, fused: bool = True, buckets: int = 1, policy=LFU_EvictionPolicy, hashed: bool = False
) -> ManagedCollisionEmbeddingBagCollection:
    """Two tables, one of two features, behind maps of their ids."""
    rl.manual_seed(0)
    tables = [
        EmbeddingBagConfig(8, 4, "t", feature_names=["a", "b"]),
        EmbeddingBagConfig(6, 4, "u", feature_names=["c"]),
    ]
    maps = {
        table.name: HashZchManagedCollisionModule(table.num_embeddings, total_num_buckets=buckets, max_probe=3)
        if hashed
        else MCHManagedCollisionModule(
            table.num_embeddings, eviction_policy=policy(), eviction_interval=interval, buckets=buckets
        )
        for table in tables
    }
    collection = (
        FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.1}) if fused else EmbeddingBagCollection(tables)
    )
    return ManagedCollisionEmbeddingBagCollection(collection, ManagedCollisionCollection(maps, tables), True)


def batch(seed: int, size: int = 4) -> KeyedJaggedTensor:
    """Ids of three features, of which every four batches bring others."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, 3 * size)
    ids = rng.zipf(1.3, lengths.sum()) % 40 + 10**15 * (seed // 4)
    return KeyedJaggedTensor(["c", "a", "b"], rl.tensor(ids.astype(np.int64)), lengths=rl.tensor(lengths))
