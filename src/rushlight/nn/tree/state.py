"""ModuleState: a module's parameters and buffers as a dict of dotted names, out and in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.autograd.node import RemovableHandle, add_hook
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.tree.registry import NO_HOOKS
from rushlight.nn.tree.walk import ModuleTree
from rushlight.support.errors import fail, require

EXTRA_STATE = "_extra_state"


class StateDict(OrderedDict[str, Any]):
    """Tensors by dotted name; `_metadata` has each module's version."""

    _metadata: OrderedDict[str, dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._metadata = OrderedDict()


class IncompatibleKeys(NamedTuple):
    """The keys that `load_state_dict` did not find, and those that it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class ModuleState(ModuleTree):
    """A module tree that gives and takes a state dict."""

    _version: int = 1

    _state_dict_hooks = _state_dict_pre_hooks = NO_HOOKS
    _load_state_dict_pre_hooks = _load_state_dict_post_hooks = NO_HOOKS

    def state_dict(
        self, *, destination: StateDict | None = None, prefix: str = "", keep_vars: bool = False
    ) -> StateDict:
        """Return parameters and persistent buffers by dotted name.

        They are not copied, and detached unless `keep_vars`.
        """
        entries = StateDict() if destination is None else destination
        metadata = getattr(entries, "_metadata", None)
        local = {"version": self._version}
        if metadata is not None:
            metadata[prefix[:-1]] = local
        for pre_hook in self._state_dict_pre_hooks.values():
            call_user(pre_hook, self, prefix, keep_vars)
        self._save_to_state_dict(entries, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=entries, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = call_user(hook, self, entries, prefix, local)
            if isinstance(hook, _ReplacingHook):
                entries = entries if changed is None else changed
            else:
                require(changed is None, "A004", "state_dict: a hook must change the dict in place, not return any")
        return entries

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        """Put this module's own entries into a state dict, without those of submodules."""
        for name, tensor in self._own_state():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Tensor | None]]:
        volatile = self._non_persistent_buffers_set
        kept = [(name, buffer) for name, buffer in self._buffers.items() if name not in volatile]
        return [*self._parameters.items(), *kept]

    def get_extra_state(self) -> Any:
        """Return further state for the state dict; override it together with set_extra_state."""
        fail("A006", f"{type(self).__name__}: get_extra_state is not written")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that get_extra_state returned."""
        fail("A006", f"{type(self).__name__}: set_extra_state is not written", state=type(state).__name__)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state dict's tensors into the parameters and buffers.

        With `assign` the tensors replace them instead.

        Nothing is copied unless everything fits (P004): no missing or unexpected keys (when `strict`), equal shapes.
        Where there are hooks for after it, keys are asked after these have run.
        """
        require(
            isinstance(state_dict, Mapping), "A001", "load_state_dict: takes a dict", given=type(state_dict).__name__
        )
        given = OrderedDict(state_dict)
        odd = next((key for key in given if not isinstance(key, str)), "")
        require(isinstance(odd, str), "A001", "load_state_dict: keys are texts", key=odd)
        metadata: dict[str, dict[str, object]] = getattr(state_dict, "_metadata", None) or {}
        loading = _Loading(metadata, strict, assign)
        loading.visit(self, given, "")
        name = type(self).__name__
        hooks = [(module, hook) for module in loading.visited for hook in module._load_state_dict_post_hooks.values()]
        # Hooks see what was loaded, and may take keys from the lists: then these are asked after them.
        _require_fits(name, [*(loading.key_problems() if strict and not hooks else ()), *loading.problems])
        with no_grad():
            for accept in loading.accepted:
                accept()
        incompatible = IncompatibleKeys(loading.missing, loading.unexpected)
        for module, hook in hooks:
            changed = call_user(hook, module, incompatible)
            require(changed is None, "A004", "load_state_dict: a hook must change the keys in place, not return any")
        _require_fits(name, loading.key_problems() if strict else [])
        return incompatible

    def _load_from_state_dict(
        self,
        state_dict: dict[str, object],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Compare this module's own entries with a state dict's.

        `local_metadata["accepted"]` collects the functions that load them, for when everything fits.

        Override it to read older versions (`local_metadata.get("version")`): change `state_dict`, then call it.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            rest = strict, missing_keys, unexpected_keys, error_msgs
            call_user(hook, self, state_dict, prefix, local_metadata, *rest)
        own = {name: tensor for name, tensor in self._own_state() if tensor is not None}
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            if all(hasattr(type(one), "cls_to_become") for one in (tensor, state_dict[key])):
                continue  # both have no shape yet
            problem = _misfit(key, tensor, state_dict[key])
            if problem is not None:
                error_msgs.append(problem)
            else:
                accept = _accept(self, name, state_dict[key], bool(local_metadata.get("assign_to_params_buffers")))
                local_metadata["accepted"].append(accept)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            if extra in state_dict:
                local_metadata["accepted"].append(lambda: self.set_extra_state(state_dict[extra]))
            else:
                missing_keys.append(extra)
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                name, _, inner = key.removeprefix(prefix).partition(".")
                if (inner and name not in self._modules) or (not inner and name not in own):
                    unexpected_keys.append(key)

    def register_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module's state dict is made."""
        return add_hook(self._hooks_to_fill("_state_dict_pre_hooks"), hook)

    def register_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after the module's state dict is made."""
        return add_hook(self._hooks_to_fill("_state_dict_hooks"), hook)

    def _register_state_dict_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """As `register_state_dict_post_hook`; the hook may return another dict, which counts for the root."""
        return add_hook(self._hooks_to_fill("_state_dict_hooks"), _ReplacingHook(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., object], with_module: bool = False
    ) -> RemovableHandle:
        """As `register_load_state_dict_pre_hook`; the hook gets the module only if it wants it."""
        return self.register_load_state_dict_pre_hook(hook if with_module else _HookWithoutModule(hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(module, *args)` before the module loads its own entries.

        `args` are the arguments of `_load_from_state_dict`.
        """
        return add_hook(self._hooks_to_fill("_load_state_dict_pre_hooks"), hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return add_hook(self._hooks_to_fill("_load_state_dict_post_hooks"), hook)


class _HookWithoutModule:
    """A hook that is called without the module. A class, so that modules with it can be copied and pickled."""

    def __init__(self, hook: Callable[..., object]) -> None:
        self.hook = hook

    def __call__(self, module: ModuleState, *args: object) -> object:
        return call_user(self.hook, *args)


class _ReplacingHook:
    """A hook that may return another dict."""

    def __init__(self, hook: Callable[..., object]) -> None:
        self.hook = hook

    def __call__(self, *args: object) -> Any:
        return call_user(self.hook, *args)


def _require_fits(name: str, problems: list[str]) -> None:
    if problems:
        fail("P004", f"Error(s) in loading state_dict for {name}:\n\t" + "\n\t".join(problems))


class _Loading:
    """One call of load_state_dict: it visits all modules and collects problems and assignments."""

    def __init__(self, metadata: Mapping[str, Mapping[str, object]], strict: bool, assign: bool) -> None:
        self.metadata = metadata
        self.strict = strict
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.problems: list[str] = []
        self.accepted: list[Callable[[], None]] = []
        self.visited: list[ModuleState] = []

    def visit(self, module: ModuleState, given: dict[str, object], prefix: str) -> None:
        local = dict(self.metadata.get(prefix[:-1], {}))
        local.update(accepted=self.accepted, assign_to_params_buffers=self.assign)
        module._load_from_state_dict(given, prefix, local, self.strict, self.missing, self.unexpected, self.problems)
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.visit(child, {key: value for key, value in given.items() if key.startswith(inner)}, inner)
        self.visited.append(module)

    def key_problems(self) -> list[str]:
        """Return the missing and the unexpected keys, in PyTorch's words."""
        lists = (("Unexpected", self.unexpected), ("Missing", self.missing))
        return [
            f"{kind} key(s) in state_dict: {', '.join([f'{chr(34)}{key}{chr(34)}' for key in keys])}."
            for kind, keys in lists
            if keys
        ]


def _misfit(key: str, tensor: Tensor, given: object) -> str | None:
    if not isinstance(given, Tensor):
        return f'While copying the parameter named "{key}", expected a Tensor but received {type(given).__name__}'
    if tuple(tensor.shape) == tuple(given.shape):
        return None
    return (
        f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
        f"the shape in current model is {tensor.shape}."
    )


def _accept(module: ModuleState, name: str, given: object, assign: bool) -> Callable[[], None]:
    def copy() -> None:
        getattr(module, name).copy_(given)

    def take() -> None:
        mine = getattr(module, name)
        if not isinstance(mine, Parameter) or isinstance(given, Parameter):
            setattr(module, name, given)
        else:
            setattr(module, name, Parameter(given, requires_grad=mine.requires_grad))

    return take if assign else copy
