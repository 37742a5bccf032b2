"""Kills in one process: before or after any call that leaves the harness, and any write of the state."""

import random
from dataclasses import dataclass, field
from typing import Any


class Killed(BaseException):
    """The process is gone; nothing catches it."""


@dataclass
class Killer:
    """Kills with a probability, until its kills are used up."""

    random: random.Random
    probability: float
    left: int
    places: list[str] = field(default_factory=list)

    def pass_by(self, place: str) -> None:
        if self.left > 0 and self.random.random() < self.probability:
            self.left -= 1
            self.places.append(place)
            raise Killed(place)


class Mortal:
    """Any object, whose methods may be the last thing that happens."""

    def __init__(self, target: Any, killer: Killer) -> None:
        self._target, self._killer = target, killer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*arguments: Any) -> Any:
            self._killer.pass_by(f"before {name}")
            result = value(*arguments)
            self._killer.pass_by(f"after {name}")
            return result

        return call
