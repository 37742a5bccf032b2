"""State dicts as flat maps: each tensor and each value that is no container under the path that leads to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Protocol, runtime_checkable

from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

_DEEPEST = 200  # containers within containers before it must be a cycle


@runtime_checkable
class Stateful(Protocol):
    """An object that gives its state as a dict and takes it back, as modules and optimizers do."""

    def state_dict(self) -> dict[str, object]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, object]) -> object:
        """Take a state over."""
        ...


@frozen(eq=False)
class Leaf:
    """A value of a state dict, and the container and key that it stands under."""

    container: object
    key: object
    value: object

    def put(self, value: object) -> None:
        """Put another value in its place."""
        if not isinstance(self.container, MutableMapping | list):
            fail("P004", f"checkpoint: a {type(self.container).__name__} cannot take a value over", key=self.key)
        container: Any = self.container
        container[self.key] = value


def flatten(state_dict: object) -> dict[str, Leaf]:
    """Return the leaves of a state dict by their paths, joined by dots. P006 where two paths read alike."""
    given = type(state_dict).__name__
    require(isinstance(state_dict, Mapping), "A001", "checkpoint: a state dict is a dict", given=given)
    leaves: dict[str, Leaf] = {}
    for path, leaf in _leaves(state_dict, ()):
        name = ".".join(path)
        require(name not in leaves, "P006", f"checkpoint: two values would be called {name}", hint="rename a key")
        leaves[name] = leaf
    return leaves


def _leaves(container: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    if len(path) > _DEEPEST:
        fail("P006", "checkpoint: containers are nested too deeply, or contain themselves", at=".".join(path[:3]))
    for key, value in _members(container):
        where = (*path, str(key))
        if _opens(value):
            yield from _leaves(value, where)
        else:
            yield where, Leaf(container, key, value)


def _members(container: object) -> Iterator[tuple[object, object]]:
    if isinstance(container, Mapping):
        yield from container.items()
    elif isinstance(container, list | tuple):
        yield from enumerate(container)


def _opens(value: object) -> bool:
    """Return whether a value is written member by member: a dict, or a sequence that holds tensors."""
    if isinstance(value, list | tuple):
        return any(isinstance(member, Tensor) or _opens(member) for member in value)
    return isinstance(value, Mapping) and len(value) > 0
