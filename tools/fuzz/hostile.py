"""Calls with hostile arguments: each gives a value or a registered error, and leaves the library as it was.

Python's own TypeErrors are right where a call does not fit a signature, or where an operator's operands have no rule.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

from rushlight.support.frozen import frozen
from tools.fuzz.child import Child
from tools.fuzz.finding import Finding
from tools.fuzz.hostile_values import OTHERS, TENSORS
from tools.fuzz.surfaces import OPERATIONS, PLAUSIBLE, Parameter, Surface, surfaces

_FITTING = 0.55  # of the arguments are what the parameter is for, so that a call comes past the first check
_OPTIONAL = 0.35  # of the optional ones are given


@frozen(eq=False)
class Call:
    """One call as source text."""

    seed: int
    number: int
    text: str

    def script(self) -> str:
        """The call as a script."""
        return f"from tools.fuzz.calling import SPACE\n\nprint(eval({self.text!r}, SPACE))"


@cache
def _surfaces() -> tuple[Surface, ...]:
    return surfaces()


class _Choice:
    """Draws the parts of one call."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.hostile = False

    def odd(self) -> str:
        """A hostile value."""
        self.hostile = True
        name = self.random.choice(tuple(OTHERS if self.random.random() < 0.7 else TENSORS))
        return f"{name}()"

    def value(self, kind: str) -> str:
        """A value for a parameter: one that fits, or a hostile one."""
        if self.random.random() < _FITTING:
            return self.random.choice(PLAUSIBLE[kind])
        return self.odd()

    def arguments(self, parameters: tuple[Parameter, ...]) -> str:
        """The arguments of a call, one at least hostile; now and then too many, too few, or one of another name."""
        positional: list[str] = []
        named: list[str] = []
        for parameter in parameters:
            if parameter.repeated:
                positional += [self.value(parameter.kind) for _ in range(self.random.randrange(4))]
            elif parameter.required or self.random.random() < _OPTIONAL:
                text = self.value(parameter.kind)
                by_name = parameter.named or bool(named) or not parameter.required
                (named if by_name else positional).append(f"{parameter.name}={text}" if by_name else text)
        if self.random.random() < 0.04:
            positional.append(self.odd())
        if self.random.random() < 0.04:
            named.append(f"{self.random.choice(('axis', 'outt', 'dtyp', 'size'))}={self.odd()}")
        if positional and self.random.random() < 0.04:
            positional.pop()
        if not self.hostile and positional:
            positional[self.random.randrange(len(positional))] = self.odd()
        return ", ".join([*positional, *named])

    def index(self) -> str:
        """What stands in brackets."""
        parts = [self.value("int") for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        return ", ".join(parts)

    def tensor(self) -> str:
        """A tensor of any kind."""
        return f"{self.random.choice(tuple(TENSORS))}()"


def _syntax(choice: _Choice) -> str:
    """An index, an assignment or an operator."""
    kind = choice.random.randrange(5)
    if kind == 0:
        return f"{choice.tensor()}[{choice.index()}]"
    if kind == 1:
        return f"{choice.tensor()}.__setitem__(({choice.index()},), {choice.value('float')})"
    if kind == 2:
        return f"{choice.odd()} in {choice.tensor()}"
    pair = [choice.tensor(), choice.odd()]
    choice.random.shuffle(pair)
    return f"{pair[0]} {choice.random.choice(OPERATIONS)} {pair[1]}"


def generate(seed: int, number: int) -> Call:
    """The call of a seed and number."""
    choice = _Choice(random.Random(f"{seed}/{number}"))
    if choice.random.random() < 0.12:
        return Call(seed, number, _syntax(choice))
    surface = choice.random.choice(_surfaces())
    text = surface.text
    if text.startswith("TENSOR"):
        text = text.replace("TENSOR", choice.tensor(), 1)
    if text.startswith("FITTING"):
        layer = text.removeprefix("FITTING ")
        text = f"{layer}({', '.join(['2'] * choice.random.randrange(4))})"
    return Call(seed, number, f"{text}({choice.arguments(surface.parameters)}){surface.after}")


_child = Child("tools.fuzz.calling")


def judge(call: Call, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a call's outcome: an error without a code, a crash, a hang, or a changed library."""
    outcome = _child.ask({"number": call.number, "text": call.text})
    if outcome["kind"] in ("value", "coded", "binding"):
        skipped[outcome["kind"]] += 1
        return None
    return Finding(outcome["kind"], call, outcome["detail"])
