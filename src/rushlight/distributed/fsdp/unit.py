"""Units of sharded parameters: gathered together before they are used, and freed afterwards.

Between uses a rank keeps its part of each parameter. The whole parameters are tensors of their own, on which the model
computes and gradients arrive; while the unit is sharded they have no memory. What autograd saves of them is a note of
which parameter it was, so that a backward pass gathers the unit again. A parameter that other ranks divide too, as
tensor parallelism does, is whole when this rank has its part among those: what is gathered and freed is that part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.fsdp.packing import Packing
from rushlight.distributed.fsdp.policy import MixedPrecisionPolicy
from rushlight.distributed.group import ProcessGroup
from rushlight.distributed.tensor.dtensor import DTensor, distribute_tensor
from rushlight.distributed.tensor.spec import DTensorSpec
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import STATE
from rushlight.eager.memory import array_of, tensor_of
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import DType
from rushlight.ir.placement import Replicate, Shard
from rushlight.ir.process_group import Buffer, Work
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


@frozen(eq=False)
class Place:
    """Where a parameter stands: in these modules, under these names. Tied parameters have several places."""

    modules: tuple[Module, ...]
    names: tuple[str, ...]

    def put(self, parameter: Parameter) -> None:
        """Let the modules have this parameter."""
        for module, name in zip(self.modules, self.names, strict=True):
            module._parameters[name] = parameter


@frozen(eq=False)
class Saved:
    """What autograd keeps of a whole parameter, or a view of one."""

    unit: Unit
    number: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    lies: tuple[DTensorSpec, tuple[int, ...], tuple[int, ...]] | None  # of a divided tensor, with its sizes and strides


class Order:
    """The order in which a model's units are used. What comes next is gathered while the one before is computed."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._used: list[Unit] = []

    def used(self, unit: Unit, first: bool) -> None:
        """Note a use in a forward, and begin to gather what came after it in the last one."""
        if first:
            self.units, self._used = self._used, []
        self._used.append(unit)
        self._start(unit, 1, unit.ahead_forward)

    def used_again(self, unit: Unit) -> None:
        """Begin to gather what was used before a unit, as a backward pass comes to it."""
        self._start(unit, -1, unit.ahead_backward)

    def _start(self, unit: Unit, step: int, said: Sequence[Unit] | None) -> None:
        if said is not None:
            for one in said:
                one.start()
            return
        known = self._used if step < 0 or not self.units else self.units
        if unit in known:
            place = known.index(unit) + step
            if 0 <= place < len(known):
                known[place].start()


class Unit:
    """Parameters that are gathered and reduced together; none where all are of parts with own units."""

    def __init__(
        self, parameters: Sequence[tuple[Parameter, Place]], mesh: DeviceMesh, policy: MixedPrecisionPolicy
    ) -> None:
        self.mesh = mesh
        self.policy = policy
        self.reshards_after_forward = True
        self.synchronises = True
        self.ahead_forward: Sequence[Unit] | None = None  # what is gathered when this is used, if the user says so
        self.ahead_backward: Sequence[Unit] | None = None
        self.order = Order()
        self.root = self  # of the module that holds those of all units of a model
        self.places = [place for _, place in parameters]
        self.sharded = [_sharded(one, mesh) for one, _ in parameters]
        self.packing = Packing([tuple(_held(one).shape) for one, _ in parameters], mesh.shape[-1])
        self._specs = [one._spec if isinstance(one, DTensor) else None for one, _ in parameters]
        self.whole = [
            Parameter(self._shown(number, self._nothing(number)), one.requires_grad)
            for number, (one, _) in enumerate(parameters)
        ]
        self._gathering: tuple[Work, Buffer] | None = None
        self._arrived: set[int] = set()
        self.is_whole = False
        for number, one in enumerate(self.whole):
            if one.requires_grad:
                one.register_post_accumulate_grad_hook(self._hook(number))
        self._put(self.sharded)

    def _nothing(self, number: int) -> Tensor:
        """What is held of a parameter without memory of its own."""
        return zeros(1, dtype=self.dtype).expand(self.packing.shapes[number])

    def _shown(self, number: int, held: Tensor) -> Tensor:
        """A whole parameter of which this rank holds something."""
        spec = self._specs[number]
        return held if spec is None else DTensor(held, spec, tuple(self.sharded[number].shape))

    def _put(self, parameters: Sequence[Any]) -> None:
        for place, parameter in zip(self.places, parameters, strict=True):
            place.put(parameter)

    @property
    def group(self) -> ProcessGroup:
        """The ranks that share the parameters."""
        return self.mesh.get_group(self.mesh.ndim - 1)

    # Parameters.

    @property
    def dtype(self) -> DType:
        """The dtype of whole parameters."""
        return self.policy.param_dtype or self.sharded[0].dtype

    def _take_over(self) -> None:
        """Go on with what modules were given in place of their parts, as by `load_state_dict(assign=True)`."""
        for number, (place, own) in enumerate(zip(self.places, self.sharded, strict=True)):
            given = place.modules[0]._parameters[place.names[0]]
            if given is not own:
                fits = isinstance(given, DTensor) and given._spec is own._spec and given.shape == own.shape
                message = f"fully_shard: parameter {place.names[0]!r} was replaced by one that is not divided as it was"
                require(fits, "A002", message, own=own._spec, given=given)
                assert isinstance(given, DTensor)
                self.sharded[number] = given

    def start(self) -> None:
        """Begin to gather, unless that has begun."""
        if self.is_whole or self._gathering is not None or not self.places:
            return
        self._take_over()
        mine = self.packing.counts[self.group.rank]
        part: Buffer = np.empty(mine, self.dtype.numpy)
        self.packing.join([array_of(one._local_tensor) for one in self.sharded], part)
        whole: Buffer = np.empty(self.packing.numel, self.dtype.numpy)
        work = self.group.all_gather(whole, part, self.packing.counts)
        work.go_on()
        self._gathering = work, whole

    def unshard(self) -> None:
        """Let the modules have whole parameters."""
        if self.is_whole or not self.places:
            return
        self.start()
        assert self._gathering is not None
        work, buffer = self._gathering
        work.wait()
        self._gathering = None
        arrays = [np.empty(shape, self.dtype.numpy) for shape in self.packing.shapes]
        self.packing.gathered(buffer, arrays)
        for number, (one, array) in enumerate(zip(self.whole, arrays, strict=True)):
            one.data = self._shown(number, tensor_of(array))
        self.is_whole = True
        self._put(self.whole)

    def reshard(self) -> None:
        """Let the modules have the parts again, and free the whole parameters."""
        if self._gathering is not None:  # what was begun ahead, and not used
            self._gathering[0].wait()
            self._gathering = None
        if not self.is_whole:
            return
        for number, one in enumerate(self.whole):
            one.data = self._shown(number, self._nothing(number))
        self.is_whole = False
        self._put(self.sharded)

    def write_back(self) -> None:
        """Let the parts have what the whole parameters are now."""
        if not self.is_whole:
            return
        rows = self.packing.rows[self.group.rank]
        with no_grad():
            for one, whole, (first, last) in zip(self.sharded, self.whole, rows, strict=True):
                one._local_tensor.copy_(_held(whole)[first:last])

    def pack(self, tensor: Tensor) -> Tensor | Saved:
        """What autograd keeps of a tensor: of a whole parameter, or a view of it, a note."""
        held = _held(tensor)
        for number, one in enumerate(self.whole):
            if held.backing is _held(one).backing:
                lies = (tensor._spec, *_layout(tensor)) if isinstance(tensor, DTensor) else None
                return Saved(self, number, *_layout(held), held.offset, lies)
        return tensor

    # Gradients.

    def _hook(self, number: int) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            if not self._arrived and STATE.engaged is not None:
                STATE.engaged.callbacks.append(self.finish)
            self._arrived.add(number)
            if len(self._arrived) == sum([one.requires_grad for one in self.whole]):
                self.finish()

        return hook

    def finish(self) -> None:
        """Reduce the gradients that have come, and shard the unit."""
        arrived, self._arrived = sorted(self._arrived), set()
        if arrived and self.synchronises:
            self._reduce(arrived)
        self.reshard()

    def _reduce(self, numbers: Sequence[int]) -> None:
        """Give each rank its part of the mean of the gradients of all."""
        dtype = self.policy.reduce_dtype or self.dtype
        gradients = [self._gradient(number) for number in numbers]
        packing = Packing([self.packing.shapes[number] for number in numbers], self.mesh.shape[-1])
        whole: Buffer = np.empty(packing.numel, dtype.numpy)
        packing.scattered([array_of(one) for one in gradients], whole)
        rank = self.group.rank
        part: Buffer = np.empty(packing.counts[rank], dtype.numpy)
        self.group.reduce_scatter(part, whole, packing.counts, "avg").wait()
        for axis in range(self.mesh.ndim - 1):
            self.mesh.get_group(axis).all_reduce(part, "avg").wait()
        for number, one in zip(numbers, packing.parts(rank, part), strict=True):
            self._add(self.sharded[number], tensor_of(np.array(one, self.sharded[number].dtype.numpy)))
            self.whole[number].grad = None

    def _gradient(self, number: int) -> Tensor:
        """What this rank holds of the gradient of a whole parameter, which lies as that does."""
        gradient, spec = self.whole[number].grad, self._specs[number]
        assert gradient is not None
        if spec is None or not isinstance(gradient, DTensor):
            return gradient
        with no_grad():
            return gradient.redistribute(placements=spec.placements, axis_order=spec.order)._local_tensor

    def _add(self, parameter: DTensor, local: Tensor) -> None:
        gradient = DTensor(local, parameter._spec, tuple(parameter.shape))
        with no_grad():
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def unpack(kept: Tensor | Saved) -> Tensor:
    """What a backward pass takes for what was kept: of a whole parameter, which is gathered again if it must be."""
    if not isinstance(kept, Saved):
        return kept
    unit = kept.unit
    if not unit.is_whole:
        if STATE.engaged is not None:
            STATE.engaged.callbacks.append(unit.finish)
        unit.unshard()
        unit.order.used_again(unit)
    held = _held(unit.whole[kept.number]).detach().as_strided(kept.shape, kept.strides, kept.offset)
    return held if kept.lies is None else DTensor(held, *kept.lies)


def _sharded(parameter: Parameter, mesh: DeviceMesh) -> DTensor:
    """A parameter divided along the last axis of a mesh; what is divided already is cut by that first."""
    placements = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
    if not isinstance(parameter, DTensor):
        return distribute_tensor(parameter, mesh, placements)
    own, ours = parameter._spec, range(mesh.ndim)
    order = [*[mesh.ndim + axis for axis in own.order], *ours]
    spec = DTensorSpec(mesh.beside(own.mesh), [*placements, *own.placements], order)
    part = distribute_tensor(parameter._local_tensor.detach(), mesh, placements)
    made: Any = Parameter(DTensor(part._local_tensor, spec, tuple(parameter.shape)), parameter.requires_grad)
    return made


def _held(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor: its part of a divided one."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _layout(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
