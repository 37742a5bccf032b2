"""`FullyShardedDataParallel`: PyTorch's first form of FSDP, as a module around `fully_shard`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, ClassVar, cast

import numpy as np

from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.fsdp.api import FSDPModule, fully_shard, units_of
from rushlight.distributed.fsdp.options import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.policy import CPUOffloadPolicy, MixedPrecisionPolicy
from rushlight.distributed.fsdp.wrap import Policy, units_by
from rushlight.distributed.group import ProcessGroup, get_node_local_size, get_rank, get_world_size
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import Kind
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.distributed import take_from
from rushlight.nn.utils.clip_grad import clip_grad_norm_
from rushlight.optim.optimizer import Optimizer
from rushlight.support.errors import require

_KEPT = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_FULL = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(False))


class FullyShardedDataParallel(Module):
    """A model whose parameters are divided among ranks, and whole only while they are used.

    The parts that `auto_wrap_policy` names are gathered each by itself, the rest with the model. They stay of their
    own class: `fully_shard` is applied to them, and parameters are DTensors under their own names. `sharding_strategy`
    says what is divided. States are those of the plain model, whole unless `state_dict_type` says otherwise.
    Errors: A006 for what is not supported; those of `fully_shard`.

    >>> model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}))
    """

    wraps_model: ClassVar[bool] = True
    _settings: StateDictSettings = _FULL

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Policy | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: object = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Parameter] | Iterable[Module] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        _materialise(module, param_init_fn)
        mesh = _mesh_of(strategy, process_group, device_mesh)
        ignored = _ignored(ignored_modules, ignored_states)
        if sync_module_states:
            for group in reversed(mesh.get_all_groups()):
                take_from([one.detach() for one in (*module.parameters(), *module.buffers())], group)
        options: dict[str, Any] = {
            "mesh": mesh,
            "reshard_after_forward": strategy not in _KEPT,
            "offload_policy": CPUOffloadPolicy() if cpu_offload is not None and cpu_offload.offload_params else None,
            "ignored_params": ignored,
        }
        for part, own in [] if auto_wrap_policy is None else units_by(auto_wrap_policy, module):
            if not isinstance(part, (FSDPModule, FullyShardedDataParallel)):
                precision = own.get("mixed_precision", mixed_precision)
                fully_shard(part, mp_policy=_policy(precision, False), **options)
        fully_shard(module, mp_policy=_policy(mixed_precision, True), **options)
        _convert_buffers(module, mixed_precision)
        self._fsdp_wrapped_module = module
        self.register_load_state_dict_pre_hook(_name_inner)

    @property
    def module(self) -> Module:
        """The model."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return cast(Any, self.module)[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
        """This module and those of the model, by the names that they have in the model."""
        seen: set[Any] = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        yield from self.module.named_modules(seen, prefix, remove_duplicate)

    @contextlib.contextmanager
    def no_sync(self) -> Generator[None]:
        """Within it gradients are added up on each rank alone, whole."""
        units = units_of(self)
        before = [unit.synchronises for unit in units]
        for unit in units:
            unit.synchronises = False
        try:
            yield
        finally:
            for unit, synchronises in zip(units, before, strict=True):
                unit.synchronises = synchronises

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients of all ranks so that their norm is at most `max_norm`; return the norm before."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    # States.

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The model's state, as `state_dict_type` says."""
        config = self._settings.state_dict_config
        options = _options(self._settings.state_dict_type, config)
        found = _for_ranks(get_model_state_dict(self.module, options=options), config)
        entries: dict[str, Any] = {} if destination is None else destination
        entries.update({prefix + name: value for name, value in found.items()})
        return entries

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take a state over, of whole tensors or of DTensors."""
        require(not assign, "A006", "FullyShardedDataParallel: load_state_dict does not assign")
        with self.state_dict_type(self, StateDictType.SHARDED_STATE_DICT):  # parts tell how they are divided
            return set_model_state_dict(self.module, state_dict, options=StateDictOptions(strict=strict))

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say how the states of the models in a module are given; return what was said before."""
        found = _wrappers(module)
        require(found, "A002", "state_dict_type: the module holds no FullyShardedDataParallel", module=type(module))
        whole = state_dict_type is StateDictType.FULL_STATE_DICT
        config = state_dict_config or (FullStateDictConfig() if whole else ShardedStateDictConfig())
        default = FullOptimStateDictConfig(False) if whole else ShardedOptimStateDictConfig(False)
        before = found[0]._settings
        for one in found:
            one._settings = StateDictSettings(state_dict_type, config, optim_state_dict_config or default)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What `state_dict_type` has said of a module."""
        found = _wrappers(module)
        return found[0]._settings if found else _FULL

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Generator[None]:
        """Within it states are given so.

        >>> with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        ...     checkpoint.save(model.state_dict(), "run")
        """
        cls = FullyShardedDataParallel
        before = cls.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            kept = before.state_dict_config, before.optim_state_dict_config
            cls.set_state_dict_type(module, before.state_dict_type, *kept)

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Optimizer, optim_state_dict: object = None, group: ProcessGroup | None = None
    ) -> dict[str, Any]:
        """The state of an optimizer by the names of parameters, as `state_dict_type` says."""
        require(optim_state_dict is None, "A006", "optim_state_dict: another state than the optimizer's own")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        return _optimizer_state(model, optim, settings.state_dict_type, settings.optim_state_dict_config)

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Optimizer, optim_input: object = None, rank0_only: bool = True, group: object = None
    ) -> dict[str, Any]:
        """The whole state of an optimizer by the names of parameters, on the first rank or on all."""
        config = FullOptimStateDictConfig(True, rank0_only)
        return _optimizer_state(model, optim, StateDictType.FULL_STATE_DICT, config)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Optimizer,
        optim_state_dict: Mapping[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """What `optim.load_state_dict` takes, for a state by the names of parameters."""
        set_optimizer_state_dict(model, optim, optim_state_dict)
        return optim.state_dict()

    # Parts.

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The models in a module, and the parts of these that are gathered by themselves."""
        found = [one for one in module.modules() if isinstance(one, (FullyShardedDataParallel, FSDPModule))]
        return found[:1] if root_only else found

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Generator[None]:
        """Within it parameters are whole. With `writeback` what is written to them is kept, of each rank its part.

        Errors: A006 with gradients, or where parameters are gathered in a dtype that is not their own.
        """
        require(not with_grads, "A006", "summon_full_params: gradients are not made whole")
        units = units_of(module) if recurse else units_of(module)[:1]
        exact = all(unit.dtype == one.dtype for unit in units for one in unit.sharded)
        require(exact, "A006", "summon_full_params: parameters are gathered in another dtype than their own")
        for unit in units:
            unit.unshard()
        try:
            yield
            for unit in units if writeback else []:
                unit.write_back()
        finally:
            for unit in units:
                unit.reshard()

    def apply(self, fn: Callable[[Any], object]) -> FullyShardedDataParallel:
        """Call a function with all parts, with whole parameters that it may write to."""
        with FullyShardedDataParallel.summon_full_params(self), no_grad():
            super().apply(fn)
        return self


def _name_inner(module: Module, state: dict[str, Any], prefix: str, *args: object) -> None:
    """Let a state's names, which are those of the model, lead to the module that holds it."""
    inside = f"{prefix}_fsdp_wrapped_module."
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(inside)]:
        state[inside + name[len(prefix) :]] = state.pop(name)


def _wrappers(module: Module) -> list[FullyShardedDataParallel]:
    return [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]


def _options(kind: StateDictType, config: StateDictConfig | OptimStateDictConfig) -> StateDictOptions:
    whole = kind is StateDictType.FULL_STATE_DICT
    message = "state_dict_type: flattened parameters of one rank do not exist; take SHARDED_STATE_DICT"
    require(kind is not StateDictType.LOCAL_STATE_DICT, "A006", message)
    return StateDictOptions(full_state_dict=whole, cpu_offload=whole and config.offload_to_cpu)


def _optimizer_state(
    model: Module, optim: Optimizer, kind: StateDictType, config: OptimStateDictConfig
) -> dict[str, Any]:
    """The state of an optimizer by the names of parameters, as a configuration says."""
    return _for_ranks(get_optimizer_state_dict(model, optim, options=_options(kind, config)), config)


def _for_ranks(state: dict[str, Any], config: object) -> dict[str, Any]:
    """A state, which is the first rank's alone if the configuration says so."""
    return {} if getattr(config, "rank0_only", False) and get_rank() != 0 else state


def _mesh_of(strategy: ShardingStrategy, group: ProcessGroup | None, mesh: DeviceMesh | None) -> DeviceMesh:
    """The ranks that parameters are divided among: along the last axis, and the same along another one."""
    if mesh is not None:
        wanted = 2 if strategy in _HYBRID else 1
        require(mesh.ndim == wanted, "A002", f"FullyShardedDataParallel: a mesh of {wanted} axes", strategy=strategy)
        return mesh
    if group is not None:
        require(strategy not in _HYBRID, "A006", "FullyShardedDataParallel: hybrid sharding takes a device_mesh")
        ranks = np.array(group.ranks)
        return DeviceMesh("cpu", ranks.reshape(-1, 1) if strategy is ShardingStrategy.NO_SHARD else ranks)
    world = get_world_size()
    if strategy is ShardingStrategy.NO_SHARD:
        return init_device_mesh("cpu", (world, 1))
    if strategy in _HYBRID:
        local = get_node_local_size()
        require(world % local == 0, "A002", "FullyShardedDataParallel: machines have different numbers of ranks")
        return init_device_mesh("cpu", (world // local, local))
    return init_device_mesh("cpu", (world,))


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> list[Parameter]:
    found: list[Parameter] = []
    for one in [*(modules or ()), *(states or ())]:
        found += one.parameters() if isinstance(one, Module) else [one]
    return found


def _policy(precision: MixedPrecision | None, is_root: bool) -> MixedPrecisionPolicy:
    if precision is None:
        return MixedPrecisionPolicy()
    casts = precision.cast_root_forward_inputs if is_root else precision.cast_forward_inputs
    return MixedPrecisionPolicy(precision.param_dtype, precision.reduce_dtype, None, casts)


def _convert_buffers(module: Module, precision: MixedPrecision | None) -> None:
    if precision is None or precision.buffer_dtype is None:
        return
    for part in module.modules():
        for name, one in part._buffers.items():
            if one is not None and one.dtype.kind is Kind.FLOAT:
                part._buffers[name] = one.to(precision.buffer_dtype)


def _materialise(module: Module, initialise: Callable[[Module], None] | None) -> None:
    """Give parts without data memory and values."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if not any(one.is_meta for one in own):
            continue
        if initialise is not None:
            initialise(part)
        else:
            reset: Any = getattr(part, "reset_parameters", None)
            message = f"FullyShardedDataParallel: {type(part).__name__} on meta has no reset_parameters()"
            require(callable(reset), "A002", message, hint="give param_init_fn")
            part.to_empty(device="cpu", recurse=False)
            reset()
