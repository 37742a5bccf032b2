"""Collections of tables with something before them."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.nn import Module, ModuleDict
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.processors import FeatureProcessor, FeatureProcessorsCollection
from rushlight.recsys.modules.tables import in_order
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import require


class FeatureProcessedEmbeddingBagCollection(Module):
    """An EmbeddingBagCollection of weighted rows whose weights processors give.

    Processors are one for all features, or one for each. A plan names the tables by the path of this module. Errors:
    E001 for a collection without weights, E005 for a feature that has no processor.

    FeatureProcessedEmbeddingBagCollection(collection, PositionWeightedModuleCollection({"words": 10}))
    """

    inner = "_embedding_bag_collection"

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        feature_processors: Mapping[str, FeatureProcessor] | FeatureProcessorsCollection,
    ) -> None:
        super().__init__()
        weighted = embedding_bag_collection.is_weighted()
        require(weighted, "E001", "processors give weights: a collection with is_weighted=True is needed")
        configs = embedding_bag_collection.embedding_bag_configs()
        self._names = list(dict.fromkeys(name for table in configs for name in table.feature_names))
        self._configs = configs
        self._embedding_bag_collection: Module = embedding_bag_collection
        if isinstance(feature_processors, Mapping):
            odd = sorted(set(self._names) ^ set(feature_processors))
            require(not odd, "E005", "each feature of the tables has one processor", features=odd)
            self._feature_processors: Module = ModuleDict(dict(feature_processors))
        else:
            self._feature_processors = feature_processors

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return list(self._configs)

    def is_weighted(self) -> bool:
        """Return True: processors give weights."""
        return True

    def split(self) -> tuple[Module, Module]:
        """Return the processors, and the collection."""
        return self._feature_processors, self._embedding_bag_collection

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Return the pooled rows, by the names of features."""
        return self._embedding_bag_collection(self._processed(features))

    def _processed(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        own = in_order(features.expanded() if features.variable_stride_per_key() else features, self._names)
        if not isinstance(self._feature_processors, ModuleDict):
            return self._feature_processors(own)
        parts = {key: self._feature_processors[key](rows) for key, rows in own.to_dict().items()}
        assert all(isinstance(part, JaggedTensor) for part in parts.values())
        return KeyedJaggedTensor.from_jt_dict(parts)
