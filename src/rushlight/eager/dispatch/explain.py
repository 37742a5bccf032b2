"""What the table of kernels says, for people: who answers an operator at each key, and why."""

from __future__ import annotations

from rushlight.eager.dispatch.call import keys_of
from rushlight.eager.dispatch.keys import BACKENDS, IMPLICIT, Alias, Key, bit, keys_in
from rushlight.eager.dispatch.state import STATE
from rushlight.eager.dispatch.table import FALLTHROUGH, Kernel, registered_kernel, table_of
from rushlight.support.frozen import frozen
from rushlight.term import Op


@frozen
class Answer:
    """Who answers an operator at a key.

    `by` is what it was registered for: the operator itself, an alias, or all operators; None where nobody answers.
    """

    key: Key
    by: str | None
    kernel: str | None

    def __str__(self) -> str:
        """As it is shown in a table."""
        return "passes" if self.by is None else f"{self.kernel} ({self.by})"


def answers(op: Op) -> list[Answer]:
    """Who answers an operator, for each key, the highest first."""
    table_of(op)  # loads what is registered when an operator is first used
    return [_answer(op, key) for key in sorted(Key, reverse=True)]


def _answer(op: Op, key: Key) -> Answer:
    slots: list[tuple[Op | None, Key | Alias, str]] = [(op, key, "its own")]
    if BACKENDS & bit(key):
        slots.append((op, Alias.BACKENDS, "its own for all devices"))
    if IMPLICIT & bit(key) and not (key is Key.AUTOGRAD and registered_kernel(op, Alias.BACKENDS)):
        slots.append((op, Alias.ALL, "its own, of other operators"))
    slots.append((None, key, "for all operators"))
    for owner, place, by in slots:
        kernel = registered_kernel(owner, place)
        if kernel is not None:
            through = kernel.function is FALLTHROUGH
            return Answer(key, None, None) if through else Answer(key, by, name_of(kernel))
    return Answer(key, None, None)


def name_of(kernel: Kernel) -> str:
    """The name of the function, with its module."""
    function = kernel.function
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '?').removeprefix('rushlight.')}.{name}"


def explained(op: Op, operands: tuple[object, ...]) -> list[str]:
    """A line for each key that is active in a call, the highest first: why it is, and who is asked there."""
    given = keys_of(operands)
    active = (given | STATE.included) & ~STATE.excluded
    known = {answer.key: answer for answer in answers(op)}
    lines: list[str] = []
    for key in keys_in(active):
        why = "of an operand" if given & bit(key) else "of the thread's scopes"
        lines.append(f"{key.name:<14} {why:<24} {known[key]}")
    for key in keys_in((given | STATE.included) & STATE.excluded):
        lines.append(f"{key.name:<14} excluded by a scope")
    return lines
