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


Layouts = Placement | Sequence[Placement | None]


class PrepareModuleInput(ParallelStyle):
    """Inputs of a module lie as `input_layouts` say; they are brought to `desired_input_layouts`.

    The layouts of keyword arguments are given by name. Inputs with None stay as they are. Errors: A002 for layouts that
    do not fit to each other, or to the inputs.
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts | None = None,
        desired_input_layouts: Layouts | None = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.moves = _Moves("PrepareModuleInput", input_layouts, desired_input_layouts, use_local_output)
        given, wanted = dict(input_kwarg_layouts or {}), dict(desired_input_kwarg_layouts or {})
        message = "PrepareModuleInput: one wanted layout for each keyword is expected"
        require(given.keys() == wanted.keys(), "A002", message, given=given, wanted=wanted)
        self.named = {name: (given[name], wanted[name]) for name in given}

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(part: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, dict[str, Any]]:
            moves = self.moves
            named = {
                name: moves.one(value, device_mesh, *self.named[name]) if name in self.named else value
                for name, value in kwargs.items()
            }
            return (moves.all(args, device_mesh) if moves.given else args), named

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Outputs of a module lie as `output_layouts` say, and are brought to `desired_output_layouts`."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.moves = _Moves("PrepareModuleOutput", output_layouts, desired_output_layouts, use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def leave(part: Module, inputs: object, output: Any) -> Any:
            several = isinstance(output, (tuple, list))
            found = self.moves.all(output if several else (output,), device_mesh)
            return type(output)(found) if several else found[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Brings inputs and outputs to layouts, as `PrepareModuleInput` and `PrepareModuleOutput` do."""

    def __init__(
        self,
        *,
        input_layouts: Layouts | None = None,
        desired_input_layouts: Layouts | None = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


class _Moves:
    """Of some values how each lies, and is to lie; None for those that stay as they are."""

    def __init__(self, style: str, given: Layouts | None, wanted: Layouts | None, local: bool) -> None:
        self.style, self.local = style, local
        self.given, self.wanted = _several(given), _several(wanted)
        fits = len(self.given) == len(self.wanted)
        require(fits, "A002", f"{style}: one wanted layout for each is expected", given=self.given, wanted=self.wanted)

    def all(self, values: Sequence[Any], mesh: DeviceMesh) -> tuple[Any, ...]:
        """Return values as they are to lie."""
        fits = len(values) == len(self.given)
        require(fits, "A002", f"{self.style}: one layout for each value is expected", values=len(values))
        layouts = zip(values, self.given, self.wanted, strict=True)
        return tuple([self.one(value, mesh, given, wanted) for value, given, wanted in layouts])

    def one(self, value: Any, mesh: DeviceMesh, given: Placement | None, wanted: Placement | None) -> Any:
        """Return a value as it is to lie."""
        if given is None or wanted is None:
            return value
        return _given_back(_divided(value, mesh, given, None), wanted, self.local)


def _several(layouts: Layouts | None) -> tuple[Placement | None, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


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
