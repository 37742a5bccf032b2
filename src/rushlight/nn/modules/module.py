"""Module: the base class of layers and models, with its call and its hooks."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rushlight.eager.autograd.node import RemovableHandle
from rushlight.eager.boundary import misuse_of
from rushlight.eager.dispatch import STATE, call_user, is_called_in_trace
from rushlight.nn.tree.backward_hooks import BackwardHooks
from rushlight.nn.tree.conversion import ModuleConversion
from rushlight.nn.tree.registry import NO_HOOKS
from rushlight.support.errors import RushlightError, fail, warn

__all__ = ["Module"]


class Hook(NamedTuple):
    """A forward hook: whether it takes keyword arguments, and whether it runs when the forward raises."""

    function: Callable[..., object]
    with_kwargs: bool = False
    always_call: bool = False


class Module(ModuleConversion):
    """Base of layers and models: define `__init__`, which calls `super().__init__()`, and `forward`.

    Parameters and modules that are assigned to attributes are found by `parameters()`, `state_dict()`, `to()` and so
    on.
    """

    _hooked = False  # set with the first hook, and by `compile`: one look at each call instead of five
    _compiled_call: Callable[..., object] | None = None
    __rushlight_state__ = "static"  # numbers among the attributes are part of a compiled program
    __rushlight_saved__ = "attributes"  # `load` restores an object by its attributes, without a call

    _forward_hooks = _forward_pre_hooks = _backward_hooks = _backward_pre_hooks = NO_HOOKS

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass defines it."""
        fail("A006", f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks and forward."""
        if STATE.interpreter is not None and is_called_in_trace():
            return call_user(self, *args, **kwargs)
        try:
            if self._hooked:
                return (self._compiled_call or self._call_uncompiled)(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except RushlightError:
            raise
        except Exception as problem:
            report = misuse_of(self.forward, args, kwargs, type(self).__name__)
            if report is None:
                raise
            raise report from problem

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module in place, its hooks included; arguments are those of `rl.compile`.

        Copies of the module, and what is saved of it, are not compiled.
        """
        from rushlight.capture import compile as compile_function  # noqa: PLC0415 - a declared door

        self._compiled_call = compile_function(self._call_uncompiled, *args, **kwargs)
        self._hooked = True

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_compiled_call"}

    def _call_uncompiled(self, *args: object, **kwargs: object) -> object:
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            around = BackwardHooks.around(self, self._backward_hooks, self._backward_pre_hooks)
            if around is not None:
                args = around.enter(args)
            result = self.forward(*args, **kwargs)
            for number, hook in list(self._forward_hooks.items()):
                called.add(number)
                result = _run_forward_hook(hook, self, args, kwargs, result)
            return result if around is None else around.leave(result)
        except BaseException:
            for number, hook in list(self._forward_hooks.items()):
                if hook.always_call and number not in called:
                    _run_forward_hook(hook, self, args, kwargs, result)
            raise

    def _run_forward_pre_hooks(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        for hook in list(self._forward_pre_hooks.values()):
            if hook.with_kwargs:
                changed = hook.function(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    fail("A004", f"a forward pre-hook with kwargs must return None or (args, kwargs), not {changed}")
                args, kwargs = changed
            else:
                changed = hook.function(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _add_hook(self, table: str, hook: Hook, prepend: bool) -> RemovableHandle:
        hooks = self._hooks_to_fill(table)
        handle = RemovableHandle(hooks)
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[handle.id] = hook
        hooks.update(others)
        self._hooked = True
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., object], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result that is not None replaces the arguments."""
        return self._add_hook("_forward_pre_hooks", Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., object],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result that is not None replaces the output."""
        return self._add_hook("_forward_hooks", Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the outputs' gradients are known; it may return others."""
        return self._add_hook("_backward_pre_hooks", Hook(hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are known.

        A result that is not None replaces the inputs' gradients.
        """
        return self._add_hook("_backward_hooks", Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """The old name of `register_full_backward_hook` (A009): a hook sees the gradients of all inputs."""
        hint = "use register_full_backward_hook"
        warn("A009", "register_backward_hook is deprecated", key="register_backward_hook", hint=hint)
        return self.register_full_backward_hook(hook)

    def extra_repr(self) -> str:
        """Return the arguments that the printed form shows beside the submodules."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = self._repr_of_children()
        if not children:
            inside = extra if "\n" not in extra else "\n  " + extra.replace("\n", "\n  ") + "\n"
            return f"{self._get_name()}({inside})"
        lines = [*(extra.split("\n") if extra else ()), *children]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        return import_module("rushlight.nn.html").module_html(self)

    def _repr_of_children(self) -> list[str]:
        return [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]


def indented(text: str) -> str:
    """Return a text with all lines but the first moved right by two."""
    return text.replace("\n", "\n  ")


def _run_forward_hook(
    hook: Hook, module: Module, args: tuple[object, ...], kwargs: dict[str, object], result: object
) -> object:
    if hook.with_kwargs:
        changed = hook.function(module, args, kwargs, result)
    else:
        changed = hook.function(module, args, result)
    return result if changed is None else changed
