"""Buckets: gradients of several parameters in one memory, which one collective reduces."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import zeros
from rushlight.eager.memory import array_of, tensor_of
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import DType
from rushlight.ir.process_group import ProcessGroup, Work
from rushlight.ir.type import CPU, dense_order
from rushlight.support.errors import require


class GradBucket:
    """The gradients of some parameters, as views of one memory, each laid out as its parameter."""

    def __init__(self, index: int, parameters: Sequence[Parameter], is_last: bool) -> None:
        first = parameters[0]
        self._index = index
        self._is_last = is_last
        self._parameters = list(parameters)
        self._buffer: Tensor = zeros(sum([one.numel() for one in parameters]), dtype=first.dtype, device=first.device)
        self._views = self._views_of(self._buffer)

    def index(self) -> int:
        """The number of the bucket: buckets are reduced in this order."""
        return self._index

    def is_last(self) -> bool:
        """Whether no bucket comes after it."""
        return self._is_last

    def buffer(self) -> Tensor:
        """The memory of all its gradients, as a tensor of one dim."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Put other values into the memory. A002 for a tensor of another size."""
        require(tensor.numel() == self._buffer.numel(), "A002", "set_buffer: another number of elements", tensor=tensor)
        with no_grad():
            self._buffer.copy_(tensor.reshape(-1))

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of the memory."""
        return list(self._views)

    def parameters(self) -> list[Parameter]:
        """The parameters, in the order of their gradients."""
        return list(self._parameters)

    def narrowed(self, dtype: DType) -> GradBucket:
        """Return a bucket of the same gradients in another dtype, in memory of its own."""
        other = copy.copy(self)
        other._buffer = self._buffer.to(dtype)
        other._views = other._views_of(other._buffer)
        return other

    def take(self, place: int, gradient: Tensor | None) -> None:
        """Put a parameter's gradient, or zeros, into the memory, unless it lies there."""
        view = self._views[place]
        with no_grad():
            if gradient is None:
                view.zero_()
            elif not _same_place(gradient, view):
                view.copy_(gradient)

    def give(self, place: int) -> None:
        """Let the reduced gradient be that of its parameter."""
        self._parameters[place].grad = self._views[place]

    def reduce(self, group: ProcessGroup, op: object) -> Work:
        """Begin the reduction of the memory over all ranks."""
        buffer = self._buffer
        buffer.version.value += 1
        array = array_of(buffer)
        if buffer.device == CPU:
            work = group.all_reduce(array, op)
            work.go_on()
            return work
        copy = array.copy()  # of memory that the host does not see
        work = group.all_reduce(copy, op)
        work.add_done_callback(lambda: self.set_buffer(tensor_of(copy)))
        work.go_on()
        return work

    def _views_of(self, buffer: Tensor) -> list[Tensor]:
        views: list[Tensor] = []
        start = 0
        for one in self._parameters:
            strides = one.stride() if dense_order(one.form.shape, one.form.strides) is not None else _row_major(one)
            views.append(buffer.as_strided(tuple(one.shape), strides, start))
            start += one.numel()
        return views


def _row_major(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.new_empty(tuple(tensor.shape), device="meta").stride())


def _same_place(one: Tensor, other: Tensor) -> bool:
    return one.backing is other.backing and one.offset == other.offset and one.form is other.form


def buckets_of(
    parameters: Sequence[Parameter], first_bytes: int, most_bytes: int
) -> tuple[list[GradBucket], dict[int, tuple[int, int]]]:
    """Return buckets of parameters as their gradients are about to come, the last parameter first.

    A bucket holds one dtype of one device, and about `most_bytes`, the first one `first_bytes`: the sooner one is full,
    the sooner it is on its way. Beside them the bucket and place of each parameter.
    """
    groups: list[list[int]] = []
    open_groups: dict[tuple[object, object], tuple[list[int], int]] = {}
    for number in reversed(range(len(parameters))):
        one = parameters[number]
        key, nbytes = (one.dtype, one.device), one.numel() * one.dtype.itemsize
        members, held = open_groups.get(key, ([], 0))
        limit = first_bytes if not groups or members is groups[0] else most_bytes
        if not members or held + nbytes > limit:
            members, held = [], 0
            groups.append(members)
        members.append(number)
        open_groups[key] = members, held + nbytes
    last = len(groups) - 1
    buckets = [GradBucket(at, [parameters[number] for number in group], at == last) for at, group in enumerate(groups)]
    places = {number: (at, place) for at, group in enumerate(groups) for place, number in enumerate(group)}
    return buckets, places
