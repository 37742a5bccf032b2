"""Guards against aliasing: a trace assumes that a tensor it writes to shares no memory with other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rushlight.capture.guard import Guard
from rushlight.capture.source import ArgumentSource, Source, StateSource, TensorSource
from rushlight.eager.handle import Handle
from rushlight.support.errors import fail


def overlap(one: Handle, other: Handle) -> bool:
    """Whether two tensors may share elements: their address ranges overlap.

    Two storages may lie on the memory of one numpy array.
    """
    if one.backing is None or other.backing is None:
        return False
    (low, high), (other_low, other_high) = _span(one), _span(other)
    return low < other_high and other_low < high


def _span(tensor: Handle) -> tuple[int, int]:
    storage = tensor.backing
    start = (0 if storage is None else storage.address) + tensor.offset * tensor.form.dtype.itemsize
    return start, start + tensor.form.nbytes


# A cheap question first: only then may two tensors overlap. Memory of our own has no owner.
MAY_SHARE = "({0}.backing is {1}.backing or {0}.backing.owner is not None and {1}.backing.owner is not None)"


def overlaps_any(one: Handle, others: Sequence[Handle]) -> bool:
    """Whether a tensor overlaps one of several."""
    return any(overlap(one, other) for other in others)


def refuse_overlaps(written: Sequence[Handle], inputs: Sequence[Handle], real: Mapping[int, Handle]) -> None:
    """C012 if a tensor that the program writes to overlaps another input that is not the same tensor.

    `real` gives the tensors that some of them stand for, by identity.
    """
    by_memory: dict[int, list[Handle]] = {}
    for tensor in [real.get(id(input_), input_) for input_ in inputs]:
        by_memory.setdefault(_memory(tensor), []).append(tensor)
    for target in [real.get(id(element), element) for element in written]:
        for tensor in by_memory.get(_memory(target), ()):
            if tensor is not target and overlap(tensor, target):
                fail(
                    "C012",
                    "a tensor is written to, and another input shares its memory",
                    written=target,
                    other=tensor,
                    hint="pass the same tensor, or a copy",
                )


def _memory(tensor: Handle) -> int:
    """A key: tensors with different keys share no memory. Storages on memory that is not ours have one key."""
    storage = tensor.backing
    return id(storage) if storage is None or storage.owner is None else 0


def alias_guards(
    sources: Sequence[Source], written: set[int], leaf: Callable[[int], str], names: Callable[[object], str]
) -> list[Guard]:
    """Guards that no argument overlaps a written tensor, and no written argument overlaps any input.

    `written` are positions in `sources`; `leaf` names an argument in the entry's function.
    """
    guards: list[Guard] = []
    arguments: list[tuple[int, str]] = []
    for position, source in enumerate(sources):
        if isinstance(source, (ArgumentSource, StateSource)):
            arguments.append((position, leaf(source.position) if isinstance(source, ArgumentSource) else source.text))
    constants = [
        (position, source.tensor) for position, source in enumerate(sources) if isinstance(source, TensorSource)
    ]
    for number, (position, text) in enumerate(arguments):
        others = [tensor for other, tensor in constants if position in written or other in written]
        if others:
            storages = {tensor.backing for tensor in others if tensor.backing is not None}
            near = f"{text}.backing in {names(frozenset(storages))}"
            if any(storage.owner is not None for storage in storages):
                near = f"({near} or {text}.backing.owner is not None)"
            failed = f"{near} and {names(overlaps_any)}({text}, {names(tuple(others))})"
            guards.append(Guard("memory", text, "memory of its own", failed))
        for other, second in arguments[:number]:
            if position in written or other in written:
                failed = f"{MAY_SHARE.format(text, second)} and {names(overlap)}({text}, {second})"
                guards.append(Guard("memory", text, f"no memory of {second}", failed))
    return guards
