"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.eager.boundary import checked
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

    Several dicts are taken together. A tensor that a module has under two names is replaced under both, unless
    `tie_weights` is False. `strict` demands a tensor for each name and
    no others; else other names are passed over, as PyTorch does.
    """
    dicts = parameter_and_buffer_dicts
    named = dict(dicts) if isinstance(dicts, Mapping) else _merged(dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, named, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _merged(dicts: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for one in dicts:
        for name, value in one.items():
            require(name not in merged, "A002", f"functional_call: {name} is in two of the dicts")
            merged[name] = value
    return merged


def _computes(module: Module, path: str, name: str) -> bool:
    """Whether a module, or one below it, computes a tensor of this name from its parameters."""
    owner = dict(module.named_modules(remove_duplicate=False)).get(path)
    return isinstance(getattr(type(owner), name, None), property) and isinstance(getattr(owner, name), Tensor)


@contextmanager
def _replaced(module: Module, named: dict[str, Any], tie: bool, strict: bool) -> Generator[None]:
    own = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    unknown = sorted(named.keys() - own.keys())
    if strict and unknown:
        fail("A002", f"functional_call: the module has no {unknown[0]}", names=list(own))
    for name in unknown:
        path, _, last = name.rpartition(".")
        hint = f"replace what it is computed from, such as {path}{'.' if path else ''}parametrizations.{last}.original"
        require(not _computes(module, path, last), "A002", f"functional_call: {name} is computed", hint=hint)
    named = {name: value for name, value in named.items() if name in own}
    if tie:
        by_identity = {id(own[name]): value for name, value in named.items()}
        named = {name: by_identity[id(value)] for name, value in own.items() if id(value) in by_identity}
    missing = sorted(own.keys() - named.keys())
    if strict and missing:
        fail("A002", f"functional_call: {missing[0]} is missing", names=missing)
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, value in named.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if last in owner._parameters else owner._buffers
            before.append((table, last, table[last]))
            table[last] = value
        yield
    finally:
        for table, last, value in reversed(before):
            table[last] = value
