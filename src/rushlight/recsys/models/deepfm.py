"""A model with DeepFM's interactions (Guo et al. 2017), by TorchRec's names and with its keys of states."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Linear, Module, ReLU, Sequential, Sigmoid
from rushlight.recsys.modules import DeepFM, EmbeddingBagCollection, FactorizationMachine
from rushlight.recsys.sparse import KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import require


class SparseArch(Module):
    """The pooled rows of all features, by feature."""

    def __init__(self, embedding_bag_collection: EmbeddingBagCollection) -> None:
        super().__init__()
        self.embedding_bag_collection: Module = embedding_bag_collection

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Return what the collection gives."""
        return self.embedding_bag_collection(features)


class DenseArch(Module):
    """Two layers over the dense numbers, to a row of the tables' size."""

    def __init__(self, in_features: int, hidden_layer_size: int, embedding_dim: int) -> None:
        super().__init__()
        first, second = Linear(in_features, hidden_layer_size), Linear(hidden_layer_size, embedding_dim)
        self.model = Sequential(first, ReLU(), second, ReLU())

    def forward(self, features: Tensor) -> Tensor:
        """[batch, in_features] to [batch, embedding_dim]."""
        return self.model(features)


class FMInteractionArch(Module):
    """The dense row, a layer over all numbers, and the sum of the products of all pairs of numbers."""

    def __init__(self, fm_in_features: int, sparse_feature_names: Sequence[str], deep_fm_dimension: int) -> None:
        super().__init__()
        self.sparse_feature_names = list(sparse_feature_names)
        self.deep_fm = DeepFM(Sequential(Linear(fm_in_features, deep_fm_dimension), ReLU()))
        self.fm = FactorizationMachine()

    def forward(self, dense_features: Tensor, sparse_features: KeyedTensor) -> Tensor:
        """Return [batch, columns + deep_fm_dimension + 1]."""
        if not self.sparse_feature_names:
            return dense_features
        rows = [dense_features, *[sparse_features[name] for name in self.sparse_feature_names]]
        return rl.cat([dense_features, self.deep_fm(rows), self.fm(rows)], 1)


class OverArch(Module):
    """One layer to a chance."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.model = Sequential(Linear(in_features, 1), Sigmoid())

    def forward(self, features: Tensor) -> Tensor:
        """[batch, in_features] to [batch, 1]."""
        return self.model(features)


class SimpleDeepFMNN(Module):
    """Embeddings and dense numbers with DeepFM's interactions, to a chance.

    SimpleDeepFMNN(13, collection, hidden_layer_size=20, deep_fm_dimension=5)

    All tables have rows of one size (A002).
    """

    def __init__(
        self,
        num_dense_features: int,
        embedding_bag_collection: EmbeddingBagCollection,
        hidden_layer_size: int,
        deep_fm_dimension: int,
    ) -> None:
        super().__init__()
        configs = embedding_bag_collection.embedding_bag_configs()
        sizes = sorted({table.embedding_dim for table in configs})
        require(len(sizes) == 1, "A002", "SimpleDeepFMNN: the rows of all tables have one size", tables=sizes)
        (columns,) = sizes
        names = [name for table in configs for name in table.feature_names]
        self.sparse_arch = SparseArch(embedding_bag_collection)
        self.dense_arch = DenseArch(num_dense_features, hidden_layer_size, columns)
        self.inter_arch = FMInteractionArch((len(names) + 1) * columns, names, deep_fm_dimension)
        self.over_arch = OverArch(columns + deep_fm_dimension + 1)

    def forward(self, dense_features: Tensor, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Return chances, [batch, 1]."""
        dense, sparse = self.dense_arch(dense_features), self.sparse_arch(sparse_features)
        return self.over_arch(self.inter_arch(dense_features=dense, sparse_features=sparse))
