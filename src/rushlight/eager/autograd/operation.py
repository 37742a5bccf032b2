"""Nodes of operators: what a call saves, and how its gradients are computed from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.derive import Rule, derivative_plan, traced, uses_data
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import Node
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import STATE, Key, bit, keys_of
from rushlight.eager.execution.decompose import replay
from rushlight.eager.execution.operands import attribute_key, flatten, form_key, structure_of
from rushlight.eager.form import Form
from rushlight.eager.handle import Handle
from rushlight.support.errors import fail


# Keys that let a rule run as one program: anyone else wants to see its calls.
_ALONE = bit(Key.CPU) | bit(Key.AUTOGRAD)


def needed_of(flat: Sequence[Any]) -> tuple[bool, ...]:
    """For each tensor or number, whether a gradient is wanted."""
    return tuple([isinstance(item, Handle) and requires(item) for item in flat])


def title(name: str) -> str:
    """PyTorch's way of naming nodes: `log_softmax` becomes `LogSoftmax`."""
    return "".join([part[:1].upper() + part[1:] for part in name.split("_")])


class OperatorNode(Node):
    """The node of one operator call. Saves exactly what its rule reads for the gradients that are wanted."""

    __slots__ = ("_attrs", "_forms", "_key", "_needed", "_released", "_rule", "_saved", "_structure")

    def __init__(
        self,
        rule: Rule,
        operands: tuple[Any, ...],
        attrs: Mapping[str, Any],
        needed: tuple[bool, ...],
        results: Sequence[Handle],
        edges: Sequence[Any] | None = None,
        replaced: Mapping[int, Any] | None = None,
    ) -> None:
        """`replaced` has, by position of an operand, what to save in its stead, where a write has changed it."""
        flat = flatten(operands)
        if edges is None:
            edges = [edge_of(item) if wanted else None for item, wanted in zip(flat, needed, strict=True)]
        super().__init__(edges)
        rule = rule.for_results(len(results))
        self._rule = rule
        self._needed = needed
        self._structure = structure_of(operands)
        self._attrs = {name: attrs[name] for name in rule.needs if name in attrs} if attrs else {}
        self._forms = [result.form for result in results]
        self._released = False
        self._save(operands, results, replaced or {})

    def _save(self, operands: tuple[Any, ...], results: Sequence[Handle], replaced: Mapping[int, Any]) -> None:
        rule = self._rule
        self._key = (rule.owner, attribute_key(self._attrs), self._structure, self._needed)
        names, values, used = reads(rule, operands, self._attrs, self._needed, [result.form for result in results])
        uses = iter(used)
        saved: list[Any] = []
        for name, value in zip(names, values, strict=True):
            output: int | None = None
            if name in rule.operands:
                value = replaced.get(rule.operands.index(name), value)
            else:
                output = rule.results.index(name)
                value = results[output]
            if isinstance(value, tuple):
                saved.append(tuple([None if item is None else _kept(item, next(uses), None) for item in value]))
            else:
                saved.append(None if value is None else _kept(value, next(uses), output))
        self._saved: Any = tuple(saved)

    def name(self) -> str:
        """PyTorch's name of the node, such as MulBackward0."""
        return title(self._rule.owner.name.rstrip("_")) + "Backward0"

    def saved_tensors(self) -> list[Any]:
        """What the rule needs, in its order, unpacked and checked; G001 after release."""
        if self._released:
            fail("G001", f"backward: {self.name()} was run before, and what it saved is freed", frame=self.frame)
        return [
            tuple([self._unpacked(item) for item in part]) if isinstance(part, tuple) else self._unpacked(part)
            for part in self._saved
        ]

    def _unpacked(self, item: Any) -> Any:
        return item.unpack(self, self.frame) if isinstance(item, SavedTensor) else item

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """Gradients of the operands: by one executable, or call by call where those calls are dispatched on."""
        saved = self.saved_tensors()
        arrived = [*gradients, *[None] * (len(self._forms) - len(gradients))]
        values = [*arrived, *saved]
        flat = flatten(values)
        keys = keys_of(tuple(flat)) | STATE.included
        if create_graph or keys & ~_ALONE & ~STATE.excluded or not keys & bit(Key.CPU):
            return self._call_by_call(values, flat)
        key = (self._key, structure_of(values), *[form_key(item) for item in flat])
        plan = derivative_plan(self._rule, self._attrs, key, self._structure, self._needed, values)
        return plan.run(flat, owned)

    def _call_by_call(self, values: Sequence[Any], flat: Sequence[Any]) -> Sequence[Any]:
        graph, numbers = traced(self._rule, self._attrs, self._structure, self._needed, values)
        outputs = replay(graph, flat)
        return [None if number is None else outputs[number] for number in numbers]

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed what it saved."""
        return self._released

    def release(self) -> None:
        """Frees what was saved."""
        self._saved = ()
        self._released = True


def reads(
    rule: Rule, operands: tuple[Any, ...], attrs: Mapping[str, Any], needed: tuple[bool, ...], results: Sequence[Form]
) -> tuple[list[str], list[Any], tuple[bool, ...]]:
    """What a rule needs of operands and results: names, values (forms, for results), and whether elements are read."""
    found: dict[str, Any] = dict(zip(rule.operands, operands, strict=True))
    found |= dict(zip(rule.results, results, strict=True))
    names = [name for name in rule.needs if name in found]
    values = [found[name] for name in names]
    structure = structure_of(operands)
    key = (rule.owner, attribute_key(attrs), structure, tuple(results), *[form_key(value) for value in values])
    return names, values, uses_data(rule, attrs, key, structure, needed, results, values)


def _kept(item: Any, used: bool, output: int | None) -> Any:
    """What to keep of a tensor or a number: all of it, or its form where only that is read."""
    if not isinstance(item, Handle):
        return item
    return SavedTensor(item, output) if used else item.form
