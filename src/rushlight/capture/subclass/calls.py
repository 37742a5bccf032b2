"""Calls of a compiled function with tensors of subclasses: which graphs are for which, and what a trace runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.state.reachable import StateWalk, walk_function
from rushlight.capture.subclass.direct import UNKNOWN, DirectCalls, GeneralCall
from rushlight.capture.subclass.packing import (
    Packer,
    Packing,
    Rebuilt,
    Results,
    are_same,
    entries_of,
    in_containers,
    is_packed,
    refuse,
    unpacked,
)
from rushlight.eager.autograd.history import attach, before_rewrite, requires
from rushlight.eager.autograd.write import check_write, record_function_write
from rushlight.eager.dispatch import Scope
from rushlight.eager.handle import Handle, gradient_of, is_wrapper
from rushlight.eager.tracing import Tracer
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import CompileError


class Placeholder:
    """Stands among the arguments for a tensor that is given to a graph in parts. There is one for each number."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def __repr__(self) -> str:
        return f"tensor of a subclass, number {self.position}"


_placeholders: list[Placeholder] = []


def _placeholder(position: int) -> Placeholder:
    while len(_placeholders) <= position:
        _placeholders.append(Placeholder(len(_placeholders)))
    return _placeholders[position]


class Taking:
    """What the graphs of one function are for: tensors given by these packings, the last ones `reached` by itself."""

    def __init__(self, function: Callable[..., object], packings: Sequence[Packing], reached: Sequence[Handle]) -> None:
        self.function = function
        self.packings = packings
        self.reached = reached

    def fits(self, packings: Sequence[Packing], reached: Sequence[Handle]) -> bool:
        """Whether these graphs are for such tensors. Contexts are compared as their class has it."""
        return are_same(reached, self.reached) and bool(packings == self.packings)

    def trace(self, tracer: Tracer, walk: StateWalk) -> Callable[..., object]:
        """What a recorder runs in place of the function: it takes the arguments, and the parts of the tensors."""
        tracer.takes_wrappers = True

        def run(args: Sequence[object], kwargs: Mapping[str, object], parts: Sequence[Sequence[object]]) -> object:
            given = [unpacked(packing, values) for packing, values in zip(self.packings, parts, strict=True)]
            tracer.given.update(map(id, given))
            self._stand_in(walk, given)
            before = [_state_of(tensor) for tensor in given]
            filled = _Filled(given)
            named = {name: filled.value(value) for name, value in kwargs.items()}
            result = self.function(*map(filled.value, args), **named)
            filled.refuse_changes()
            if not tracer.gradients_read.keys().isdisjoint(map(id, given)):
                refuse("the gradient of a tensor of a subclass is read or set", given[0])
            results = Results(given)
            value = results.packed(result)
            after = [_state_of(tensor) for tensor in given]
            changes = [*zip(before, after, strict=True)]
            written = [at for at, (old, new) in enumerate(changes) if is_wrapper(given[at]) and old[0] != new[0]]
            rewritten = [at for at in written if changes[at][0][1:] != changes[at][1][1:]]
            with Scope(grad=True):
                values = [results.made(OPERATORS["clone"](given[at])) for at in rewritten]
            return value, tuple(written), tuple(rewritten), tuple(values)

        return run

    def _stand_in(self, walk: StateWalk, given: Sequence[object]) -> None:
        """Puts what stands for the tensors that the function reaches in their places."""
        stands = dict(zip(map(id, self.reached), given[len(given) - len(self.reached) :], strict=True))
        for leaf in walk.leaves:
            if id(leaf.value) in stands:
                leaf.substitute(stands[id(leaf.value)])
            elif is_packed(leaf.value) and not is_wrapper(leaf.value) and vars(leaf.value):
                refuse("the function reaches a tensor of a subclass that has attributes", leaf.value)


def _state_of(tensor: Handle) -> tuple[int, object, int]:
    """How often a tensor was written to, and its place in autograd."""
    place = tensor.gradient if requires(tensor) else None
    return tensor.version.value, None if place is None else place.node, 0 if place is None else place.output


class _Filled:
    """Arguments with tensors in place of what stands for them."""

    def __init__(self, given: Sequence[object]) -> None:
        self._given = given
        self._copies: list[tuple[Any, list[object]]] = []

    def value(self, value: object) -> object:
        """A value of the arguments."""
        if isinstance(value, Placeholder):
            return self._given[value.position]
        made = in_containers(self.value, value)
        if made is not value:
            self._copies.append((made, entries_of(made)))
        return made

    def refuse_changes(self) -> None:
        """C036 where the function has changed a container of tensors of subclasses, of which it got a copy."""
        for made, before in self._copies:
            if not are_same(entries_of(made), before):
                refuse("a container of tensors of subclasses changes", next(filter(is_packed, before)))


Graphs = TypeVar("Graphs", bound=Callable[..., Any])


class WrapperCalls(Generic[Graphs]):
    """Calls of one function whose arguments or state hold tensors of subclasses. `make` gives what runs graphs.

    `kinds` are those of calls that there are graphs for, the newest last. `in_parts` is whether further kinds run
    without a graph for all of a call, since one has failed.
    """

    def __init__(self, function: Callable[..., object], make: Callable[[Taking], Graphs]) -> None:
        self._function = function
        self._make = make
        self._reached: list[Handle] = []
        self._packer = Packer()
        self.kinds: list[tuple[Taking, Graphs]] = []
        self._direct: dict[int, DirectCalls] = {}
        self.in_parts = False

    def reset(self) -> None:
        """Forgets all graphs."""
        self.kinds.clear()
        self._direct.clear()
        self._reached.clear()
        self._packer.clear()
        self.in_parts = False

    def graphs(self) -> list[Graphs]:
        """What runs the graphs, the newest last."""
        return [graphs for _, graphs in self.kinds]

    def looks_again(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Looks up which tensors of subclasses the function reaches; whether they are others than before."""
        leaves = Arguments(args, kwargs, Names()).leaves
        walk = walk_function(self._function, leaves)
        found = {id(leaf.value): leaf.value for leaf in walk.leaves if isinstance(leaf.value, Handle)}
        for _, value in leaves:
            found.pop(id(value), None)
        before = self._reached
        self._reached = [tensor for tensor in found.values() if is_packed(tensor) and is_wrapper(tensor)]
        if are_same(before, self._reached):
            return False
        self._direct.clear()
        return True

    def run(self, args: tuple[object, ...], kwargs: dict[str, object], *, known: bool = False) -> object:
        """What a call gives; UNKNOWN for tensors that there is no graph for, if they must be `known`."""
        try:
            for direct in () if kwargs else self._direct.values():
                result = UNKNOWN if direct.call is None else direct.call(args)
                if result is not UNKNOWN:
                    return result
            return self._run(args, kwargs, known)
        except CompileError as error:
            if error.code != "C036" or not self.looks_again(args, kwargs):
                raise
        return self._run(args, kwargs, known)

    def _run(self, args: tuple[object, ...], kwargs: dict[str, object], known: bool) -> object:
        given: list[Handle] = []
        emptied = _emptied(args, given), _emptied(kwargs, given)
        reached = [tensor for tensor in self._reached if not any(tensor is other for other in given)]
        given += reached
        if known and not given:
            return UNKNOWN
        taken = [self._packer.packed(tensor) for tensor in given]
        packings = tuple([packing for packing, _ in taken])
        graphs = next((graphs for taking, graphs in self.kinds if taking.fits(packings, reached)), None)
        if graphs is None and known:
            return UNKNOWN
        parts = tuple([parts for _, parts in taken])
        if graphs is None:
            return _finished(given, self._first(packings, reached, emptied, parts))
        outcome = graphs(*emptied, parts)
        result = _finished(given, outcome)
        direct = self._direct.setdefault(id(graphs), DirectCalls(graphs, _finished))
        direct.learn(GeneralCall(emptied, _is_placeholder, given, len(reached), packings, parts, outcome, result))
        return result

    def _first(
        self, packings: tuple[Packing, ...], reached: Sequence[Handle], emptied: tuple[object, object], parts: object
    ) -> Any:
        """What graphs give that are made for a call; they are kept unless it fails."""
        taking = Taking(self._function, packings, reached)
        made = taking, self._make(taking)
        self.kinds.append(made)
        try:
            return made[1](*emptied, parts)
        except BaseException:
            self.kinds.remove(made)
            raise


def _is_placeholder(value: object) -> bool:
    return isinstance(value, Placeholder)


def _finished(given: Sequence[Handle], outcome: Any) -> object:
    """The result of a call of what a graph gave, after the writes that belong to it."""
    value, written, rewritten, values = outcome
    rebuilt = Rebuilt(given)
    for position in written:
        given[position].version.value += 1
    for position, made in zip(rewritten, values, strict=True):
        _rewrite(given[position], rebuilt.tensor(made))
    return rebuilt.value(value)


def _emptied(value: object, given: list[Handle]) -> object:
    """A value with placeholders for the tensors of subclasses in it, which are added to a list once each."""
    if is_packed(value):
        known = [at for at, tensor in enumerate(given) if tensor is value]
        if not known:
            given.append(value)
        return _placeholder(known[0] if known else len(given) - 1)
    return in_containers(lambda part: _emptied(part, given), value)


def _rewrite(target: Handle, value: Handle) -> None:
    """Gives a wrapper that a call has written to the history of its new value."""
    check_write("a compiled function", target)
    place = value.gradient if requires(value) else None
    if place is None:
        return
    if target.view_of is not None:
        record_function_write(target, place.node, place.output)
        return
    before_rewrite(target)
    attach(target, place.node, place.output)
    gradient_of(target).rebases += 1
