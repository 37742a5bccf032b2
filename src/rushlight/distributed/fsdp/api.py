"""`fully_shard`: a module whose parameters are divided among ranks, and whole only while they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from rushlight.capture.steering import disable
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.fsdp.policy import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from rushlight.distributed.fsdp.unit import Place, Unit, unpack
from rushlight.distributed.group import get_world_size
from rushlight.eager.autograd.saved import saved_tensors_hooks
from rushlight.eager.pytree import flatten_tree, map_tree
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import Kind
from rushlight.ir.type import CPU
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require


class UnshardHandle:
    """Parameters on their way."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Let the module have its whole parameters."""
        self._unit.unshard()


class FSDPModule:
    """What `fully_shard` adds to a module's class."""

    __slots__ = ()  # so that a module's class can become one with these methods
    _fsdp_unit: Unit
    _fsdp_hooks: list[Any]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's parameters; with `async_op` only begin to, and return what waits for them."""
        if async_op:
            self._fsdp_unit.start()
            return UnshardHandle(self._fsdp_unit)
        self._fsdp_unit.unshard()
        return None

    def reshard(self) -> None:
        """Free the whole parameters."""
        self._fsdp_unit.reshard()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Say whether backward passes reduce gradients; else they are added up, whole, on each rank."""
        for unit in units_of(cast(Module, self), recurse):
            unit.synchronises = requires_gradient_sync

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Say what is gathered when a forward comes to this module, in place of what was next last time."""
        self._fsdp_unit.ahead_forward = [one._fsdp_unit for one in modules]

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Say what is gathered when a backward pass comes to this module, not what was used before it."""
        self._fsdp_unit.ahead_backward = [one._fsdp_unit for one in modules]

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether parameters are freed after a forward, and gathered again for the backward pass."""
        for unit in units_of(cast(Module, self), recurse):
            unit.reshards_after_forward = reshard_after_forward


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[Parameter] = (),
    **options: object,
) -> Module:
    """Divide a module's parameters among the ranks of a mesh, along dim 0, and return the module.

    They become DTensors, also for optimizers and checkpoints. A call of the module gathers those that are not of a
    part to which `fully_shard` was applied before; so apply it to the parts of a model first, then to the model.
    Backward passes give each rank its part of the mean of the gradients. A mesh of two axes replicates along the first
    and shards along the second. Parameters that are divided already, as by `parallelize_module`, are divided along the
    axes of both meshes, which are rows of one. Without `reshard_after_forward` parameters stay whole between forward
    and backward.
    Errors: A002 for a module that is sharded already, parameters without dims, or meshes that are not rows of one.

    >>> for block in model.blocks:
    ...     fully_shard(block)
    >>> fully_shard(model)
    """
    require(not options, "A006", "fully_shard: options that are not supported", options=sorted(options))
    require(not isinstance(module, FSDPModule), "A002", "fully_shard: the module is sharded already")
    if isinstance(offload_policy, CPUOffloadPolicy):
        elsewhere = [name for name, one in module.named_parameters() if one.device != CPU]
        require(not elsewhere, "A006", "fully_shard: parameters of other devices stay there", parameters=elsewhere[:3])
    mesh = init_device_mesh("cpu", (get_world_size(),)) if mesh is None else mesh
    ignored = {id(one) for one in ignored_params}
    found = [(one, place) for one, place in _own_parameters(module) if id(one) not in ignored]
    unit = Unit(found, mesh, mp_policy or MixedPrecisionPolicy())
    unit.reshards_after_forward = True if reshard_after_forward is None else reshard_after_forward
    cls = type(module)
    module.__class__ = type(f"FSDP{cls.__name__}", (cls, FSDPModule), _overrides(cls))
    module._fsdp_unit = unit
    for one in units_of(module, True):
        one.order, one.root = unit.order, unit
    module._fsdp_hooks = []
    # A compiled function ends its graph there: gathering is a matter of each call.
    module.register_forward_pre_hook(disable(_before), prepend=True, with_kwargs=True)
    module.register_forward_hook(disable(_after), always_call=True)
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let another method than `forward` gather a module's parameters too, as `generate` or `encode`.

    A module that is not sharded stays as it is.
    """
    if not isinstance(module, FSDPModule):
        return
    method: Any = getattr(module, method_name)

    def called(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = cast(Any, _before(module, args, kwargs))
        outputs: Any = None
        try:
            outputs = method(*args, **kwargs)
        finally:
            outputs = _after(module, args, outputs)
        return outputs

    setattr(module, method_name, disable(called))


def _overrides(cls: type[Module]) -> dict[str, object]:
    """What a class does otherwise once its parameters are divided. Bases in the other order have another layout."""

    def _apply(module: Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        for unit in units_of(module, False):
            unit.reshard()  # what is converted are the parts
        return cls._apply(module, fn, recurse)

    return {"__module__": cls.__module__, "_apply": _apply}


def _own_parameters(module: Module) -> list[tuple[Parameter, Place]]:
    """The parameters that no part has sharded yet, each once with all of its places."""
    places: dict[int, tuple[Parameter, list[Module], list[str]]] = {}
    sharded = {id(one) for unit in units_of(module, True) for one in (*unit.sharded, *unit.whole)}
    for part in module.modules():
        for name, one in part._parameters.items():
            if one is not None and id(one) not in sharded:
                require(one.ndim > 0, "A002", "fully_shard: a parameter without dims cannot be divided", name=name)
                entry = places.setdefault(id(one), (one, [], []))
                entry[1].append(part)
                entry[2].append(name)
    return [(one, Place(tuple(modules), tuple(names))) for one, modules, names in places.values()]


def units_of(module: Module, recurse: bool = True) -> list[Unit]:
    """Return the units of a module and of its parts; without `recurse` that of the module alone."""
    parts = module.modules() if recurse else [module]
    return [part._fsdp_unit for part in parts if isinstance(part, FSDPModule)]


def _before(module: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, object]:
    unit: Unit = module._fsdp_unit
    unit.unshard()
    unit.order.used(unit, unit is unit.root)
    noting = saved_tensors_hooks(unit.pack, unpack)
    noting.__enter__()
    module._fsdp_hooks.append(noting)
    dtype = unit.policy.param_dtype
    if dtype is None or not unit.policy.cast_forward_inputs:
        return args, kwargs
    return _converted(args, dtype), _converted(kwargs, dtype)


def _after(module: Any, args: object, outputs: object) -> object:
    unit: Unit = module._fsdp_unit
    if not module._fsdp_hooks:  # parameters could not be gathered
        return outputs
    module._fsdp_hooks.pop().__exit__(None, None, None)
    if unit.reshards_after_forward or not _records(outputs):
        unit.reshard()
    dtype = unit.policy.output_dtype
    return outputs if dtype is None else _converted(outputs, dtype)


def _records(outputs: object) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in flatten_tree(outputs)[0])


def _converted(value: object, dtype: Any) -> Any:
    def converted(leaf: object) -> object:
        return leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.dtype.kind is Kind.FLOAT else leaf

    return map_tree(converted, value)
