"""Modules of TorchRec, whose names `rushlight.recsys` has, by their path below `torchrec`."""

from __future__ import annotations

# Modules of torchrec by the module of `rushlight.recsys` that has their names.
_MODULES = {
    "configs": ("modules.embedding_configs", "types"),
    "modules": (
        "modules",
        "modules.embedding_modules",
        "modules.feature_processor",
        "modules.feature_processor_",
        "modules.fp_embedding_modules",
        "modules.fused_embedding_modules",
        "modules.mc_embedding_modules",
        "modules.mc_modules",
    ),
    "sparse": ("sparse", "sparse.jagged_tensor"),
    "distributed": (
        "distributed",
        "distributed.comm_ops",
        "distributed.dist_data",
        "distributed.embedding",
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
    "optim": ("optim", "optim.optimizers", "optim.rowwise_adagrad"),
}

RECOMMENDERS: dict[str, str] = {
    "": "rushlight.recsys",
    **{name: f"rushlight.recsys.{module}" for module, names in _MODULES.items() for name in names},
}
