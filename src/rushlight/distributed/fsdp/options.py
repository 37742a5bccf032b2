"""Options of `FullyShardedDataParallel`, by PyTorch's names."""

from __future__ import annotations

from enum import Enum, auto

from rushlight.ir.dtype import DType
from rushlight.support.frozen import frozen


class ShardingStrategy(Enum):
    """What is divided among ranks: parameters, gradients and the optimizer's state, or nothing."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When a backward pass gathers what comes next. There is one way here: while the part before is computed."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """How `state_dict()` gives parameters: whole, or as this rank's parts."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@frozen
class CPUOffload:
    """Whether parameters are on the CPU between uses. On the CPU they are anyway."""

    offload_params: bool = False


@frozen
class MixedPrecision:
    """Dtypes of gathered parameters, of reduced gradients and of buffers; None leaves a dtype as it is."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = True
    cast_root_forward_inputs: bool = True


@frozen
class StateDictConfig:
    """How a state is given; with `offload_to_cpu` on the CPU."""

    offload_to_cpu: bool = False


@frozen
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; with `rank0_only` the other ranks get an empty state."""

    rank0_only: bool = False


@frozen
class LocalStateDictConfig(StateDictConfig):
    """This rank's parts."""


@frozen
class ShardedStateDictConfig(StateDictConfig):
    """DTensors."""


@frozen
class OptimStateDictConfig:
    """How an optimizer's state is given."""

    offload_to_cpu: bool = True


@frozen
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; with `rank0_only` the other ranks get an empty state."""

    rank0_only: bool = False


@frozen
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """This rank's parts."""

    offload_to_cpu: bool = False


@frozen
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors."""


@frozen
class StateDictSettings:
    """What `state_dict_type` has said of a model."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
