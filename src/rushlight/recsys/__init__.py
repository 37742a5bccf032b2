"""Embeddings of sparse features, by TorchRec's names: jagged data, collections of tables, plans for many ranks.

tables = [rl.recsys.EmbeddingBagConfig(name="t", num_embeddings=100, embedding_dim=8, feature_names=["f"])]
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rushlight.support.peer_names import absent_name

if TYPE_CHECKING:
    from rushlight.recsys.configs import (
        BaseEmbeddingConfig,
        DataType,
        EmbeddingBagConfig,
        EmbeddingConfig,
        PoolingType,
    )
    from rushlight.recsys.modules import (
        EmbeddingBagCollection,
        EmbeddingCollection,
        FusedEmbeddingBagCollection,
        FusedEmbeddingCollection,
    )
    from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor

_CONFIGS = ("BaseEmbeddingConfig", "DataType", "EmbeddingBagConfig", "EmbeddingConfig", "PoolingType")
_MODULES = (
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "FusedEmbeddingBagCollection",
    "FusedEmbeddingCollection",
)
_SPARSE = ("JaggedTensor", "KeyedJaggedTensor", "KeyedTensor")

__all__ = [
    "BaseEmbeddingConfig",
    "DataType",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "EmbeddingCollection",
    "EmbeddingConfig",
    "FusedEmbeddingBagCollection",
    "FusedEmbeddingCollection",
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "PoolingType",
]


# A planner's program loads no tensors.
def __getattr__(name: str) -> object:
    if name in _CONFIGS:
        return getattr(import_module("rushlight.recsys.configs"), name)
    if name in _MODULES:
        return getattr(import_module("rushlight.recsys.modules"), name)
    if name in _SPARSE:
        return getattr(import_module("rushlight.recsys.sparse"), name)
    raise absent_name(__name__, name, __all__)
