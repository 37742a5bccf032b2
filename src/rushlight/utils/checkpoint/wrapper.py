"""Parts of a model whose intermediate results are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from rushlight.distributed.fsdp.wrap import Policy, lambda_auto_wrap_policy, units_by
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require
from rushlight.utils.checkpoint import checkpoint

__all__ = ["CheckpointImpl", "CheckpointWrapper", "apply_activation_checkpointing", "checkpoint_wrapper"]


class CheckpointImpl(Enum):
    """How calls are recorded: as one step of the tape, or as usual."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class CheckpointWrapper:
    """What `checkpoint_wrapper` adds to a module's class: the names of its parameters stay."""

    __slots__ = ()  # so that a module's class can become one with this base


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Let calls of a module keep its arguments alone, and return it.

    `utils.checkpoint.checkpoint` has the options.

    >>> model.block = checkpoint_wrapper(model.block, preserve_rng_state=False)
    """
    offload = checkpoint_fn_kwargs.pop("offload_to_cpu", False)
    require(not offload, "A006", "checkpoint_wrapper: what is kept stays on its device")
    require(not isinstance(module, CheckpointWrapper), "A002", "checkpoint_wrapper: the module is wrapped already")
    if checkpoint_fn is None:
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        checkpoint_fn = partial(checkpoint, use_reentrant=reentrant)
    called = partial(checkpoint_fn, **checkpoint_fn_kwargs)
    cls = type(module)

    def forward(self: Module, *args: Any, **kwargs: Any) -> Any:
        return called(partial(cls.forward, self), *args, **kwargs)

    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "forward": forward}
    module.__class__ = type(cls.__name__, (cls, CheckpointWrapper), names)
    return module


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Policy | None = None,
) -> None:
    """Wrap the parts of a model of which `check_fn` is true, or that a policy names.

    >>> apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
    """
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    for part, _ in units_by(policy, model):
        wrapped = checkpoint_wrapper_fn(part)
        if wrapped is not part:
            _replace(model, part, wrapped)


def _replace(model: Module, part: Module, other: Module) -> None:
    for owner in model.modules():
        for name, child in list(owner._modules.items()):
            if child is part and owner is not other:
                owner._modules[name] = other
