"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Tensor
from rushlight.nn.modules.module import Module
from rushlight.support.errors import fail, require


@checked
def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, object] | Sequence[Mapping[str, object]],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Return what a module computes with other tensors as its parameters and buffers, by name.

    Several dicts are taken together. Attributes that are tensors are replaced too, and names that the module lacks are
    attributes during the call. A tensor that a module has under two names is replaced under both, unless `tie_weights`
    is False. `strict` demands a tensor for each parameter and buffer, and no others. What the call assigns to a name
    of a single dict is in that dict afterwards.
    """
    dicts = parameter_and_buffer_dicts
    given = dicts if isinstance(dicts, Mapping) else _merged(dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return call_user(module, *positional, **(kwargs or {}))


def _merged(dicts: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for one in dicts:
        for name, value in one.items():
            require(name not in merged, "A002", f"functional_call: {name} is in two of the dicts")
            merged[name] = value
    return merged


class _Place:
    """A parameter, a buffer or another attribute of a module: its name, and what it held."""

    def __init__(self, module: Module, name: str) -> None:
        path, _, self.name = name.rpartition(".")
        self.owner: Any = module.get_submodule(path)
        if isinstance(getattr(type(self.owner), self.name, None), property):
            source = f"{path}{'.' if path else ''}parametrizations.{self.name}.original"
            hint = f"replace what it is computed from, such as {source}"
            fail("A002", f"functional_call: {name} is computed", hint=hint)
        self.held_in = self._table()
        self.before = self.value()
        if self.before is not _NOTHING and not isinstance(self.before, Tensor | None):
            fail("A001", f"functional_call: {name} is no tensor", given=type(self.before).__name__)

    def _table(self) -> dict[str, Any] | None:
        owner = self.owner
        return next((table for table in (owner._parameters, owner._buffers) if self.name in table), None)

    def value(self) -> Any:
        table = self._table()
        return getattr(self.owner, self.name, _NOTHING) if table is None else table[self.name]

    def put(self, value: Any) -> None:
        table = self._table()
        if table is None:
            setattr(self.owner, self.name, value)
        else:
            table[self.name] = value

    def restore(self) -> None:
        """Put back what was there, where it was: the call may have made it a parameter or deleted it."""
        elsewhere = self._table() is not self.held_in or self.before is _NOTHING
        if elsewhere and self.value() is not _NOTHING:
            delattr(self.owner, self.name)
        if self.held_in is not None:
            self.held_in[self.name] = self.before
        elif self.before is not _NOTHING:
            setattr(self.owner, self.name, self.before)


_NOTHING = object()


def _own(module: Module) -> dict[str, Any]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def _tied(own: dict[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """`named`, with each value under all names that its tensor has."""
    by_identity: dict[int, Any] = {}
    for name in named.keys() & own.keys():
        one = by_identity.setdefault(id(own[name]), named[name])
        require(one is named[name], "A002", f"functional_call: the tensor of {name} is given two values")
    return {**named, **{name: by_identity[id(value)] for name, value in own.items() if id(value) in by_identity}}


def _require_exactly(own: dict[str, Any], named: dict[str, Any]) -> None:
    for name in sorted(named.keys() - own.keys()):
        fail("P004", f"functional_call: the module has no {name}", names=list(own))
    missing = sorted(own.keys() - named.keys())
    if missing:
        fail("P004", f"functional_call: {missing[0]} is missing", names=missing)


@contextmanager
def _replaced(module: Module, given: Mapping[str, Any], tie: bool, strict: bool) -> Generator[None]:
    own = _own(module) if tie or strict else {}
    named = _tied(own, given) if tie else dict(given)
    if strict:
        _require_exactly(own, named)
    for name, value in named.items():
        if not isinstance(value, Tensor | None):
            fail("A001", f"functional_call: the value of {name} is no tensor", given=type(value).__name__)
    places = {name: _Place(module, name) for name in named}
    try:
        for name, place in places.items():
            place.put(named[name])
        yield
    finally:
        after = {name: place.value() for name, place in places.items() if name in given}
        for place in reversed(places.values()):
            place.restore()
        if isinstance(given, MutableMapping):
            given.update({name: value for name, value in after.items() if value is not given[name]})
