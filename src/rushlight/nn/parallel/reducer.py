"""Gradients of many ranks as one: hooks fill buckets, and each bucket is reduced as soon as it is full.

Buckets are sent in the order of their numbers on every rank, while the backward pass goes on. The pass ends with all
gradients in place: the hook of the gradient that comes last waits for the reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from rushlight.eager.autograd.accumulate import AccumulateGrad
from rushlight.eager.autograd.node import Node
from rushlight.eager.pytree import flatten_tree
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.process_group import ProcessGroup, Work
from rushlight.nn.parallel.bucket import GradBucket, buckets_of
from rushlight.support.errors import fail, require


class Waitable(Protocol):
    """What a communication hook returns: once `wait` has returned, the reduced gradients."""

    def wait(self) -> object:
        """Wait, and return a tensor or a list of one."""
        ...


CommunicationHook = Callable[[object, GradBucket], Waitable | Tensor]


def reduced_value(returned: Waitable | Tensor) -> object:
    """Wait for what a communication hook has returned, and return its value: a tensor if it names one."""
    value = returned if isinstance(returned, Tensor) else returned.wait()
    return value[0] if isinstance(value, (list, tuple)) else value


class Reducer:
    """The buckets of a model's parameters, and the state of the pass that fills them.

    `names` are those of the parameters in messages.
    """

    def __init__(
        self, parameters: Sequence[Parameter], names: Sequence[str], group: ProcessGroup, first: int, most: int
    ) -> None:
        self.group = group
        self.names = names
        self.parameters = parameters
        self.buckets, self._places = buckets_of(parameters, first, most)
        self.hook: CommunicationHook | None = None
        self.hook_state: object = None
        self._handles = [
            one.register_post_accumulate_grad_hook(self._arrived(number)) for number, one in enumerate(parameters)
        ]
        self._missing: set[int] = set()  # parameters whose gradients the pass has not given yet
        self._unused: set[int] = set()
        self._left: list[int] = []
        self._sent: list[Work | Waitable | Tensor] = []
        self._active = False
        self._finds_unused = False
        self.factor = 1.0  # of the reduced gradients

    def prepare(self, outputs: object, find_unused: bool) -> None:
        """Begin a pass. With `find_unused` parameters that the outputs do not depend on are ready at once.

        W006 where the pass before did not give all gradients.
        """
        if self._active:
            missing = [self.names[number] for number in sorted(self._missing)]
            hint = "pass find_unused_parameters=True, or let every parameter take part in the loss"
            fail(
                "W006",
                "DistributedDataParallel: some gradients of the last step never came",
                missing=missing,
                hint=hint,
            )
        self._begin(find_unused)
        self._unused = self._missing - self._reached(outputs) if find_unused else set()
        for number in sorted(self._unused):
            self._fill(number, self.parameters[number].grad)
        if not self._missing:
            self._finish()

    def take_part(self, find_unused: bool) -> None:
        """Make the collectives of a pass, with zeros as this rank's gradients, and take over the others'."""
        self._begin(find_unused)
        self._unused = set(self._missing) if find_unused else set()
        for number in sorted(self._missing):
            self._fill(number, None)
        self._finish()

    def _begin(self, find_unused: bool) -> None:
        self._active = True
        self._missing = set(range(len(self.parameters)))
        self._left = [len(bucket.parameters()) for bucket in self.buckets]
        self._sent = []
        self._finds_unused = find_unused

    def _arrived(self, number: int) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            if not self._active:
                return
            require(
                number in self._missing,
                "W006",
                f"DistributedDataParallel: the gradient of {self.names[number]} came twice in one step",
                hint="call the model once in a step, or the earlier times within no_sync()",
            )
            self._fill(number, parameter.grad)
            if not self._missing:
                self._finish()

        return hook

    def _fill(self, number: int, gradient: Tensor | None) -> None:
        at, place = self._places[number]
        self.buckets[at].take(place, gradient)
        self._missing.discard(number)
        self._left[at] -= 1
        while len(self._sent) < len(self.buckets) and self._left[len(self._sent)] == 0:
            self._sent.append(self._send(self.buckets[len(self._sent)]))

    def _send(self, bucket: GradBucket) -> Work | Waitable | Tensor:
        if self.hook is None:
            return bucket.reduce(self.group, "avg")
        return self.hook(self.hook_state, bucket)

    def _finish(self) -> None:
        """Wait for the reductions, and put the gradients in place. One that no rank has used stays as it is."""
        self._active = False
        kept = self._unused_everywhere()
        for bucket, work in zip(self.buckets, self._sent, strict=True):
            value = reduced_value(work)
            if isinstance(value, Tensor) and value is not bucket.buffer():
                bucket.set_buffer(value)
            if self.factor != 1.0:
                bucket.set_buffer(bucket.buffer().detach() * self.factor)
        for number, (at, place) in self._places.items():
            if number not in kept:
                self.buckets[at].give(place)

    def _unused_everywhere(self) -> set[int]:
        if not self._finds_unused:
            return set()
        used = np.ones(len(self.parameters), np.uint8)
        used[list(self._unused)] = 0
        self.group.all_reduce(used, "max").wait()
        return {number for number in range(len(self.parameters)) if not used[number]}

    def _reached(self, outputs: object) -> set[int]:
        """Return the parameters that a tensor among the outputs depends on."""
        numbers = {id(one): number for number, one in enumerate(self.parameters)}
        ends = [leaf for leaf in flatten_tree(outputs)[0] if isinstance(leaf, Tensor)]
        found = {numbers[id(leaf)] for leaf in ends if id(leaf) in numbers}
        for node in _nodes([leaf.grad_fn for leaf in ends]):
            if isinstance(node, AccumulateGrad) and id(node.variable) in numbers:
                found.add(numbers[id(node.variable)])
        return found


def _nodes(starts: Iterable[Node | None]) -> Iterable[Node]:
    """All nodes of a tape from some on, each once."""
    waiting = [node for node in starts if node is not None]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += [edge[0] for edge in node.edges if edge is not None]
