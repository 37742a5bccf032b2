"""A model whose embedding tables are divided among ranks, and whose dense part each rank has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rushlight.distributed import ProcessGroup, new_group
from rushlight.distributed.group import Group, member
from rushlight.nn import Module, Parameter
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.nn.tree.state import IncompatibleKeys, StateDict
from rushlight.recsys.distributed.collisions import ShardedManagedCollisionCollection
from rushlight.recsys.distributed.embedding import ShardedEmbeddingCollection
from rushlight.recsys.distributed.embedding_bag import ShardedEmbeddingBagCollection
from rushlight.recsys.distributed.local import Groups
from rushlight.recsys.distributed.plans import EmbeddingModuleShardingPlan, ShardingPlan, tables_of
from rushlight.recsys.distributed.precision import EXACT, QCommsConfig
from rushlight.recsys.distributed.quant import (
    ShardedQuantEmbeddingBagCollection,
    ShardedQuantEmbeddingCollection,
)
from rushlight.recsys.distributed.sharded import ShardedTables
from rushlight.recsys.distributed.sharders import ModuleSharder, ShardingEnv, get_default_sharders, sharder_of
from rushlight.recsys.distributed.state import load_shards
from rushlight.recsys.modules import (
    EmbeddingBagCollection,
    EmbeddingCollection,
    FeatureProcessedEmbeddingBagCollection,
    ManagedCollisionCollection,
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from rushlight.recsys.optim import KeyedOptimizer, RowRule
from rushlight.recsys.planner import EmbeddingShardingPlanner, ParameterConstraints, Plan, ShardingType, Topology
from rushlight.recsys.planner.enumerators import collections_of
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection, QuantTables
from rushlight.support.errors import fail, require

Sharded = ShardedTables[Any]
Make = Callable[[Any, EmbeddingModuleShardingPlan, ProcessGroup, Groups, QCommsConfig, RowRule | None], Sharded]


def _exact(
    kind: Callable[[Any, EmbeddingModuleShardingPlan, ProcessGroup], Sharded],
) -> Make:
    """How a collection is divided whose rows are sent as they are in memory."""
    return lambda module, plan, group, groups, qcomms, rule: kind(module, plan, group)


_WRAPPED = (
    FeatureProcessedEmbeddingBagCollection,
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
_MAKERS: dict[type[Module], Make] = {
    EmbeddingBagCollection: ShardedEmbeddingBagCollection,
    EmbeddingCollection: ShardedEmbeddingCollection,
    QuantEmbeddingBagCollection: _exact(ShardedQuantEmbeddingBagCollection),
    QuantEmbeddingCollection: _exact(ShardedQuantEmbeddingCollection),
}


class DistributedModelParallel(Module):
    """A model whose collections of tables are divided as a plan says, and the rest of it data-parallel.

    Ranks give it their own batches. Fused tables step in the backward pass, as if the loss were the mean of those of
    all ranks; the gradients of other parameters are such means. Without a plan the planner makes one. State dicts have
    the keys of the model as it was, with a ShardedTensor for each table that is divided. `qcomms` says in what numbers
    rows, and their gradients, are sent. With `sharders` only collections of their kinds are divided, and those with
    `fused_params` step as these say. Collections may be on the device `meta`: then no rank has all of a table at any
    time. Errors: E024 for a plan of other tables or ranks.

    model = DistributedModelParallel(model, plan=plan)
    optimizer = rl.optim.Adam([one for _, one in model.named_parameters() if one.requires_grad])
    """

    def __init__(
        self,
        module: Module,
        env: Group | ShardingEnv = None,
        device: Any = None,
        plan: Plan | ShardingPlan | None = None,
        sharders: Sequence[ModuleSharder[Any]] | None = None,
        init_data_parallel: bool = True,
        init_parameters: bool = True,
        *,
        qcomms: QCommsConfig = EXACT,
    ) -> None:
        super().__init__()
        del device, init_parameters  # tables are where this process computes, and have their rows
        self._group = member(env.process_group if isinstance(env, ShardingEnv) else env)
        self._qcomms, self._sharders = qcomms, get_default_sharders() if sharders is None else list(sharders)
        self._made: dict[tuple[int, ...], ProcessGroup] = {tuple(range(self._group.size)): self._group}
        if plan is None:
            topology = Topology(self._group.size, "cpu")
            planner = EmbeddingShardingPlanner(topology, constraints=_by_rows(module))
            plan = planner.collective_plan(module, self._sharders)
        self._plan = self._checked(plan, module)
        self._sharded: dict[str, Sharded] = {}
        self._data_parallel = self._divided(module, "")
        if init_data_parallel:
            self.init_data_parallel()
        self._fused_optimizer = FusedOptimizer(self._sharded)

    def init_data_parallel(self) -> None:
        """Make the dense part data-parallel, unless it is."""
        if not isinstance(self._data_parallel, DistributedDataParallel):
            self._data_parallel = self._wrapped(self._data_parallel)

    def _checked(self, plan: Plan | ShardingPlan, module: Module) -> ShardingPlan:
        if isinstance(plan, Plan):
            size = plan.topology.world_size
            message = f"the plan is for {size} ranks, and there are {self._group.size}"
            require(size == self._group.size, "E024", message)
            plan.check(collections_of(module, [one.module_type for one in self._sharders]))
            plan = ShardingPlan.of(plan)
        own = {path: one for path, one in _collections(module, "") if sharder_of(one, self._sharders) is not None}
        plan.check({path: tables_of(one) for path, one in own.items()})
        return plan

    def _divided(self, module: Module, path: str, wrapped: tuple[str, ModuleSharder[Any]] | None = None) -> Module:
        """The module with its collections divided; `wrapped`: path and sharder of what it is part of."""
        make = next((make for kind, make in _MAKERS.items() if isinstance(module, kind)), None)
        named, sharder = wrapped or (path, sharder_of(module, self._sharders))
        if make is not None and sharder is not None:
            own = self._plan.get_plan_for_module(named)
            assert own is not None
            qcomms = sharder.qcomms(self._qcomms)
            made = make(module, own, self._group, self._group_of, qcomms, sharder.rule())
            self._sharded[path] = made
            return made
        if isinstance(module, ManagedCollisionCollection):
            return ShardedManagedCollisionCollection(module, self._group)
        if isinstance(module, _WRAPPED) and sharder is None:
            return module
        inner = module.inner if isinstance(module, _WRAPPED) else None
        for name, child in list(module.named_children()):
            own_sharder = (path, sharder) if name == inner and sharder is not None else None
            changed = self._divided(child, f"{path}.{name}" if path else name, own_sharder)
            if changed is not child:
                setattr(module, name, changed)
        return module

    def _group_of(self, places: Sequence[int]) -> ProcessGroup:
        """The group of some ranks of this one's; all of these ask for it."""
        ranks = tuple(places)
        if ranks not in self._made:
            made = new_group([self._group.ranks[place] for place in ranks])
            self._made[ranks] = made if isinstance(made, ProcessGroup) else self._group
        return self._made[ranks]

    def _wrapped(self, module: Module) -> Module:
        """The module with its dense part data-parallel."""
        kept: set[str] = set()
        for path, sharded in self._sharded.items():
            prefix = f"{path}." if path else ""
            reduced = sharded.replicated_parameters()
            kept |= {prefix + name for name, _ in sharded.named_parameters() if name not in reduced}
        wanted = [name for name, one in module.named_parameters() if one.requires_grad and name not in kept]
        if not wanted or self._group.size == 1:
            return module
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, sorted(kept))
        return DistributedDataParallel(module, process_group=self._group)

    @property
    def module(self) -> Module:
        """The model, with its collections divided."""
        inner = self._data_parallel
        return inner.module if isinstance(inner, DistributedDataParallel) else inner

    @property
    def plan(self) -> ShardingPlan:
        """The plan that it follows."""
        return self._plan

    @property
    def fused_optimizer(self) -> FusedOptimizer:
        """The optimizers of fused tables: their states and learning rates."""
        return self._fused_optimizer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self._data_parallel(*args, **kwargs)

    # Names and states are those of the model.

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over the parameters that this rank has, by their names in the model."""
        return self.module.named_parameters(prefix, recurse, remove_duplicate)

    def state_dict(
        self, *, destination: StateDict | None = None, prefix: str = "", keep_vars: bool = False
    ) -> StateDict:
        """Return the state of the model."""
        return self.module.state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take a state of the model over: tables whole, or in the shards of its plan."""
        return self.module.load_state_dict(state_dict, strict, assign)


def get_unwrapped_module(module: Module) -> Module:
    """Return the model inside of what divides it."""
    while isinstance(module, DistributedModelParallel | DistributedDataParallel):
        module = module.module
    return module


def _collections(module: Module, path: str) -> Iterator[tuple[str, Module]]:
    """The collections of a model by path; of one with something before it, that of the whole."""
    if isinstance(module, (*_MAKERS, *_WRAPPED)):
        yield path, module
        return
    for name, child in module.named_children():
        yield from _collections(child, f"{path}.{name}" if path else name)


def _by_rows(module: Module) -> dict[str, ParameterConstraints]:
    """What a plan has to keep to: tables of few bits are not divided by columns."""
    small = [one for _, one in _collections(module, "") if isinstance(one, QuantTables)]
    names = [table.name for one in small for table in one.configs()]
    ways = (ShardingType.TABLE_WISE, ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL)
    return dict.fromkeys(names, ParameterConstraints(sharding_types=ways))


class FusedOptimizer(KeyedOptimizer):
    """The optimizers of a model's fused tables, by the names of their parameters.

    checkpoint.save({"model": model, "tables": model.fused_optimizer}, folder)

    Rows are updated in the backward pass: `step` and `zero_grad` set the learning rate that groups have for the next.
    """

    def __init__(self, collections: Mapping[str, Sharded]) -> None:
        self._collections = collections
        fused = {path: one for path, one in collections.items() if one.rule is not None}
        params = {
            f"{path}.{name}" if path else name: parameter
            for path, one in fused.items()
            for name, parameter in one.named_parameters()
            if name not in one.replicated_parameters()
        }
        self._fused: list[tuple[Sharded, dict[str, Any]]] = [
            (one, {"params": [], **asdict(one.rule)}) for one in fused.values() if one.rule is not None
        ]
        super().__init__(params, {}, [group for _, group in self._fused])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the learning rate: tables have no gradients."""
        del set_to_none
        self._set_rates()

    def step(self, closure: Any = None) -> None:
        """Set the learning rate: rows are up to date."""
        del closure
        self._set_rates()

    def _set_rates(self) -> None:
        for collection, group in self._fused:
            for tables in collection.table_groups():
                if tables.rule.lr != group["lr"]:
                    tables.rule = replace(tables.rule, lr=float(group["lr"]))

    def state_dict(self) -> dict[str, object]:
        """Return `{"state": {"<path>.embedding_bags.<table>.weight": {"<table>.<state>": tensor}}}`."""
        states: dict[str, dict[str, object]] = {}
        for path, collection in self._collections.items():
            for key, state in collection.fused_optimizer_state().items():
                module, table, own, name = key.split(".", 3)
                full = ".".join([*([path] if path else []), module, table, "weight"])
                states.setdefault(full, {})[f"{own}.{name}"] = state
        return {"state": states}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take states over, whole or in the same shards. P004 where they do not fit."""
        own: Any = self.state_dict()["state"]
        given = state_dict["state"]
        copies: list[Any] = []
        for parameter, states in own.items():
            for name, target in states.items():
                found = given.get(parameter, {}).get(name)
                require(found is not None, "P004", f"fused optimizer: there is no {name} of {parameter}")
                copy, problem = load_shards(f"{parameter} {name}", target, found)
                if problem:
                    fail("P004", f"fused optimizer: {problem}")
                copies.append(copy)
        for copy in copies:
            copy()
