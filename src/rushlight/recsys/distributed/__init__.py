"""Embedding tables that are divided among ranks, by the names of `torchrec.distributed`.

plan = EmbeddingShardingPlanner(Topology(dist.get_world_size(), "cpu")).plan(model)
model = DistributedModelParallel(model, plan=plan)
"""

from rushlight.recsys.distributed.awaitable import Awaitable, LazyAwaitable
from rushlight.recsys.distributed.collisions import ShardedManagedCollisionCollection
from rushlight.recsys.distributed.embedding import ShardedEmbeddingCollection
from rushlight.recsys.distributed.embedding_bag import ShardedEmbeddingBagCollection
from rushlight.recsys.distributed.exchange import KJTAllToAll, PooledEmbeddingsAllToAll
from rushlight.recsys.distributed.model_parallel import DistributedModelParallel, get_unwrapped_module
from rushlight.recsys.distributed.pipeline import TrainPipelineBase, TrainPipelineSparseDist
from rushlight.recsys.distributed.plans import (
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingPlan,
    ShardMetadata,
    apply_to_all,
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    grid_shard,
    row_wise,
    table_row_wise,
    table_wise,
)
from rushlight.recsys.distributed.precision import CommType, QCommsConfig
from rushlight.recsys.distributed.quant import ShardedQuantEmbeddingBagCollection, ShardedQuantEmbeddingCollection
from rushlight.recsys.distributed.sharded_tensor import Shard, ShardedTensor
from rushlight.recsys.distributed.sharders import (
    EmbeddingBagCollectionSharder,
    EmbeddingCollectionSharder,
    FeatureProcessedEmbeddingBagCollectionSharder,
    FusedEmbeddingBagCollectionSharder,
    FusedEmbeddingCollectionSharder,
    ManagedCollisionEmbeddingBagCollectionSharder,
    ManagedCollisionEmbeddingCollectionSharder,
    ModuleSharder,
    QuantEmbeddingBagCollectionSharder,
    QuantEmbeddingCollectionSharder,
    ShardingEnv,
    get_default_sharders,
    get_local_rank,
    get_local_size,
    get_qcomm_codecs_registry,
)
from rushlight.recsys.planner import EmbeddingComputeKernel, ShardingType
from rushlight.support.peer_names import absent_name

__all__ = [
    "Awaitable",
    "CommType",
    "DistributedModelParallel",
    "EmbeddingBagCollectionSharder",
    "EmbeddingCollectionSharder",
    "EmbeddingComputeKernel",
    "EmbeddingModuleShardingPlan",
    "EnumerableShardingSpec",
    "FeatureProcessedEmbeddingBagCollectionSharder",
    "FusedEmbeddingBagCollectionSharder",
    "FusedEmbeddingCollectionSharder",
    "KJTAllToAll",
    "LazyAwaitable",
    "ManagedCollisionEmbeddingBagCollectionSharder",
    "ManagedCollisionEmbeddingCollectionSharder",
    "ModuleSharder",
    "ParameterSharding",
    "PooledEmbeddingsAllToAll",
    "QCommsConfig",
    "QuantEmbeddingBagCollectionSharder",
    "QuantEmbeddingCollectionSharder",
    "Shard",
    "ShardMetadata",
    "ShardedEmbeddingBagCollection",
    "ShardedEmbeddingCollection",
    "ShardedManagedCollisionCollection",
    "ShardedQuantEmbeddingBagCollection",
    "ShardedQuantEmbeddingCollection",
    "ShardedTensor",
    "ShardingEnv",
    "ShardingPlan",
    "ShardingType",
    "TrainPipelineBase",
    "TrainPipelineSparseDist",
    "apply_to_all",
    "column_wise",
    "construct_module_sharding_plan",
    "data_parallel",
    "get_default_sharders",
    "get_local_rank",
    "get_local_size",
    "get_qcomm_codecs_registry",
    "get_unwrapped_module",
    "grid_shard",
    "row_wise",
    "table_row_wise",
    "table_wise",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
