"""Modules of TorchRec and FBGEMM, whose names `rushlight.recsys` has, by their path below these."""

from __future__ import annotations

# Modules of torchrec by the module of `rushlight.recsys` that has their names.
_MODULES = {
    "configs": ("modules.embedding_configs", "types"),
    "datasets": ("datasets", "datasets.criteo", "datasets.random", "datasets.utils"),
    "datasets.movielens": ("datasets.movielens",),
    "models": ("models",),
    "models.deepfm": ("models.deepfm",),
    "models.dlrm": ("models.dlrm",),
    "modules": (
        "modules",
        "modules.activation",
        "modules.crossnet",
        "modules.deepfm",
        "modules.mlp",
        "modules.embedding_modules",
        "modules.feature_processor",
        "modules.feature_processor_",
        "modules.fp_embedding_modules",
        "modules.fused_embedding_modules",
        "modules.mc_embedding_modules",
        "modules.hash_mc_evictions",
        "modules.hash_mc_modules",
        "modules.mc_modules",
        "modules.regroup",
    ),
    "sparse": ("sparse", "sparse.jagged_tensor"),
    "metrics": (
        "metrics",
        "metrics.auc",
        "metrics.calibration",
        "metrics.ctr",
        "metrics.metrics_config",
        "metrics.mse",
        "metrics.ne",
        "metrics.rec_metric",
    ),
    "distributed": (
        "distributed",
        "distributed.comm",
        "distributed.comm_ops",
        "distributed.dist_data",
        "distributed.embedding",
        "distributed.embedding_types",
        "distributed.fp_embeddingbag",
        "distributed.fused_embedding",
        "distributed.fused_embeddingbag",
        "distributed.mc_embedding",
        "distributed.mc_embeddingbag",
        "distributed.quant_embedding",
        "distributed.quant_embeddingbag",
        "distributed.embeddingbag",
        "distributed.fbgemm_qcomm_codec",
        "distributed.model_parallel",
        "distributed.sharding_plan",
        "distributed.train_pipeline",
        "distributed.types",
    ),
    "planner": (
        "distributed.planner",
        "distributed.planner.constants",
        "distributed.planner.enumerators",
        "distributed.planner.partitioners",
        "distributed.planner.planners",
        "distributed.planner.proposers",
        "distributed.planner.shard_estimators",
        "distributed.planner.stats",
        "distributed.planner.storage_reservations",
        "distributed.planner.types",
    ),
    "quant": ("quant", "quant.embedding_modules"),
    "inference": ("inference", "inference.modules"),
    "optim": (
        "optim",
        "optim.apply_optimizer_in_backward",
        "optim.clipping",
        "optim.keyed",
        "optim.optimizers",
        "optim.rowwise_adagrad",
        "optim.warmup",
    ),
}

_RECOMMENDERS = {
    "": "rushlight.recsys",
    **{name: f"rushlight.recsys.{module}" for module, names in _MODULES.items() for name in names},
}
# The planner imports nothing of what runs plans, and so lacks their types.
_TYPES = {"distributed.planner.types": "rushlight.recsys.distributed"}
_FBGEMM: dict[str, str] = {"": "rushlight.recsys.optim", "split_embedding_configs": "rushlight.recsys.optim"}
PEERS: dict[str, tuple[dict[str, str], ...]] = {"torchrec": (_RECOMMENDERS, _TYPES), "fbgemm_gpu": (_FBGEMM,)}
"""Packages beside torch; of several tables the first that has a name answers for it."""
