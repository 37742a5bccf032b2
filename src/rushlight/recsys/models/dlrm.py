"""The deep learning recommendation model of Naumov et al. 2019, by TorchRec's names and with its keys of states.

Pooled embeddings of sparse features and one row made of dense numbers meet in an interaction; an MLP gives the logit
of a click. All tables have rows of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import BCEWithLogitsLoss, Linear, Module, Sequential
from rushlight.recsys.datasets import Batch
from rushlight.recsys.modules import MLP, EmbeddingBagCollection, LowRankCrossNet
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.support.errors import require


def choose(n: int, k: int) -> int:
    """Return the number of ways to take k things of n."""
    count = 1
    for number in range(min(k, n - k)):
        count = count * (n - number) // (number + 1)
    return count if 0 <= k <= n else 0


class SparseArch(Module):
    """The pooled rows of all features: [batch, features, columns]."""

    def __init__(self, embedding_bag_collection: EmbeddingBagCollection) -> None:
        super().__init__()
        configs = embedding_bag_collection.embedding_bag_configs()
        require(bool(configs), "A002", "SparseArch: the collection has no tables")
        self.embedding_bag_collection: Module = embedding_bag_collection
        self.D = configs[0].embedding_dim
        self._sparse_feature_names = [name for table in configs for name in table.feature_names]
        self.F = len(self._sparse_feature_names)

    @property
    def sparse_feature_names(self) -> list[str]:
        """The features, by table."""
        return self._sparse_feature_names

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Return [batch, features, columns]."""
        rows = self.embedding_bag_collection(features).to_dict()
        return rl.cat([rows[name] for name in self._sparse_feature_names], 1).reshape(-1, self.F, self.D)


class DenseArch(Module):
    """An MLP of the dense numbers, to a row of the tables' size."""

    def __init__(self, in_features: int, layer_sizes: Sequence[int], device: Any = None) -> None:
        super().__init__()
        self.model = MLP(in_features, layer_sizes, bias=True, activation="relu", device=device)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, in_features] to [batch, columns]."""
        return self.model(features)


def _rows(dense_features: Tensor, sparse_features: Tensor) -> Tensor:
    """The dense row and the pooled ones: [batch, features + 1, columns]."""
    return rl.cat([dense_features.unsqueeze(1), sparse_features], 1)


class InteractionArch(Module):
    """The dense row, and the products of each pair of rows."""

    def __init__(self, num_sparse_features: int) -> None:
        super().__init__()
        self.F = num_sparse_features
        pairs = rl.triu_indices(self.F + 1, self.F + 1, offset=1)
        self.register_buffer("triu_indices", pairs, persistent=False)

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Return [batch, columns + pairs]."""
        if self.F <= 0:
            return dense_features
        rows = _rows(dense_features, sparse_features)
        first, second = self.triu_indices[0], self.triu_indices[1]
        return rl.cat([dense_features, (rows @ rows.mT)[:, first, second]], 1)


class InteractionDCNArch(Module):
    """A cross network over all rows."""

    def __init__(self, num_sparse_features: int, crossnet: Module) -> None:
        super().__init__()
        self.F = num_sparse_features
        self.crossnet = crossnet

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Return [batch, (features + 1) * columns]."""
        return self.crossnet(_rows(dense_features, sparse_features).flatten(1)) if self.F > 0 else dense_features


class InteractionProjectionArch(Module):
    """The dense row, and the products of two projections of all rows."""

    def __init__(self, num_sparse_features: int, interaction_branch1: Module, interaction_branch2: Module) -> None:
        super().__init__()
        self.F = num_sparse_features
        self.interaction_branch1 = interaction_branch1
        self.interaction_branch2 = interaction_branch2

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Return [batch, columns + rows of the first branch * columns of the second]."""
        if self.F <= 0:
            return dense_features
        batch, columns = dense_features.shape
        rows = _rows(dense_features, sparse_features).flatten(1)
        left = self.interaction_branch1(rows).reshape(batch, -1, columns)
        right = self.interaction_branch2(rows).reshape(batch, columns, -1)
        return rl.cat([dense_features, (left @ right).flatten(1)], 1)


class OverArch(Module):
    """An MLP whose last layer has no activation. A002 for fewer than two layers."""

    def __init__(self, in_features: int, layer_sizes: Sequence[int], device: Any = None) -> None:
        super().__init__()
        require(len(layer_sizes) > 1, "A002", "OverArch: at least two layers are needed", layer_sizes=layer_sizes)
        *inner, last = layer_sizes
        body = MLP(in_features, inner, bias=True, activation="relu", device=device)
        self.model = Sequential(body, Linear(inner[-1], last, bias=True, device=device))

    def forward(self, features: Tensor) -> Tensor:
        """[batch, in_features] to [batch, the last of layer_sizes]."""
        return self.model(features)


class DLRM(Module):
    """Embeddings, dense numbers and the products of all pairs of rows, to logits.

    DLRM(collection, dense_in_features=13, dense_arch_layer_sizes=[64, 16], over_arch_layer_sizes=[64, 1])

    The last of `dense_arch_layer_sizes` is the size of the tables' rows (A002).
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: Sequence[int],
        over_arch_layer_sizes: Sequence[int],
        dense_device: Any = None,
    ) -> None:
        super().__init__()
        sizes = {table.embedding_dim for table in embedding_bag_collection.embedding_bag_configs()}
        message = "DLRM: the rows of all tables, and the last layer of the dense part, have one size"
        fits = sizes == {dense_arch_layer_sizes[-1]}
        require(fits, "A002", message, tables=sorted(sizes), dense_arch_layer_sizes=list(dense_arch_layer_sizes))
        self.sparse_arch = SparseArch(embedding_bag_collection)
        self.dense_arch = DenseArch(dense_in_features, dense_arch_layer_sizes, dense_device)
        features, columns = self.sparse_arch.F, self.sparse_arch.D
        self.inter_arch, width = self._interaction(features, columns, dense_device)
        self.over_arch = OverArch(width, over_arch_layer_sizes, dense_device)

    def _interaction(self, features: int, columns: int, device: Any) -> tuple[Module, int]:
        """The interaction, and the numbers that it gives for an example."""
        del device
        return InteractionArch(features), columns + choose(features + 1, 2)

    def forward(self, dense_features: Tensor, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Return logits, [batch, the last of over_arch_layer_sizes]."""
        dense, sparse = self.dense_arch(dense_features), self.sparse_arch(sparse_features)
        return self.over_arch(self.inter_arch(dense_features=dense, sparse_features=sparse))


class DLRM_Projection(DLRM):  # noqa: N801 - TorchRec's name
    """A DLRM whose interaction is the product of two projections, whose last sizes are whole rows (A002)."""

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: Sequence[int],
        over_arch_layer_sizes: Sequence[int],
        interaction_branch1_layer_sizes: Sequence[int],
        interaction_branch2_layer_sizes: Sequence[int],
        dense_device: Any = None,
    ) -> None:
        self._branches = [list(interaction_branch1_layer_sizes), list(interaction_branch2_layer_sizes)]
        layers = dense_arch_layer_sizes, over_arch_layer_sizes
        super().__init__(embedding_bag_collection, dense_in_features, *layers, dense_device)

    def _interaction(self, features: int, columns: int, device: Any) -> tuple[Module, int]:
        whole = all(sizes[-1] % columns == 0 for sizes in self._branches)
        message = "DLRM_Projection: the last sizes of branches are multiples of the rows' size"
        require(whole, "A002", message, branches=self._branches, embedding_dim=columns)
        made = [DenseArch((features + 1) * columns, sizes, device) for sizes in self._branches]
        rows = [sizes[-1] // columns for sizes in self._branches]
        return InteractionProjectionArch(features, *made), columns + rows[0] * rows[1]


class DLRM_DCN(DLRM):  # noqa: N801 - TorchRec's name
    """A DLRM whose interaction is a cross network of low rank."""

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: Sequence[int],
        over_arch_layer_sizes: Sequence[int],
        dcn_num_layers: int,
        dcn_low_rank_dim: int,
        dense_device: Any = None,
    ) -> None:
        self._crossing = dcn_num_layers, dcn_low_rank_dim
        layers = dense_arch_layer_sizes, over_arch_layer_sizes
        super().__init__(embedding_bag_collection, dense_in_features, *layers, dense_device)

    def _interaction(self, features: int, columns: int, device: Any) -> tuple[Module, int]:
        width = (features + 1) * columns
        crossnet = LowRankCrossNet(width, *self._crossing).to(device=device)
        return InteractionDCNArch(features, crossnet), width


class DLRMTrain(Module):
    """A DLRM with its loss, for pipelines: a batch to (loss, (loss, logits, labels)), detached in the second place."""

    def __init__(self, dlrm_module: DLRM) -> None:
        super().__init__()
        self.model = dlrm_module
        self.loss_fn = BCEWithLogitsLoss()

    def forward(self, batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Return the loss, and what a metric takes."""
        logits = self.model(batch.dense_features, batch.sparse_features).squeeze(-1)
        loss = self.loss_fn(logits, batch.labels.float())
        return loss, (loss.detach(), logits.detach(), batch.labels.detach())
