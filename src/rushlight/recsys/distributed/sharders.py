"""What is divided, by TorchRec's names: one sharder for each kind of collection, with its optimizer and exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from rushlight.distributed import ProcessGroup, get_node_local_rank, get_rank
from rushlight.distributed.group import get_node_local_size, member
from rushlight.nn import Module
from rushlight.recsys.distributed.precision import EXACT, QCommsConfig
from rushlight.recsys.modules import (
    EmbeddingBagCollection,
    EmbeddingCollection,
    FeatureProcessedEmbeddingBagCollection,
    FusedEmbeddingBagCollection,
    FusedEmbeddingCollection,
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from rushlight.recsys.optim import RowRule, rule_of_parameters
from rushlight.recsys.planner import ShardingType
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection
from rushlight.support.frozen import frozen

Kind = TypeVar("Kind", bound=Module)


class ModuleSharder(Generic[Kind]):
    """How collections of `module_type` are divided. A subclass may allow fewer ways in `sharding_types`.

    EmbeddingBagCollectionSharder({"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.1})

    `fused_params` name the optimizer that steps in the backward pass, by FBGEMM's words.
    """

    module_type: ClassVar[type[Module]] = Module

    def __init__(
        self,
        fused_params: Mapping[str, Any] | None = None,
        qcomm_codecs_registry: QCommsConfig | None = None,
    ) -> None:
        self.fused_params = None if fused_params is None else dict(fused_params)
        self.qcomm_codecs_registry = qcomm_codecs_registry

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """Return the ways that a plan may choose from."""
        del compute_device_type
        return [kind.value for kind in ShardingType]

    def rule(self) -> RowRule | None:
        """Return how rows are updated, None where `fused_params` name no optimizer."""
        return None if self.fused_params is None else rule_of_parameters(self.fused_params)

    def qcomms(self, otherwise: QCommsConfig) -> QCommsConfig:
        """Return in what numbers rows are sent."""
        return self.qcomm_codecs_registry or otherwise


class EmbeddingBagCollectionSharder(ModuleSharder[EmbeddingBagCollection]):
    """Of pooled collections."""

    module_type = EmbeddingBagCollection


class FusedEmbeddingBagCollectionSharder(ModuleSharder[FusedEmbeddingBagCollection]):
    """Of pooled collections with an optimizer."""

    module_type = FusedEmbeddingBagCollection


class EmbeddingCollectionSharder(ModuleSharder[EmbeddingCollection]):
    """Of collections that give the row of each id."""

    module_type = EmbeddingCollection


class FusedEmbeddingCollectionSharder(ModuleSharder[FusedEmbeddingCollection]):
    """Of collections of rows with an optimizer."""

    module_type = FusedEmbeddingCollection


class QuantEmbeddingBagCollectionSharder(ModuleSharder[QuantEmbeddingBagCollection]):
    """Of pooled tables of few bits."""

    module_type = QuantEmbeddingBagCollection


class QuantEmbeddingCollectionSharder(ModuleSharder[QuantEmbeddingCollection]):
    """Of tables of few bits that give rows."""

    module_type = QuantEmbeddingCollection


class WrappingSharder(ModuleSharder[Module]):
    """Of collections with something before them: `inner` is how the collection itself is divided."""

    def __init__(
        self,
        inner: ModuleSharder[Any] | None = None,
        other: object = None,
        fused_params: Mapping[str, Any] | None = None,
        qcomm_codecs_registry: QCommsConfig | None = None,
    ) -> None:
        del other
        own = fused_params if inner is None or fused_params is not None else inner.fused_params
        comms = qcomm_codecs_registry or (None if inner is None else inner.qcomm_codecs_registry)
        super().__init__(own, comms)


class FeatureProcessedEmbeddingBagCollectionSharder(WrappingSharder):
    """Of pooled collections whose weights processors give."""

    module_type = FeatureProcessedEmbeddingBagCollection


class ManagedCollisionEmbeddingBagCollectionSharder(WrappingSharder):
    """Of pooled collections behind maps of ids."""

    module_type = ManagedCollisionEmbeddingBagCollection


class ManagedCollisionEmbeddingCollectionSharder(WrappingSharder):
    """Of collections of rows behind maps of ids."""

    module_type = ManagedCollisionEmbeddingCollection


def get_default_sharders() -> list[ModuleSharder[Any]]:
    """Return one sharder for each kind of collection."""
    return [
        EmbeddingBagCollectionSharder(),
        FeatureProcessedEmbeddingBagCollectionSharder(),
        EmbeddingCollectionSharder(),
        QuantEmbeddingBagCollectionSharder(),
        QuantEmbeddingCollectionSharder(),
        ManagedCollisionEmbeddingBagCollectionSharder(),
        ManagedCollisionEmbeddingCollectionSharder(),
    ]


def sharder_of(module: Module, sharders: Sequence[ModuleSharder[Any]]) -> ModuleSharder[Any] | None:
    """Return the first sharder for a module."""
    return next((one for one in sharders if isinstance(module, one.module_type)), None)


def get_qcomm_codecs_registry(qcomms_config: QCommsConfig = EXACT, device: object = None) -> QCommsConfig:
    """Return what sharders take for an exchange: the description itself."""
    del device
    return replace(qcomms_config)


@frozen
class ShardingEnv:
    """The ranks that a model is divided among.

    ShardingEnv.from_process_group(dist.group.WORLD)
    """

    world_size: int
    rank: int
    process_group: ProcessGroup | None = None

    @staticmethod
    def from_process_group(pg: Any) -> ShardingEnv:
        """Return the ranks of a group."""
        group = member(pg)
        return ShardingEnv(group.size, group.rank, group)

    @staticmethod
    def from_local(world_size: int, rank: int) -> ShardingEnv:
        """Return a description without a group."""
        return ShardingEnv(world_size, rank)


def get_local_size(world_size: int | None = None) -> int:
    """Return how many ranks this machine has, as the launcher says."""
    del world_size
    return get_node_local_size()


def get_local_rank(world_size: int | None = None, rank: int | None = None) -> int:
    """Return the place of this rank among those of its machine."""
    del world_size
    return get_node_local_rank(get_rank() if rank is None else rank)
