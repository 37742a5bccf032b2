"""Programs of `rushlight.testing.making` in words: calls of any operator as statements that hold at any sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType
from rushlight.testing.programs import Input as Drawn
from rushlight.testing.programs import Of, Ref, Step
from rushlight.testing.programs import Program as Made
from tools.fuzz.program import Array, Input


class Wording:
    """The statements of a program. `names` are those of its values; inputs come first.

    `written` are the values that are written to; for views, the value whose memory they show.
    """

    def __init__(self, made: Made) -> None:
        self.names: dict[int, str] = {}
        self.inputs: list[int] = []
        self.statements: list[str] = []
        self.written: set[int] = set()
        self._bases: dict[int, int] = {}  # of views, and of what writes return
        steps: list[tuple[int, Step]] = []
        place = 0
        for part in made.parts:
            if isinstance(part, Drawn):
                self.names[place] = f"v{len(self.inputs)}"
                self.inputs.append(place)
            elif isinstance(part, Step):
                steps.append((place, part))
            place += 1 if isinstance(part, Drawn) else part.results
        self.count = len(self.inputs)
        for place, step in steps:
            self._call(place, step)

    @property
    def parameters(self) -> set[str]:
        """The names of the inputs."""
        return {self.names[place] for place in self.inputs}

    def fresh(self) -> str:
        """A name for another value."""
        self.count += 1
        return f"v{self.count - 1}"

    def _call(self, place: int, step: Step) -> None:
        targets = [self.fresh() for _ in range(step.results)]
        self.names.update({place + number: name for number, name in enumerate(targets)})
        listed = step.op.schema.results[0].type.endswith("[]")
        left = f"{', '.join(targets)}{',' * (listed and len(targets) == 1)} = "
        given = {**step.op.named(step.operands, step.attrs)}
        first = step.operands[0] if step.operands else None
        if isinstance(first, Ref) and (step.writes or step.op.schema.results[0].alias is not None):
            base = self._bases.get(first.value, first.value)
            self._bases.update({place + number: base for number in range(step.results)})
            if step.writes:
                self.written.add(base)
        if step.writes:
            target = step.op.schema.operands[0].name
            owner = given.pop(target)
            self.statements.append(f"{left}{self.names[owner.value]}.{step.op.name}_({self._words(given)})")
        else:
            self.statements.append(f"{left}torch.ops.OPERATORS[{step.op.name!r}]({self._words(given)})")

    def _words(self, given: Mapping[str, Any]) -> str:
        return ", ".join([f"{name}={self._word(value)}" for name, value in given.items()])

    def _word(self, value: Any) -> str:
        if isinstance(value, Ref):
            return self.names[value.value]
        if isinstance(value, Of):
            return " * ".join([f"{self.names[owner]}.shape[{dim}]" for owner, dim in value.dims])
        if isinstance(value, (tuple, list)):
            return f"({''.join([f'{self._word(item)}, ' for item in value])})"
        if isinstance(value, DType):
            return f"torch.{value.name}"
        if isinstance(value, float) and not np.isfinite(value):
            return f'float("{value}")'
        return repr(value) if isinstance(value, (bool, int, float, complex, str, type(None))) else repr(str(value))


def input_like(array: Array, requires_grad: bool) -> Input:
    """An input that holds an array's elements at the array's strides."""
    strides = tuple([step // array.itemsize for step in array.strides])
    extent = 1 + sum([(size - 1) * stride for size, stride in zip(array.shape, strides, strict=True)])
    values = np.zeros(extent if array.size else 0, array.dtype)
    if array.size:
        np.lib.stride_tricks.as_strided(values, array.shape, array.strides)[...] = array
    return Input(_name_of(array), array.shape, strides, 0, values, requires_grad)


def _name_of(array: Array) -> str:
    return str(array.dtype)
