"""Collections of embedding tables, and what prepares features for them."""

from rushlight.recsys.modules.collisions import (
    ManagedCollisionCollection,
    ManagedCollisionModule,
    MCHManagedCollisionModule,
)
from rushlight.recsys.modules.crossing import CrossNet, LowRankCrossNet, LowRankMixtureCrossNet, VectorCrossNet
from rushlight.recsys.modules.dense import MLP, Perceptron, SwishLayerNorm
from rushlight.recsys.modules.embedding import EmbeddingCollection
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.eviction import (
    DistanceLFU_EvictionPolicy,
    LFU_EvictionPolicy,
    LRU_EvictionPolicy,
    MCHEvictionPolicy,
    average_threshold_filter,
    dynamic_threshold_filter,
    probabilistic_threshold_filter,
)
from rushlight.recsys.modules.factorization import DeepFM, FactorizationMachine
from rushlight.recsys.modules.fused import FusedEmbeddingBagCollection
from rushlight.recsys.modules.fused_rows import FusedEmbeddingCollection
from rushlight.recsys.modules.hashed import (
    HashZchEvictionConfig,
    HashZchEvictionPolicyName,
    HashZchManagedCollisionModule,
)
from rushlight.recsys.modules.managed import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from rushlight.recsys.modules.processors import (
    FeatureProcessor,
    FeatureProcessorsCollection,
    PositionWeightedModule,
    PositionWeightedModuleCollection,
)
from rushlight.recsys.modules.regroup import KTRegroupAsDict
from rushlight.recsys.modules.wrapped import FeatureProcessedEmbeddingBagCollection

__all__ = [
    "MLP",
    "CrossNet",
    "DeepFM",
    "DistanceLFU_EvictionPolicy",
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "FactorizationMachine",
    "FeatureProcessedEmbeddingBagCollection",
    "FeatureProcessor",
    "FeatureProcessorsCollection",
    "FusedEmbeddingBagCollection",
    "FusedEmbeddingCollection",
    "HashZchEvictionConfig",
    "HashZchEvictionPolicyName",
    "HashZchManagedCollisionModule",
    "KTRegroupAsDict",
    "LFU_EvictionPolicy",
    "LRU_EvictionPolicy",
    "LowRankCrossNet",
    "LowRankMixtureCrossNet",
    "MCHEvictionPolicy",
    "MCHManagedCollisionModule",
    "ManagedCollisionCollection",
    "ManagedCollisionEmbeddingBagCollection",
    "ManagedCollisionEmbeddingCollection",
    "ManagedCollisionModule",
    "Perceptron",
    "PositionWeightedModule",
    "PositionWeightedModuleCollection",
    "SwishLayerNorm",
    "VectorCrossNet",
    "average_threshold_filter",
    "dynamic_threshold_filter",
    "probabilistic_threshold_filter",
]
