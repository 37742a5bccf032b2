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


@frozen
class At:
    """A place in a list, as a part of a path; the keys of dicts stand for themselves."""

    place: int


Path = tuple[str | int | At, ...]


@frozen(eq=False)
class Leaf:
    """A value of a state dict, the container and key that it stands under, and the path that leads to it."""

    container: object
    key: object
    value: object
    path: Path

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
    for leaf in _leaves(state_dict, ()):
        name = ".".join([str(part.place if isinstance(part, At) else part) for part in leaf.path])
        require(name not in leaves, "P006", f"checkpoint: two values would be called {name}", hint="rename a key")
        leaves[name] = leaf
    return leaves


def nested(values: Mapping[str, object], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Return the state dict of leaves, given the paths of those that lie deeper. Tuples have become lists."""
    state: dict[Any, Any] = {}
    for name, value in values.items():
        *outer, key = paths.get(name, (name,))
        container = state
        for part in outer:
            container = container.setdefault(part, {})
            require(isinstance(container, dict), "P002", "checkpoint: a value lies within another one", name=name)
        container[key] = value
    return _with_lists(state)


def _with_lists(container: Any) -> Any:
    """Containers whose keys are all places are lists."""
    if not isinstance(container, dict):
        return container
    if container and all(isinstance(key, At) for key in container):
        return [_with_lists(container[key]) for key in sorted(container, key=lambda key: key.place)]
    return {key: _with_lists(value) for key, value in container.items()}


def _leaves(container: object, path: Path) -> Iterator[Leaf]:
    if len(path) > _DEEPEST:
        fail("P006", "checkpoint: containers are nested too deeply, or contain themselves", at=path[:3])
    for key, value in _members(container):
        in_list = not isinstance(container, Mapping)
        part = At(key) if in_list and isinstance(key, int) else key if type(key) in (str, int) else str(key)
        assert isinstance(part, (str, int, At))
        if _opens(value):
            yield from _leaves(value, (*path, part))
        else:
            yield Leaf(container, key, value, (*path, part))


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
