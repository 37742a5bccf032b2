"""Functions that users have called around the steps of an optimizer, and around its state dicts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.eager.autograd.node import RemovableHandle, add_hook
from rushlight.eager.boundary import Constructed
from rushlight.eager.dispatch import call_user
from rushlight.support.errors import require
from rushlight.support.interpreted import interpreted

Hook = Callable[..., Any]
Hooks = dict[int, Hook]


class Hooked(Constructed):
    """Calls hooks around the `step` of a class, also one that a user's subclass has written."""

    def __init__(self) -> None:
        self._step_pre_hooks: Hooks = {}
        self._step_post_hooks: Hooks = {}
        self._state_dict_pre_hooks: Hooks = {}
        self._state_dict_post_hooks: Hooks = {}
        self._load_state_dict_pre_hooks: Hooks = {}
        self._load_state_dict_post_hooks: Hooks = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # pyright: ignore[reportAttributeAccessIssue] - subclasses have it

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments, as a pair.

        `args` begin with the optimizer.
        """
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before a state dict is made; before the other hooks if `prepend`."""
        return _added(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with a state dict that was made; it may return another one."""
        return _added(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a state dict is loaded; it may return another one."""
        return _added(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after a state dict was loaded."""
        return _added(self._load_state_dict_post_hooks, hook, prepend)


def _added(hooks: Hooks, hook: Hook, prepend: bool) -> RemovableHandle:
    others = dict(hooks) if prepend else {}
    for number in others:
        del hooks[number]
    handle = add_hook(hooks, hook)
    hooks.update(others)
    return handle


def chained(hooks: Hooks, owner: object, value: object) -> Any:
    """Return the value that hooks make of one, each of what the one before returned; None keeps it."""
    for hook in list(hooks.values()):
        changed = call_user(hook, owner, value)
        value = value if changed is None else changed
    return value


def _with_hooks(step: Hook) -> Hook:
    """Return a step that calls the hooks. Of a step that calls its base class's, the outer one does.

    A wrapper of another optimizer may have no hooks: its class leaves the base class's `__init__` out.
    """

    @interpreted
    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self).step is not run or "_step_pre_hooks" not in vars(self):
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        for hook in list(self._step_pre_hooks.values()):
            changed = hook(self, given, kwargs)
            if changed is not None:
                pair = isinstance(changed, tuple) and len(changed) == 2
                require(pair, "A001", "step: a hook returns None, or arguments as a pair (args, kwargs)", hook=changed)
                given, kwargs = changed
        result = step(*given, **kwargs)
        for hook in list(self._step_post_hooks.values()):
            hook(self, given, kwargs)
        return result

    return run
