"""Which parts of a model are units of their own: PyTorch's `torch.distributed.fsdp.wrap`.

A policy is asked of each part, `policy(module, recurse=..., nonwrapped_numel=...)`: with `recurse` whether to look at
the parts of it, and else whether it is a unit, with so many elements of parameters that no part of it has taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable
from contextvars import ContextVar
from typing import Any

from rushlight.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

Policy = Callable[..., Any]
_LEAST_ELEMENTS = 100_000_000
_NEVER_WRAPPED = ("ModuleList", "ModuleDict")
_enabled: ContextVar[tuple[Callable[..., Module], dict[str, Any]] | None] = ContextVar("enabled", default=None)


def always_wrap_policy(*args: object, **kwargs: object) -> bool:
    """Make each part a unit."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Make the parts units of which a function is true."""
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Collection[type[Module]]
) -> bool:
    """Make the parts of some classes units."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = _LEAST_ELEMENTS,
    force_leaf_modules: Collection[type[Module]] | None = None,
    exclude_wrap_modules: Collection[type[Module]] | None = None,
) -> bool:
    """Make parts units that have at least so many elements of parameters which their parts have not."""
    leaves = tuple(force_leaf_modules or ())
    excluded = tuple(exclude_wrap_modules or ())
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, leaves)
    return large and type(module).__name__ not in _NEVER_WRAPPED and not isinstance(module, excluded)


class ModuleWrapPolicy:
    """Makes the parts of some classes units."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self.classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: object, **kwargs: object) -> bool:
        """Whether a part is a unit."""
        return recurse or isinstance(module, self.classes)


class CustomPolicy:
    """Makes the parts units of which a function is true, with other options where it returns these."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self.function = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: object, **kwargs: object) -> bool | dict[str, Any]:
        """Whether a part is a unit, or the options of that."""
        return True if recurse else self.function(module)


def units_by(policy: Policy, root: Module) -> list[tuple[Module, dict[str, Any]]]:
    """Return the parts of a model that a policy makes units, parts of parts first, with their options."""
    found: list[tuple[Module, dict[str, Any]]] = []
    taken: set[int] = set()  # parameters of units
    seen: set[int] = set()

    def visit(module: Module) -> None:
        for child in module.children():
            if id(child) in seen:
                continue
            seen.add(id(child))
            if policy(module=child, recurse=True, nonwrapped_numel=_elements(child, taken)):
                visit(child)
            decision = policy(module=child, recurse=False, nonwrapped_numel=_elements(child, taken))
            if decision:
                found.append((child, dict(decision) if isinstance(decision, dict) else {}))
                taken.update(map(id, child.parameters()))

    visit(root)
    return found


def _elements(module: Module, taken: Collection[int]) -> int:
    """How many elements the parameters of a module have that are of no unit yet."""
    return sum([one.numel() for one in module.parameters() if id(one) not in taken])


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Callable[..., Module], **wrapper_kwargs: Any) -> Generator[None]:
    """Within it `wrap(module)` calls a wrapper with these options.

    >>> with enable_wrap(wrapper_cls=FullyShardedDataParallel):
    ...     layer = wrap(nn.Linear(8, 8))
    """
    token = _enabled.set((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.reset(token)


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Wrap a module as `enable_wrap` says; outside of that return it as it is."""
    said = _enabled.get()
    if said is None:
        return module
    wrapper, options = said
    return wrapper(module, **{**options, **wrap_overrides})
