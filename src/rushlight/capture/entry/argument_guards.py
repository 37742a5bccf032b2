"""Guards on the leaves of the arguments, and that some of them are not one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry.value_guards import constant_guard, form_guard, type_guard
from rushlight.capture.guard import Guard
from rushlight.capture.program import Program
from rushlight.capture.state.assumed import Assumed
from rushlight.eager.handle import AUTOGRAD, BATCHED, META, Handle


def argument_guards(program: Program, arguments: Arguments, names: Names, assumed: Assumed) -> list[Guard]:
    """What is assumed of the arguments' leaves."""
    guards: list[Guard] = []
    texts = arguments.apart()
    if len(texts) > 1:  # a write to one is none to another
        guards.append(Guard("object", "objects", "distinct", _is_one(texts)))
    told = {id(value): name for name, value in reversed(arguments.leaves) if id(value) in assumed.told}
    if told:
        texts = [*told.values(), *map(names, assumed.apart.values())]
        guards.append(Guard("object", "tensors", "distinct", _is_one(texts)))
    for name, value in arguments.leaves:
        if id(value) in arguments.objects:
            continue
        if issubclass(type(value), Handle) and isinstance(value, Handle):
            failed = f"{name}.__class__ is not {names(type(value))} or {wants_text(name, value)}"
            if id(value) in assumed.unnamed:
                failed += f" or not {names(frozenset(assumed.unnamed[id(value)]))}.isdisjoint({name}.__dict__)"
            if id(value) in assumed.bare:
                failed += f" or {name}.__dict__"
            guards.append(Guard("tensor", name, f"a tensor, requires_grad={wants(value)}", failed))
        elif type(value) in (int, float):
            guards.append(type_guard(name, name, value, names))
        else:
            guards.append(constant_guard(name, name, value, names))
    apart = program.inputs.apart.items()
    return guards + [form_guard(arguments.leaves[position][0], type_, names) for position, type_ in apart]


def _is_one(texts: Sequence[str]) -> str:
    """An expression that is true if two of some expressions give one object."""
    if len(texts) == 2:
        return f"{texts[0]} is {texts[1]}"
    return f"len({{{', '.join([f'id({text})' for text in texts])}}}) != {len(texts)}"


def wants_text(text: str, tensor: Handle) -> str:
    """An expression that is true if a tensor's requires_grad differs, or it has no memory."""
    # A view has the key because its base may get a history; only then is the longer question asked.
    placeholder = (BATCHED | META) & ~tensor.keys  # what is left of a trace has the form of another tensor
    if wants(tensor):
        return f"not ({text}.keys & {AUTOGRAD} and {text}.requires_grad) or {text}.keys & {placeholder}"
    return f"{text}.keys & {AUTOGRAD | placeholder} and ({text}.keys & {placeholder} or {text}.requires_grad)"


def wants(tensor: Any) -> bool:
    """Whether a tensor requires gradients."""
    return bool(tensor.keys & AUTOGRAD and tensor.requires_grad)
