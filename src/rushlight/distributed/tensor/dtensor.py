"""DTensor: one tensor of which each rank of a mesh holds a part. PyTorch's names.

    mesh = init_device_mesh("cpu", (4,))
    x = distribute_tensor(rl.ones(8, 3), mesh, [Shard(0)])
    (x @ x.T).redistribute(placements=[Replicate()]).to_local()

Operators come to it through `__torch_dispatch__` alone. A gradient lies as what it is the gradient of, where that is
partial, whole on each rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.group import ProcessGroup
from rushlight.distributed.tensor import dispatch
from rushlight.distributed.tensor.layout import shape_of
from rushlight.distributed.tensor.prepared import Divided, answer
from rushlight.distributed.tensor.redistribute import redistributed
from rushlight.distributed.tensor.spec import (
    DTensorSpec,
    Placed,
    normalized,
    plain_sizes,
    reduced_placements,
    sizes_of,
    text_of,
)
from rushlight.eager.autograd.function import Function
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import share
from rushlight.eager.interception import answer_prepared
from rushlight.eager.override.foreign import disabled
from rushlight.eager.override.operator_function import OperatorFunction
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.placement import Placement, Replicate, Shard
from rushlight.ir.type import TensorType
from rushlight.nn.modules.module import Module
from rushlight.ops.collective import broadcast_from
from rushlight.ops.dims import same_shape
from rushlight.support.errors import fail, require
from rushlight.sym import eq, guard

Shape = tuple[Any, ...]


class DTensor(Tensor):
    """A tensor of which each rank of a mesh holds a part, as its placements say."""

    __torch_function__ = disabled
    _local_tensor: Tensor
    _spec: DTensorSpec
    _is_copy: ClassVar[bool] = False
    __tensor_context__ = "_spec"

    @staticmethod
    def __new__(
        cls: type[DTensor],
        local_tensor: Tensor,
        spec: DTensorSpec,
        shape: Sequence[int],
        stride: Sequence[int] | None = None,
    ) -> DTensor:
        """The tensor of this shape of which this rank holds `local_tensor`. Use `from_local` or `distribute_tensor`."""
        self = Tensor._make_wrapper_subclass(
            cls, shape, strides=stride, dtype=local_tensor.dtype, device=local_tensor.device
        )
        self._local_tensor, self._spec = local_tensor, spec
        return cast(DTensor, self)

    @classmethod
    def __torch_dispatch__(
        cls,
        func: OperatorFunction,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Answers an operator."""
        return dispatch.run(func.operator, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], Placed]:
        return ["_local_tensor"], Placed.of(self._spec)

    @staticmethod
    def __tensor_unflatten__(
        inner: Mapping[str, Tensor], context: Placed, outer_size: Sequence[int], outer_stride: Sequence[int]
    ) -> DTensor:
        local, spec, sizes = inner["_local_tensor"], context.spec, plain_sizes(outer_size)
        if STATE.tracer is not None:
            # The sizes of a part follow from those of the whole: so all ranks' traces are in the same terms.
            for held, expected in zip(local.form.shape, shape_of(spec.box(sizes)), strict=True):
                guard(eq(held, expected))
        return DTensor(local, spec, sizes, plain_sizes(outer_stride))

    @staticmethod
    def __tensor_gradient_context__(context: Placed) -> Placed:
        """How a gradient of what lies so lies."""
        return Placed.of(_gradient_spec(context.spec))

    def __coerce_same_metadata_as_tangent__(self, flattened_context: Placed, expected_type: object = None) -> DTensor:
        """This gradient, lying as a graph expects it to."""
        return cast(DTensor, _Redistribute.apply(self, flattened_context.spec))

    def __tensor_sizes__(self) -> tuple[bool, ...]:
        """Of each dim whether a graph takes its size beside those of the part: of those that are divided."""
        divided = {placement.dim for placement in self._spec.placements if isinstance(placement, Shard)}
        return tuple([dim in divided for dim in range(len(self.form.shape))])

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that it lies on."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """A placement for each axis of the mesh."""
        return self._spec.placements

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The tensor of which each rank holds its `local_tensor`.

        Without `shape` all parts are taken to be of one size. `run_check` asks all ranks whether they agree, and makes
        what is replicated the same. Errors: W025 where a part does not fit.
        """
        require(isinstance(local_tensor, Tensor), "A001", "from_local: a tensor is expected", given=local_tensor)
        chosen = normalized(placements, device_mesh, local_tensor.dim(), "from_local")
        spec = DTensorSpec(device_mesh, chosen)
        whole = _whole_shape(tuple(local_tensor.form.shape), spec) if shape is None else plain_sizes(shape)
        if run_check:
            local_tensor, whole = _agreed(local_tensor, spec, shape)
        _check_part(local_tensor, spec, whole)
        own = chosen if grad_placements is None else grad_placements
        backward = spec.with_placements(reduced_placements(normalized(own, device_mesh, len(whole), "from_local")))
        return cast(DTensor, _FromLocal.apply(local_tensor, spec, backward, whole, stride))

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The part of this rank. `grad_placements` say how the gradient of that lies; as the tensor by default."""
        spec = self._spec
        lies = reduced_placements(spec.placements) if grad_placements is None else grad_placements
        chosen = normalized(lies, spec.mesh, self.dim(), "to_local")
        return cast(Tensor, _ToLocal.apply(self, spec.with_placements(chosen)))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """All of the tensor, on each rank."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        axis_order: Sequence[int] | None = None,
        async_op: bool = False,
        forward_dtype: object = None,
        backward_dtype: object = None,
    ) -> DTensor:
        """The same tensor in other placements. `axis_order` says which axes cut first that shard one dim."""
        mesh = self._spec.mesh if device_mesh is None else device_mesh
        require(mesh is self._spec.mesh, "W021", "redistribute: to another mesh", tensor=self._spec.mesh, mesh=mesh)
        require(placements is not None, "A001", "redistribute: placements are expected", given=placements)
        chosen = normalized(placements, mesh, self.dim(), "redistribute")
        return cast(DTensor, _Redistribute.apply(self, DTensorSpec(mesh, chosen, axis_order)))

    def __create_chunk_list__(self) -> list[Any]:
        """Where this rank's part lies: for checkpoints."""
        return [self._spec.box(tuple(self.shape))]

    def __get_tensor_shard__(self, index: int) -> Tensor:
        """This rank's part, of which there is one: for checkpoints."""
        del index
        return self.to_local()

    # What reads values.

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        return self._read("item").item()

    def tolist(self) -> Any:
        """All elements, in lists."""
        return self._read("tolist").tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """All elements, as an array."""
        return self._read("numpy").numpy(force=force)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._read("numpy").__array__(dtype, copy)

    def __bool__(self) -> bool:
        return bool(self._read("bool"))

    def __float__(self) -> float:
        return float(self._read("float"))

    def __int__(self) -> int:
        return int(self._read("int"))

    def _read(self, call: str) -> Tensor:
        whole = DTensorSpec(self._spec.mesh, [Replicate()] * self._spec.mesh.ndim)
        return redistributed(self._local_tensor, self._spec, whole, tuple(self.form.shape), call, True)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        lies = text_of(self.placements)
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, placements={lies})"


def _make(local: Tensor, spec: DTensorSpec, type_: TensorType) -> DTensor:
    return DTensor(local, spec, sizes_of(type_), cast(Shape, type_.strides))


Divided.kind, Divided.make = DTensor, _make
answer_prepared(DTensor, answer)


# Gradients.


class _FromLocal(Function):
    """A part becomes a divided tensor."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: DTensorSpec, backward: DTensorSpec, shape: Shape, stride: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.spec = backward
        return DTensor(share(local), spec, shape, stride)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        if gradient is None:
            return None, None, None, None, None
        moved = _Redistribute.apply(gradient, ctx.spec)
        return moved.to_local(), None, None, None, None


class _ToLocal(Function):
    """A divided tensor becomes this rank's part."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor, spec: DTensorSpec) -> Any:
        ctx.set_materialize_grads(False)
        ctx.spec, ctx.shape, ctx.stride = spec, tuple(tensor.form.shape), tensor.stride()
        return share(tensor._local_tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        if gradient is None:
            return None, None
        return _FromLocal.apply(gradient, ctx.spec, _gradient_spec(ctx.spec), ctx.shape, ctx.stride), None


class _Redistribute(Function):
    """Other placements."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor, target: DTensorSpec) -> Any:
        ctx.set_materialize_grads(False)
        ctx.spec = _gradient_spec(tensor._spec)
        shape = tuple(tensor.form.shape)
        local = redistributed(tensor._local_tensor, tensor._spec, target, shape, "redistribute", False)
        return DTensor(share(local), target, shape, tensor.stride())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        return (None if gradient is None else _Redistribute.apply(gradient, ctx.spec)), None


def _gradient_spec(spec: DTensorSpec) -> DTensorSpec:
    return spec.with_placements(reduced_placements(spec.placements))


# Parts.


def _whole_shape(local: Shape, spec: DTensorSpec) -> Shape:
    """The shape of the whole where all parts are of one size."""
    sizes = list(local)
    for placement, count in zip(spec.placements, spec.mesh.shape, strict=True):
        if isinstance(placement, Shard):
            sizes[placement.dim] *= count
    return tuple(sizes)


def _check_part(local: Tensor, spec: DTensorSpec, shape: Shape) -> None:
    expected = shape_of(spec.box(shape))
    if not same_shape(local.form.shape, expected):
        message = f"from_local: this rank holds {expected} of a tensor of shape {shape} in {text_of(spec.placements)}"
        fail("W025", message, part=local)


def _agreed(local: Tensor, spec: DTensorSpec, shape: Sequence[int] | None) -> tuple[Tensor, Shape]:
    """The part, made the same along axes that replicate, and the shape of the whole.

    Errors: W025 on all ranks where parts do not fit.
    """
    mesh = spec.mesh
    group = mesh.group_along(range(mesh.ndim))
    rank = local.dim()
    sizes = np.array([local.dtype.code, rank, *local.shape, *[0] * (64 - rank)], np.int64)
    gathered = np.empty(len(sizes) * group.size, np.int64)
    group.all_gather(gathered, sizes, [len(sizes)] * group.size).wait()
    rows = gathered.reshape(group.size, -1)
    if (rows[:, :2] != rows[0, :2]).any():
        fail("W025", "from_local: ranks hold parts of other dtypes or numbers of dims", part=local)
    whole = _whole_of(rows[:, 2 : 2 + rank], group.ranks, spec) if shape is None else tuple(shape)
    for other, row in zip(group.ranks, rows, strict=True):
        expected = shape_of(spec.box(whole, mesh.coordinate_of(other)))
        if tuple(map(int, row[2 : 2 + rank])) != expected:
            found = tuple(map(int, row[2 : 2 + rank]))
            message = f"from_local: rank {other} holds {found} where {expected} is expected of {whole}"
            fail("W025", message, placements=text_of(spec.placements))
    return _made_same(local, spec), whole


def _whole_of(rows: Any, ranks: Sequence[int], spec: DTensorSpec) -> Shape:
    """The shape of the whole by the sizes of all parts: their sum along axes that shard."""
    first = min(spec.mesh.coordinate_of(rank) for rank in ranks)
    sizes = [0] * rows.shape[1]
    for row, rank in zip(rows, ranks, strict=True):
        coordinate = spec.mesh.coordinate_of(rank)
        for dim in range(len(sizes)):
            others = [axis for axis, one in enumerate(spec.placements) if not one.is_shard(dim)]
            if all(coordinate[axis] == first[axis] for axis in others):
                sizes[dim] += int(row[dim])
    return tuple(sizes)


def _made_same(local: Tensor, spec: DTensorSpec) -> Tensor:
    for axis, placement in enumerate(spec.placements):
        if placement.is_replicate():
            root = spec.mesh.rank_at([0 if at == axis else own for at, own in enumerate(spec.mesh.own_coordinate())])
            fresh = _sent_by(root, spec.mesh.get_group(axis), local)
            if local.requires_grad:
                continue  # the user's own tensor stays the leaf
            local = fresh
    return local


def _sent_by(rank: int, group: ProcessGroup, tensor: Tensor) -> Tensor:
    """The tensor of one rank, on each rank of a group."""
    return broadcast_from(tensor.detach(), group.ranks.index(rank), group.name)


# Making.


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A tensor that all ranks have, divided. The values are those of rank `src_data_rank` of the mesh.

    With `src_data_rank=None` each rank takes its part of its own tensor, and nothing is sent.
    """
    require(device_mesh is not None, "A001", "distribute_tensor: a mesh is expected", given=device_mesh)
    assert device_mesh is not None
    if isinstance(tensor, DTensor):
        fits = tensor.device_mesh is device_mesh
        require(fits, "W021", "distribute_tensor: the tensor lies on another mesh", tensor=tensor.device_mesh)
        same = normalized(placements, device_mesh, tensor.dim(), "distribute_tensor") == tensor.placements
        require(same, "A002", "distribute_tensor: the tensor is divided otherwise", hint="use redistribute()")
        return tensor
    chosen = normalized(placements, device_mesh, tensor.dim(), "distribute_tensor")
    values: Any = tensor.detach()
    if src_data_rank is not None and not tensor.is_meta:
        values = _sent_by(device_mesh.ranks[src_data_rank], device_mesh.group_along(range(device_mesh.ndim)), values)
    made: Any = divided_as(values, DTensorSpec(device_mesh, chosen))
    if isinstance(tensor, Parameter):
        return cast(DTensor, Parameter(made, requires_grad=tensor.requires_grad))
    made.requires_grad_(tensor.requires_grad)
    return cast(DTensor, made)


def divided_as(values: Tensor, spec: DTensorSpec) -> DTensor:
    """Values of which each rank has all, divided: nothing is sent, and they are copied where a rank keeps all."""
    whole, shape = DTensorSpec(spec.mesh, [Replicate()] * spec.mesh.ndim), tuple(values.form.shape)
    local = redistributed(values, whole, spec, shape, "distribute_tensor", False)
    return DTensor(local if local is not values else values.clone(), spec, shape)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., object] | None = None,
    output_fn: Callable[..., object] | None = None,
) -> Module:
    """A module whose parameters and buffers are divided: by `partition_fn`, and else whole on each rank.

    `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` change what goes in and comes out.
    """
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, device_mesh)
        replicate_state(part, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda part, inputs: input_fn(part, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda part, inputs, outputs: output_fn(part, outputs, device_mesh))
    return module


def replicate_state(module: Module, mesh: DeviceMesh) -> None:
    """Lets each rank have all of the parameters and buffers of one module that are not divided yet."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        if not isinstance(parameter, DTensor):
            setattr(module, name, Parameter(distribute_tensor(parameter, mesh), parameter.requires_grad))
    for name, buffer in list(module.named_buffers(recurse=False)):
        if not isinstance(buffer, DTensor):
            setattr(module, name, distribute_tensor(buffer, mesh))
