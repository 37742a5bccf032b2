"""Plans of tensor parallelism: how the parameters of modules are divided, and how inputs and outputs lie.

parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
"""

from __future__ import annotations

import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.dtensor import DTensor, distribute_module, distribute_tensor
from rushlight.distributed.tensor.report import implicit_replication
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.placement import Placement, Replicate, Shard
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.sparse import Embedding
from rushlight.support.errors import fail, require


class ParallelStyle(ABC):
    """How one module is divided."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Divides a module."""


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """A module divided by a plan: a style, or styles by the paths of modules, in which `*` stands for one name.

    Errors: A002 for a path that names no module.
    """
    require(device_mesh.ndim == 1, "A002", "parallelize_module: a mesh of one axis is expected", mesh=device_mesh)
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    for path, style in (parallelize_plan or {}).items():
        found = [part for name, part in module.named_modules() if _matches(name, path)]
        if not found:
            names = ", ".join([name for name, _ in module.named_modules() if name][:12])
            message = f"parallelize_module: no module is named {path!r}"
            fail("A002", message, hint=f"its modules are {names}", module=type(module).__name__)
        for part in found:
            style.src_data_rank = src_data_rank
            style._apply(part, device_mesh)
    return module


def _matches(name: str, path: str) -> bool:
    names, patterns = name.split("."), path.split(".")
    pairs = zip(names, patterns, strict=False)
    return len(names) == len(patterns) and all(fnmatch.fnmatchcase(one, pattern) for one, pattern in pairs)


class ColwiseParallel(ParallelStyle):
    """Each rank has some of the outputs of a linear layer, or some columns of an embedding.

    Inputs are whole on each rank and outputs divided along their last dim, unless layouts say otherwise.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.given = input_layouts
        self.output = output_layouts or Shard(-1)
        self.local = use_local_output

    def _dims(self, module: Module) -> Mapping[str, int | None]:
        _check_layer("ColwiseParallel", module)
        return {"weight": 0, "bias": 0} if isinstance(module, Linear) else {"weight": 1}

    def _input_size(self, module: Module) -> int | None:
        return None

    def _wanted(self, module: Module) -> Placement:
        return Replicate()

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        _divide(module, device_mesh, self._dims(module), self.src_data_rank)

        def enter(part: Module, inputs: tuple[Any, ...], mesh: DeviceMesh) -> tuple[Any, ...]:
            first = _divided(inputs[0], mesh, self.given or self._wanted(part), self._input_size(part))
            return (_moved(first, self._wanted(part)), *inputs[1:])

        def leave(part: Module, output: Any, mesh: DeviceMesh) -> Any:
            return _given_back(output, self.output, self.local)

        return distribute_module(module, device_mesh, None, enter, leave)


def _check_layer(style: str, module: Module) -> None:
    known = isinstance(module, (Linear, Embedding))
    require(known, "A001", f"{style}: a Linear or an Embedding is expected", module=type(module).__name__)


class RowwiseParallel(ColwiseParallel):
    """Each rank has some inputs of a linear layer, or some rows of an embedding.

    What the ranks compute is summed.

    Inputs are divided along their last dim, of an embedding whole, and outputs whole, unless layouts say otherwise.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(
            input_layouts=input_layouts,
            output_layouts=output_layouts or Replicate(),
            use_local_output=use_local_output,
        )

    def _dims(self, module: Module) -> Mapping[str, int | None]:
        _check_layer("RowwiseParallel", module)
        return {"weight": 1, "bias": None} if isinstance(module, Linear) else {"weight": 0}

    def _wanted(self, module: Module) -> Placement:
        return Shard(-1) if isinstance(module, Linear) else Replicate()

    def _input_size(self, module: Module) -> int | None:
        return module.in_features if isinstance(module, Linear) else None


class SequenceParallel(ParallelStyle):
    """Inputs and outputs are divided along the dim of a sequence; parameters are whole on each rank."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.placement = Shard(sequence_dim)
        self.local = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(part: Module, inputs: tuple[Any, ...], mesh: DeviceMesh) -> tuple[Any, ...]:
            return (_moved(_divided(inputs[0], mesh, self.placement, None), self.placement), *inputs[1:])

        def leave(part: Module, output: Any, mesh: DeviceMesh) -> Any:
            return _given_back(output, None, self.local)

        return distribute_module(module, device_mesh, None, enter, leave)


class PrepareModuleInput(ParallelStyle):
    """Inputs of a module lie as `input_layouts` say; they are brought to `desired_input_layouts`."""

    def __init__(
        self,
        *,
        input_layouts: Placement | Sequence[Placement | None],
        desired_input_layouts: Placement | Sequence[Placement | None],
        use_local_output: bool = False,
    ) -> None:
        self.given = (input_layouts,) if isinstance(input_layouts, Placement) else tuple(input_layouts)
        desired = desired_input_layouts
        self.wanted = (desired,) if isinstance(desired, Placement) else tuple(desired)
        fits = len(self.given) == len(self.wanted)
        require(fits, "A002", "PrepareModuleInput: one wanted layout for each is expected", given=self.given)
        self.local = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(part: Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            fits = len(inputs) == len(self.given)
            require(fits, "A002", "PrepareModuleInput: one layout for each input is expected", inputs=len(inputs))
            made: list[Any] = []
            for value, given, wanted in zip(inputs, self.given, self.wanted, strict=True):
                if given is None or wanted is None:
                    made.append(value)
                else:
                    moved = _moved(_divided(value, device_mesh, given, None), wanted)
                    made.append(moved.to_local() if self.local else moved)
            return tuple(made)

        module.register_forward_pre_hook(enter)
        return module


class PrepareModuleOutput(ParallelStyle):
    """The output of a module lies as `output_layouts` says, and is brought to `desired_output_layouts`."""

    def __init__(
        self, *, output_layouts: Placement, desired_output_layouts: Placement, use_local_output: bool = True
    ) -> None:
        self.given, self.wanted, self.local = output_layouts, desired_output_layouts, use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def leave(part: Module, inputs: object, output: Any) -> Any:
            return _given_back(_divided(output, device_mesh, self.given, None), self.wanted, self.local)

        module.register_forward_hook(leave)
        return module


@contextmanager
def loss_parallel() -> Generator[None]:
    """A scope in which losses take logits that are divided along their classes, and plain labels.

    Labels and weights are the same on all ranks. No rank puts the logits together, in the backward pass either.

    >>> with loss_parallel():
    ...     loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(0, 1))
    ...     loss.backward()
    """
    with implicit_replication():
        yield


def _divide(module: Module, mesh: DeviceMesh, dims: Mapping[str, int | None], source: int | None) -> None:
    """Divides the parameters of a module that are not divided yet, each along a dim."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        dim = dims.get(name)
        if not isinstance(parameter, DTensor):
            placement = Replicate() if dim is None else Shard(dim)
            made = distribute_tensor(parameter, mesh, [placement], src_data_rank=source)
            setattr(module, name, Parameter(made, parameter.requires_grad))


def _divided(value: Any, mesh: DeviceMesh, placement: Placement, size: int | None) -> Any:
    """A plain tensor as the part of this rank; `size` is that of its last dim, where that is known."""
    if isinstance(value, DTensor) or not isinstance(value, Tensor):
        return value
    shape: list[int] | None = None
    if size is not None and placement.is_shard() and placement in (Shard(-1), Shard(value.dim() - 1)):
        shape = [*value.shape[:-1], size]
    return DTensor.from_local(value, mesh, [placement], shape=shape)


def _moved(value: Any, placement: Placement) -> Any:
    return value.redistribute(placements=[placement]) if isinstance(value, DTensor) else value


def _given_back(output: Any, placement: Placement | None, local: bool) -> Any:
    if not isinstance(output, DTensor):
        return output
    moved = output if placement is None else _moved(output, placement)
    return moved.to_local() if local else moved
