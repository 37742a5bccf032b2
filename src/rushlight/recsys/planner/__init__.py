"""Plans of embedding tables on ranks, by TorchRec's names: options, estimates, proposals, and a search.

It needs neither a process group nor a model: descriptions of tables are enough.

    topology = Topology(8, "cuda")
    plan = EmbeddingShardingPlanner(topology, batch_size=512).plan(tables)
    print(plan.text())
"""

from rushlight.recsys.planner.calibration import Calibration, Measurement, calibrate, rank_correlation
from rushlight.recsys.planner.enumerators import EmbeddingEnumerator, ParameterConstraints
from rushlight.recsys.planner.estimators import (
    CommsBytes,
    EmbeddingPerfEstimator,
    EmbeddingStorageEstimator,
    PipelineType,
)
from rushlight.recsys.planner.explaining import explain
from rushlight.recsys.planner.options import (
    CacheParams,
    EmbeddingComputeKernel,
    PartitionByType,
    Perf,
    PlannedTable,
    Shard,
    ShardingOption,
    ShardingType,
    Storage,
)
from rushlight.recsys.planner.partitioners import (
    GreedyPerfPartitioner,
    MemoryBalancedPartitioner,
    Partitioner,
    SortBy,
)
from rushlight.recsys.planner.plan import EstimatorSettings, Plan
from rushlight.recsys.planner.planners import EmbeddingShardingPlanner, SearchSettings
from rushlight.recsys.planner.proposers import (
    DynamicProgrammingProposer,
    GreedyProposer,
    GridSearchProposer,
    Proposer,
    UniformProposer,
)
from rushlight.recsys.planner.reservations import (
    FixedAbsoluteStorageReservation,
    FixedPercentageStorageReservation,
    HeuristicalStorageReservation,
    InferenceStorageReservation,
    StorageReservation,
)
from rushlight.recsys.planner.scale_up import EmbeddingOffloadScaleupProposer
from rushlight.recsys.planner.stats import EmbeddingStats
from rushlight.recsys.planner.topology import Constants, Topology
from rushlight.recsys.planner.workload import Workload

__all__ = [
    "CacheParams",
    "Calibration",
    "CommsBytes",
    "Constants",
    "DynamicProgrammingProposer",
    "EmbeddingComputeKernel",
    "EmbeddingEnumerator",
    "EmbeddingOffloadScaleupProposer",
    "EmbeddingPerfEstimator",
    "EmbeddingShardingPlanner",
    "EmbeddingStats",
    "EmbeddingStorageEstimator",
    "EstimatorSettings",
    "FixedAbsoluteStorageReservation",
    "FixedPercentageStorageReservation",
    "GreedyPerfPartitioner",
    "GreedyProposer",
    "GridSearchProposer",
    "HeuristicalStorageReservation",
    "InferenceStorageReservation",
    "Measurement",
    "MemoryBalancedPartitioner",
    "ParameterConstraints",
    "PartitionByType",
    "Partitioner",
    "Perf",
    "PipelineType",
    "Plan",
    "PlannedTable",
    "Proposer",
    "SearchSettings",
    "Shard",
    "ShardingOption",
    "ShardingType",
    "SortBy",
    "Storage",
    "StorageReservation",
    "Topology",
    "UniformProposer",
    "Workload",
    "calibrate",
    "explain",
    "rank_correlation",
]
