"""The gradients that a program's inputs have before a call: what stands for them in a trace, and what it relies on.

Each call reads those that the program computes with. Whether there is one is guarded only where the program reads
`grad`: a step that drops gradients, or that adds the first ones to nothing, is one program for both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass

from rushlight.capture.source import ArgumentSource, GradientSource, Source
from rushlight.eager.autograd.accumulate import is_recorded
from rushlight.eager.autograd.history import requires
from rushlight.eager.handle import SPARSE, Handle, gradient_of
from rushlight.eager.tracing import Tracer
from rushlight.ir.type import TensorType, row_major

Owner = Handle | ArgumentSource


@dataclass(eq=False, slots=True)
class _Slot:
    """The gradient of one input.

    `tensor` is what the traced function sees, `given` the tensor itself, `before` its gradient, and `stands` what is in
    that one's place: itself, a tensor without data, a placeholder if there may be none, or None.
    """

    tensor: Handle
    owner: Owner
    given: Handle
    before: Handle | None
    stands: Handle | None

    @property
    def open(self) -> bool:
        """Whether the program is right with a gradient and without."""
        return self.before is None and self.stands is not None

    @property
    def now(self) -> Handle | None:
        """What the function has left there."""
        return None if self.tensor.gradient is None else self.tensor.gradient.grad


class Gradients:
    """The gradients of all inputs of one trace. A program for an example without gradients has placeholders.

    `unset` are the tensors, by identity, that are to have none: an earlier trace depended on it.
    """

    placeholders = True

    def __init__(self, tracer: Tracer, sources: dict[int, Source]) -> None:
        self.unset: Collection[int] = ()
        self._tracer = tracer
        self._sources = sources
        self._slots: dict[int, _Slot] = {}

    def hold(self, tensor: Handle, owner: Owner, given: Handle, type_: TensorType) -> None:
        """Puts in place what stands for the gradient of an input of a type. `given` is what `tensor` stands for."""
        record = given.gradient
        before = None if record is None else record.grad
        slot = self._slots[id(tensor)] = _Slot(tensor, owner, given, before, None)
        if before is not None and (before.keys & SPARSE or is_recorded(before)):
            slot.stands = before  # it is refused where the program reads it
        elif before is not None:
            layout = row_major(type_) if before.form.is_contiguous else before.form.type
            slot.stands = before if tensor is given else self._tracer.fake(layout)
            self._sources[id(slot.stands)] = GradientSource(owner, before.form)
        elif self.placeholders and id(given) not in self.unset and requires(given):
            slot.stands = self._tracer.fake(type_)
            self._sources[id(slot.stands)] = GradientSource(owner, given.form)
        if slot.stands is not before or tensor is not given:
            gradient_of(tensor).grad = slot.stands

    def restore(self) -> None:
        """Gives all tensors the gradients that they had; right also when it is begun again."""
        for slot in self._slots.values():
            if slot.tensor is slot.given and slot.tensor.gradient is not None:
                slot.tensor.gradient.grad = slot.before

    def changed(self) -> Iterator[tuple[Owner, Handle | None]]:
        """The inputs whose gradients the program replaces, and by what."""
        for slot in self._slots.values():
            if slot.now is not slot.stands:
                yield slot.owner, slot.now

    def absent(self) -> list[Owner]:
        """Those of which the program relies on that they have no gradient."""
        noted = self._tracer.gradients_read
        without = [slot for slot in self._slots.values() if slot.stands is None]
        return [slot.owner for slot in without if id(slot.given) in self.unset or id(slot.tensor) in noted]

    def present(self) -> list[Owner]:
        """Those of which the program relies on that they have one."""
        return [slot.owner for slot in self._slots.values() if slot.before is not None and self._is_read(slot)]

    def relied_on(self, used: Set[int]) -> set[int]:
        """The tensors, by identity, of which the program relies on a gradient that the example does not have.

        `used` are the calls that the graph reads, by identity.
        """
        return {
            id(slot.given)
            for slot in self._slots.values()
            if slot.open and (self._is_read(slot) or _reads(used, slot.stands))
        }

    def _is_read(self, slot: _Slot) -> bool:
        return self._tracer.gradients_read.get(id(slot.tensor)) is slot.stands


def _reads(used: Set[int], placeholder: Handle | None) -> bool:
    node = None if placeholder is None else placeholder.node
    return node is not None and (id(node.cell.node.call) in used or id(node.node.call) in used)
