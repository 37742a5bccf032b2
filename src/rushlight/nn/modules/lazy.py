"""Modules whose sizes the first input tells."""

from __future__ import annotations

from typing import Any, ClassVar

from rushlight.eager.boundary import misuse_of
from rushlight.eager.dispatch import call_once
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import UninitializedTensorMixin, become, is_lazy
from rushlight.nn.tree.state import StateDict
from rushlight.support.errors import RushlightError, require

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(Module):
    """Mixed into a module class whose parameters wait for the first input.

    The first call runs `initialize_parameters` on its arguments; then the module is one of `cls_to_become`. Loading a
    state dict tells the shapes as well.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self.register_load_state_dict_pre_hook(_materialize_from)
        self._initialize_hook = self.register_forward_pre_hook(_initialize_from, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes by an input, and their first values."""
        name = type(self).__name__
        require(False, "A006", f"initialize_parameters is not implemented for {name}", given=len(args) + len(kwargs))

    def has_uninitialized_params(self) -> bool:
        """Return whether parameters or buffers of this module wait for an input."""
        return any(is_lazy(one) for one in (*self._parameters.values(), *self._buffers.values()))

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._own_state():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()


def _materialize_from(module: LazyModuleMixin, state_dict: dict[str, object], prefix: str, *_: object) -> None:
    for name, tensor in module._own_state():
        given: Any = state_dict.get(prefix + name)
        if isinstance(tensor, UninitializedTensorMixin) and given is not None and not is_lazy(given):
            tensor.materialize(given.shape)


def _initialize_from(module: LazyModuleMixin, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
    call_once(_initialize, module, *args, **kwargs)


def _initialize(module: LazyModuleMixin, *args: object, **kwargs: Any) -> None:
    try:
        module.initialize_parameters(*args, **kwargs)
    except RushlightError:
        raise
    except Exception as problem:
        report = misuse_of(module.initialize_parameters, args, kwargs, type(module).__name__)
        if report is None:
            raise
        raise report from problem
    name = type(module).__name__
    require(not module.has_uninitialized_params(), "A004", f"module {name} has not been fully initialized")
    module._initialize_hook.remove()
    module._load_hook.remove()
    del module._initialize_hook, module._load_hook
    if module.cls_to_become is not None:
        become(module, module.cls_to_become)
