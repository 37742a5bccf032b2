"""The writes that a compiled call makes, as text that puts a commit together (`runtime.commit_text`).

Everything is computed before the native call, which then makes all writes, to memory and to Python objects, together.
What is known only after it, the number that `item()` gives, is read by functions that the commit calls.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from rushlight.capture.arguments import Names
from rushlight.capture.entry.loop_rolling import rolled
from rushlight.capture.gradients.inputs import Owner
from rushlight.capture.program import Program
from rushlight.capture.source import ArgumentSource, Source
from rushlight.capture.values import TAIL, Container, Deleted, Effect, Output, Reached, Template
from rushlight.eager.memory import array_of
from rushlight.support.errors import fail

SINK = [None]  # where commits put results that nobody needs
EVERYTHING = slice(None)
COLLECTIONS = (set, deque)
BEHIND_ALL = slice(sys.maxsize, None)


class Texts(Protocol):
    """How the function of an entry names things."""

    names: Names

    def value(self, template: Template) -> str:
        """A value; of a template that holds no number known only after the call."""
        ...

    def output(self, position: int) -> str:
        """An output of the graph, as a tensor."""
        ...

    def owner(self, owner: Owner) -> str:
        """A tensor that has a gradient."""
        ...

    def is_number(self, template: Template) -> bool:
        """Whether a template is a number known only after the call."""
        ...


def has_writes(program: Program) -> bool:
    """Whether a call writes to anything that was there before."""
    effects = program.effects
    return bool(effects.entries or effects.gradients or effects.written or effects.draws)


class CommitText:
    """Statements that make `commit`."""

    def __init__(self, program: Program, texts: Texts, arguments_written: Sequence[str]) -> None:
        """`arguments_written` are the texts of arguments that are overwritten."""
        self.program = program
        self.texts = texts
        self.names = texts.names
        self._arguments = arguments_written
        self._fresh = iter(range(1 << 30))

    def lines(self) -> list[str]:
        """The statements."""
        names, effects = self.names, self.program.effects
        calls = [line for effect in effects.entries for line in self._deferred(effect)]
        entries, in_order = self._by_order()
        items = [line for effect in entries for line in self._items(effect)]
        if effects.draws:
            items.append(f"items += (reserved, {names(EVERYTHING)}, ())")  # they are used from here on
        attributes = [
            f"attributes += ({self._history(owner)}, 'grad', {self.texts.value(template)})"
            for owner, template in effects.gradients
        ]
        if self.program.rewrites:
            attributes.append("attributes += histories")  # of the inputs that are overwritten
        counters = tuple([tensor.version for tensor in effects.written if tensor.backing is not None])
        versions = names(counters)
        if self._arguments:
            versions = f"(*{versions}, {''.join([f'{text}.version, ' for text in self._arguments])})"
        ordered = [line for effect in in_order for line in self._items(effect)]
        parts = {"calls": calls, "items": ordered + items, "attributes": attributes}
        made: list[str] = [f"{name} = []" for name, lines in parts.items() if lines]
        made += calls + ordered  # in their order
        made += [line for lines in (items, attributes) for line in rolled(lines, names)]
        given = ", ".join([name if lines else "()" for name, lines in parts.items()])
        return [*made, f"commit = ({given}, {versions})"]

    def _by_order(self) -> tuple[list[Effect], list[Effect]]:
        """The entries whose lines may come in any order, and those of containers that have other keys.

        The keys of the first are texts and ints. Lines that differ in other keys alone become one loop, which comes
        before or behind other entries of its container.
        """
        entries = self.program.effects.entries
        others = {self._target(effect) for effect in entries if type(effect.key) not in (int, str)}
        parts: tuple[list[Effect], list[Effect]] = [], []
        for effect in entries:
            parts[self._target(effect) in others].append(effect)
        return parts

    def _history(self, owner: Owner) -> str:
        """Where a tensor's gradient is. An argument that wants none may have no such record yet."""
        text = self.texts.owner(owner)
        return f"gradient_of({text})" if isinstance(owner, ArgumentSource) else f"{text}.gradient"

    def _items(self, effect: Effect) -> list[str]:
        deferred = isinstance(effect.value, Deleted) or isinstance(effect.container, COLLECTIONS)
        if deferred or holds_number(effect.value, self.texts.is_number):
            return []
        return [f"items += ({self._target(effect)}, {self._key(effect)}, {self.texts.value(effect.value)})"]

    def _deferred(self, effect: Effect) -> Iterator[str]:
        target, key = self._target(effect), self._key(effect)
        if isinstance(effect.value, Deleted):
            yield f"calls.append(({self.names(operator.delitem)}, ({target}, {key}), {self.names(SINK)}, 0))"
        elif isinstance(effect.container, COLLECTIONS):
            yield from self._collected(effect.container, effect.value, target)
        elif holds_number(effect.value, self.texts.is_number):
            yield from self._later(effect.value, target, key)

    def _collected(self, collection: object, template: Template, target: str) -> Iterator[str]:
        """Statements that give a set or a deque other objects."""
        if holds_number(template, self.texts.is_number):
            fail("C003", f"compile: a {type(collection).__name__} is given a number that item() gave")
        clear, fill = (set.clear, set.update) if isinstance(collection, set) else (deque.clear, deque.extend)
        for function, given in ((clear, target), (fill, f"{target}, {self.texts.value(template)}")):
            yield f"calls.append(({self.names(function)}, ({given}, ), {self.names(SINK)}, 0))"

    def _later(self, template: Template, target: str, key: str) -> Iterator[str]:
        """Statements for `target[key] = template` where it holds a number known only after the call."""
        if isinstance(template, Output):
            read = f"{self.names(number_reader)}({self.texts.output(template.place)})"
            yield f"calls.append(({read}, (), {target}, {key}))"
            return
        assert isinstance(template, Container)
        if template.attributes:
            fail("C003", f"compile: a {template.kind.__name__} with attributes is kept, and a number that item() gave")
        parts = f"parts{next(self._fresh)}"
        places = [self.names(element) for element in template.keys] or [str(at) for at in range(len(template.items))]
        keys = "".join([f"{position}, " for position in places])
        yield f"{parts} = dict.fromkeys(({keys}))" if template.keys else f"{parts} = [None] * {len(places)}"
        for index, value in zip(places, template.items, strict=True):
            if holds_number(value, self.texts.is_number):
                yield from self._later(value, parts, index)
            else:
                yield f"{parts}[{index}] = {self.texts.value(value)}"
        yield f"calls.append(({self.names(_maker(template.kind))}, ({parts}, ), {target}, {key}))"

    def _target(self, effect: Effect) -> str:
        container = effect.container
        return container.text if isinstance(container, Reached) else self.names(container)

    def _key(self, effect: Effect) -> str:
        key = BEHIND_ALL if effect.key is TAIL else effect.key
        return repr(key) if type(key) in (int, str) else self.names(key)


def ended_texts(
    program: Program, input_text: Callable[[Source], str], output: Callable[[int], str]
) -> tuple[list[str], list[str]]:
    """Statements for results whose history gives no gradients, and what gives inputs such a history."""
    attached: list[str] = []
    written: list[str] = []
    for one in program.ended:
        inputs = "".join([f"{input_text(source)}, " for source in one.inputs])
        if isinstance(one.place, int):
            attached.append(f"attach_ended({output(one.place)}, ({inputs}), {one.freed})")
        else:
            written.append(f"({input_text(one.place)}, ({inputs}), {one.freed}), ")
    return attached, [f"rewritten(({''.join(written)}))"] if written else []


def holds_number(template: Template, is_number: Callable[[Template], bool]) -> bool:
    """Whether a template contains a number that is known only after the call."""
    if isinstance(template, Container):
        parts = (*template.items, *[value for _, value in template.attributes])
        return any(holds_number(part, is_number) for part in parts)
    return is_number(template)


def _maker(kind: type) -> Callable[[Any], Any]:
    """What makes a container of a list of its items, or of a dict, without running Python code."""
    return functools.partial(tuple.__new__, kind) if hasattr(kind, "_fields") else kind


def number_reader(tensor: Any) -> Callable[[], complex]:
    """What reads the one element of a tensor, as native code does: no interrupt comes in between."""
    reader: Callable[[], complex] = array_of(tensor).reshape(()).item
    return reader
