"""Models cut into the stages of a pipeline: PyTorch's `pipeline`, `SplitPoint` and `pipe_split`.

pipe = pipeline(model, (example,), split_spec={"layers.4": SplitPoint.BEGINNING})
stage = pipe.build_stage(dist.get_rank(), "cpu")
schedule = ScheduleGPipe(stage, n_microbatches=4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import signature
from typing import Any, NamedTuple

from rushlight.distributed.engine.fake import Fake
from rushlight.distributed.group import Group, member
from rushlight.distributed.pipelining.stage import PipelineStage
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.tensor import Tensor
from rushlight.fx._symbolic_trace import Tracer, current_tracer
from rushlight.fx.cutting import Cut, cut
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Argument, Node
from rushlight.nn import Module
from rushlight.runtime.generator import default_generator
from rushlight.support.errors import fail, require

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "build_stage", "pipe_split", "pipeline"]

Policy = Callable[[GraphModule], GraphModule]


class SplitPoint(Enum):
    """Where a stage ends, at a module that `split_spec` names."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Mark in a model's `forward` that a stage ends; a call of the model does nothing there."""
    tracer = current_tracer()
    if tracer is not None:
        tracer.create_node("call_function", pipe_split, (), {})


class PipeInfo(NamedTuple):
    """What is known of all stages: the graph of the model, and how many there are."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool
    examples: tuple[tuple[Tensor, ...], ...]  # of what goes from each stage to the next one


class Pipe(Module):
    """The stages of a model: calling it runs them one after another. Each has the parameters by the model's names."""

    def __init__(self, graph: Graph, stages: list[GraphModule], examples: tuple[tuple[Tensor, ...], ...]) -> None:
        super().__init__()
        self.split_gm = Module()
        for number, stage in enumerate(stages):
            self.split_gm.add_module(f"submod_{number}", stage)
        self._info = PipeInfo(graph, len(stages), False, examples)

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return self._info.num_stages

    def get_stage_module(self, stage_idx: int) -> Module:
        """Return the module of a stage. Errors: A002 where there is none."""
        require(0 <= stage_idx < self.num_stages, "A002", f"Pipe: stage {stage_idx} of {self.num_stages}")
        return self.split_gm.get_submodule(f"submod_{stage_idx}")

    def build_stage(self, stage_index: int, device: object = None, group: Group = None) -> PipelineStage:
        """Return a stage that schedules run, of this rank."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self._info, device, group)

    def info(self) -> PipeInfo:
        """Return what is known of all stages."""
        return self._info

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        result = self.get_stage_module(0)(*args, **kwargs)
        for number in range(1, self.num_stages):
            result = self.get_stage_module(number)(*result)
        return result


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: object = None, group: Group = None
) -> PipelineStage:
    """Return a stage of a module: on `device`, if that is given, and of this rank of a group."""
    if device is not None:
        stage_module.to(device)
    count, told = pipe_info.num_stages, {}
    if isinstance(member(group).engine, Fake):  # ranks without data, which get no messages
        told["input_args"] = pipe_info.examples[stage_index - 1] if stage_index else None
        told["output_args"] = pipe_info.examples[stage_index] if stage_index < count - 1 else None
    return PipelineStage(stage_module, stage_index, count, device, group=group, **told)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
    split_policy: Policy | None = None,
) -> Pipe:
    """Cut a model into stages: at the modules that `split_spec` names, where it calls `pipe_split()`, or by a policy.

    `mb_args` and `mb_kwargs` are an example of a microbatch's arguments, with which the model is run once, without
    history. With `split_spec` modules that hold no split point are kept whole, whatever they do; what is looked into
    may not depend on values of tensors. What a later stage reads goes through those in between. Errors: A002 for
    points that are no modules, and stages that do nothing; A006 where stages share a parameter, or pass on what is no
    tensor.
    """
    require(split_spec is None or split_policy is None, "A002", "pipeline: give split_spec or split_policy, not both")
    points = dict(split_spec or {})
    _check_points(module, points)
    options = dict(mb_kwargs or {})
    graph = _Cutting(points).trace(module, _defaults(module, mb_args, options))
    traced = GraphModule(module, graph, type(module).__name__)
    if split_policy is not None:
        traced = split_policy(traced)
        require(isinstance(traced, GraphModule), "A001", "pipeline: a policy returns a GraphModule", given=type(traced))
    found = cut(traced, pipe_split, _values(traced, mb_args, options))
    return Pipe(traced.graph, list(_modules(traced, found)), found.examples)


def _check_points(module: Module, points: Mapping[str, SplitPoint]) -> None:
    names = [name for name, _ in module.named_modules() if name]
    for name, point in points.items():
        require(isinstance(point, SplitPoint), "A001", f"pipeline: {name!r} needs a SplitPoint", given=point)
        hint = f"its modules are {', '.join(names[:12])}"
        require(name in names, "A002", f"pipeline: no module is named {name!r}", hint=hint)


def _defaults(module: Module, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Argument]:
    """The arguments of `forward` that the example leaves out, which keep their values."""
    parameters = signature(module.forward).parameters.values()
    left = [one for at, one in enumerate(parameters) if at >= len(args) and one.name not in options]
    return {one.name: one.default for one in left if one.default is not one.empty}


class _Cutting(Tracer):
    """Traces a model, with a call of `pipe_split` at each point. Modules without a point in them are nodes."""

    def __init__(self, points: Mapping[str, SplitPoint]) -> None:
        super().__init__()
        self._points = points

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is kept whole."""
        if any(point.startswith(f"{module_qualified_name}.") for point in self._points):
            return False
        return bool(self._points) or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: Module, forward: Callable[..., Argument], args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Mark the points before and after a module."""
        point = self._points.get(self.path_of_module(m))
        if point is SplitPoint.BEGINNING:
            pipe_split()
        result = super().call_module(m, forward, args, kwargs)
        if point is SplitPoint.END:
            pipe_split()
        return result


class _Noting(Interpreter):
    """Runs a graph, and keeps all values."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)


def _values(module: GraphModule, args: tuple[Any, ...], options: dict[str, Any]) -> Mapping[Node, Any]:
    """The values of a graph's nodes for an example. Buffers and random numbers are afterwards what they were."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in inputs]
    rest = [options[name] for name in names[len(args) :] if name in options]
    if len(args) + len(rest) != len(names):
        fail("A002", "pipeline: the example has other arguments than the model", expected=names, given=len(args))
    buffers = {one: one.clone() for one in module.buffers()}
    state = default_generator.position()
    running = _Noting(module)
    with no_grad():
        try:
            running.run(*args, *rest)
        finally:
            default_generator.go_to(state)
            for buffer, before in buffers.items():
                buffer.copy_(before)
    return running.env


def _modules(module: GraphModule, found: Cut) -> Iterator[GraphModule]:
    """A module for each stage, with the parameters that it reads. Errors: A006 where two read the same."""
    owners: dict[Tensor, tuple[int, str]] = {}
    for number, graph in enumerate(found.graphs):
        stage = GraphModule(module, graph, f"Stage{number}")
        for name, parameter in stage.named_parameters():
            owner, known = owners.setdefault(parameter, (number, name))
            hint = "cut so that one stage has it, or give each stage its own"
            message = f"pipeline: stages {owner} and {number} share the parameter {known}"
            require(owner == number, "A006", message, other=name, hint=hint)
        yield stage
