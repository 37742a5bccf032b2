"""What ranks send, and on whose behalf: explicit mode, and the report of communication by module and line."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rushlight.distributed.tensor.planning import Step
from rushlight.distributed.tensor.spec import text_of
from rushlight.eager.autograd.node import RemovableHandle
from rushlight.nn.modules.module import Module
from rushlight.support.provenance import Frame, user_frame


class Message(NamedTuple):
    """One step that a rank took: the verb, the bytes that it sent, from what to what, for which call of which line.

    `module` is the innermost one, of the model that the report is of, whose forward was running.
    """

    verb: str
    sent: int
    before: str
    after: str
    call: str
    implicit: bool
    line: str
    module: str

    def __str__(self) -> str:
        how = " (implicit)" if self.implicit else ""
        where = f" in {self.module}" if self.module else ""
        moved = f"{self.verb} {self.sent} bytes, {self.before} -> {self.after}"
        return f"{moved}, for {self.call}{how}{where}\n    {self.line}"


class CommReport:
    """The messages of a `comm_report()`, and how often each verb was used."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def counts(self) -> dict[str, int]:
        """How often each verb was used."""
        counts: dict[str, int] = {}
        for message in self.messages:
            counts[message.verb] = counts.get(message.verb, 0) + 1
        return counts

    @property
    def bytes_sent(self) -> int:
        """The bytes that this rank sent."""
        return sum([message.sent for message in self.messages])

    def by_line(self) -> dict[str, int]:
        """The bytes sent for each line of the program, the most first."""
        return _added_up([(message.line, message.sent) for message in self.messages])

    def by_module(self) -> dict[str, int]:
        """The bytes sent in each module of the model, the most first."""
        return _added_up([(message.module, message.sent) for message in self.messages])

    def __str__(self) -> str:
        return "\n".join([*map(str, self.messages), f"{len(self.messages)} messages, {self.bytes_sent} bytes sent"])


def _added_up(pairs: Sequence[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, sent in pairs:
        totals[name] = totals.get(name, 0) + sent
    return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


class _Modes(threading.local):
    explicit = False
    replicating = False

    def __init__(self) -> None:
        self.reports: list[CommReport] = []
        self.modules: list[str] = []


MODES = _Modes()
"""The modes of this thread, which is one rank."""


@contextmanager
def comm_report(model: Module | None = None) -> Generator[CommReport]:
    """A scope that writes down what this rank sends: `with comm_report() as report: ...; print(report)`.

    With a model it says in which of its modules.
    """
    report = CommReport()
    MODES.reports.append(report)
    hooks = [] if model is None else [hook for name, part in model.named_modules() for hook in _named(name, part)]
    try:
        yield report
    finally:
        MODES.reports.remove(report)
        for hook in hooks:
            hook.remove()


def _named(name: str, module: Module) -> Iterator[RemovableHandle]:
    """Hooks that say when a module runs, around its other hooks."""

    def enter(part: Module, inputs: object) -> None:
        MODES.modules.append(name)

    def leave(part: Module, inputs: object, output: object) -> None:
        MODES.modules.pop()

    yield module.register_forward_pre_hook(enter, prepend=True)
    yield module.register_forward_hook(leave, always_call=True)


@contextmanager
def explicit_redistribution() -> Generator[None]:
    """A scope in which an operator that would communicate by itself is error W022."""
    before, MODES.explicit = MODES.explicit, True
    try:
        yield
    finally:
        MODES.explicit = before


@contextmanager
def implicit_replication() -> Generator[None]:
    """A scope in which plain tensors beside divided ones are taken to be the same on all ranks."""
    before, MODES.replicating = MODES.replicating, True
    try:
        yield
    finally:
        MODES.replicating = before


def note(step: Step, sent: int, call: str, implicit: bool) -> None:
    """Writes down a step in the reports that are open."""
    if MODES.reports:
        line = str(user_frame() or Frame("?", 0, "?"))
        before, after = text_of(step.before.placements), text_of(step.after.placements)
        module = MODES.modules[-1] if MODES.modules else ""
        for report in MODES.reports:
            report.messages.append(Message(step.verb, sent, before, after, call, implicit, line, module))
