"""How the function of an entry writes down values: results, and what it puts into containers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rushlight.capture.arguments import Names
from rushlight.capture.segmented import concrete
from rushlight.capture.source import Source, ViewSource
from rushlight.capture.values import Constant, Container, InputRef, Made, Number, Output, Reached, SizeOf, Template
from rushlight.eager.dispatch import Scope
from rushlight.sym import SizeExpr, free_symbols, to_python


class ValueTexts(ABC):
    """Templates as expressions.

    While `_hoisted` is a list, what is read from what is there before the call goes there, and the expression finds it
    in `result`.
    """

    names: Names
    views: Sequence[ViewSource]  # those that the call makes before, as w0, w1, ...
    _hoisted: list[str] | None = None

    def __init__(self) -> None:
        self.numbers_read: list[str] = []
        self._replayed: dict[int, str] = {}  # the variables of views that the text makes, by the source's identity

    @abstractmethod
    def output(self, position: int) -> str:
        """An output of the graph, as a tensor."""

    @abstractmethod
    def input_text(self, source: Source) -> str:
        """An input of the graph."""

    @abstractmethod
    def is_number(self, template: Template) -> bool:
        """Whether a template is an output that counted as a Python number: it is known only after the call."""

    def view_text(self, source: ViewSource) -> str:
        """A view of an input or output, made again."""
        replay = "replay_view" if source.recorded else self.names(replay_unrecorded)
        return f"{replay}({self.input_text(source.base)}, {self.names(source.steps)}, plan.values)"

    def value(self, template: Template) -> str:
        """A value, as an expression."""
        if isinstance(template, Output):
            return f"{self.output(template.place)}{'.item()' if self.is_number(template) else ''}"
        if isinstance(template, (InputRef, Number, SizeOf)):
            text = self._read(template)
            if self._hoisted is None:
                return text
            self._hoisted.append(text)
            return f"result[{len(self._hoisted) - 1}]"
        if isinstance(template, Constant):
            value = template.value
            return repr(value) if value is None or type(value) in (bool, int, str) else self.names(value)
        if isinstance(template, Reached):
            return template.text
        if isinstance(template, Made):
            return f"{self.names(template.make)}({', '.join([self.value(part) for part in template.items])})"
        assert isinstance(template, Container)
        made = self._container(template)
        if not template.attributes:
            return made
        pairs = "".join([f"({name!r}, {self.value(element)}), " for name, element in template.attributes])
        return f"{self.names(with_attributes)}({made}, ({pairs}))"

    def _container(self, template: Container) -> str:
        """A new container of values."""
        items = [self.value(element) for element in template.items]
        kind = template.kind
        if issubclass(kind, dict):
            pairs = [f"{self.names(key)}: {element}" for key, element in zip(template.keys, items, strict=True)]
            text = f"{{{', '.join(pairs)}}}"
            return text if kind is dict else f"{self.names(kind)}({text})"
        if kind is list:
            return f"[{', '.join(items)}]"
        inner = f"({''.join([f'{element}, ' for element in items])})"
        named = hasattr(kind, "_fields")  # a NamedTuple takes its items one by one, other sequences take one sequence
        return inner if kind is tuple else f"{self.names(kind)}({'*' if named else ''}{inner})"

    def _read(self, template: InputRef | Number | SizeOf) -> str:
        """A value that is read from what is there before the call."""
        if isinstance(template, Number):
            self.numbers_read.append(template.text)
            return template.text
        if isinstance(template, SizeOf):
            symbols = free_symbols(template.expr)
            size = to_python(template.expr, {symbol: f"plan.values[{self.names(symbol)}]" for symbol in symbols})
            return f"({size} {template.relation} 0)" if template.relation else size
        source = template.source
        if isinstance(source, ViewSource):
            made = [position for position, view in enumerate(self.views) if view is source]
            if made:
                return f"w{made[0]}"
            known = self._replayed.get(id(source))
            if known is None:
                known = self._replayed[id(source)] = f"shown{len(self._replayed)}"
                return f"({known} := {self.view_text(source)})"
            return known
        return self.input_text(source)


def with_attributes(value: object, attributes: Iterable[tuple[str, object]]) -> Any:
    """An instance of a subclass of a container, with what was set on it."""
    vars(value).update(attributes)
    return value


def replay_unrecorded(base: Any, steps: Any, values: Mapping[SizeExpr, int]) -> Any:
    """`replay_view` for a view that was made under no_grad."""
    with Scope(grad=False):
        return replay_view(base, steps, values)


def replay_view(base: Any, steps: Any, values: Mapping[SizeExpr, int]) -> Any:
    """Repeats the view operators that a trace recorded. Sizes in their attributes take their values of this call."""
    for op, others, attrs in steps:
        base = base.apply(op, (base, *others), {name: concrete(value, values) for name, value in attrs.items()})
    return base
