"""One stage of a pipeline: a part of a model, and what goes in and out of it for each microbatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.distributed.engine.fake import Fake
from rushlight.distributed.group import Group, member
from rushlight.distributed.pipelining.messages import Messages, Tensors
from rushlight.distributed.pipelining.schedules import in_a_v, in_turn
from rushlight.eager.autograd.driver import backward as run_backward
from rushlight.eager.autograd.driver import grad
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require


class PipelineStage:
    """Stage `stage_index` of `num_stages`: `submodule` takes what the stage before gives, and its results go on.

    Stages lie on the ranks of a group in turn, for `ScheduleZBVZeroBubble` there and back. Results are a tensor or a
    tuple of tensors, of the same shapes and dtypes for all microbatches. `input_args` and `output_args` are examples of
    a microbatch's inputs and results: where all stages have them no message tells the shapes, which ranks without data
    cannot do.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: object = None,
        input_args: Tensor | Sequence[Tensor] | None = None,
        output_args: Tensor | Sequence[Tensor] | None = None,
        group: Group = None,
    ) -> None:
        require(0 <= stage_index < num_stages, "A002", f"PipelineStage: stage {stage_index} of {num_stages}")
        self.submodule = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.group = member(group)
        size = self.group.size
        homes = {in_turn(size)(stage_index), *([in_a_v(size)(stage_index)] if num_stages == 2 * size else [])}
        at_home = self.group.rank in homes
        require(at_home, "A002", f"PipelineStage: stage {stage_index} does not lie at rank {self.group.rank}")
        self.messages = Messages(self.group, num_stages)
        self.input_args, self.output_args = _examples(input_args), _examples(output_args)
        knows = self.is_first or self.input_args is not None or not isinstance(self.group.engine, Fake)
        hint = "input_args=, output_args=: tensors of the shapes of a microbatch's"
        require(knows, "A002", "PipelineStage: nobody tells a rank without data what its stage takes", hint=hint)
        self._inputs: dict[int, list[Tensor]] = {}
        self._outputs: dict[int, Sequence[Tensor]] = {}
        self._starts: dict[int, Tensors | None] = {}  # gradients of results, until the weights' are taken

    def expect(self) -> None:
        """Tell the messages what the examples say."""
        at = self.stage_index
        if self.input_args is not None and not self.is_first:
            self.messages.expect(at - 1, at, self.input_args)
        if self.output_args is not None and not self.is_last:
            self.messages.expect(at, at + 1, self.output_args)

    @property
    def is_first(self) -> bool:
        """Whether inputs come from the program."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether results are the model's."""
        return self.stage_index == self.num_stages - 1

    def forward(self, at: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the stage for a microbatch, and send its results on. The first stage takes the program's arguments."""
        if not self.is_first:
            args = self.messages.receive(self.stage_index - 1, self.stage_index, at)
            self._inputs[at] = [one.requires_grad_() for one in args if _has_gradient(one)]
        result = self.submodule(*args, **kwargs)
        outputs: Tensors = result if isinstance(result, tuple) else (result,)
        if not self.is_last:
            self._outputs[at] = [one for one in outputs if _has_gradient(one)]
            self.messages.expect(self.stage_index + 1, self.stage_index, self._outputs[at])
            self.messages.send(self.stage_index, self.stage_index + 1, at, tuple([one.detach() for one in outputs]))
        return result

    def backward(self, at: int, loss: Tensor | None) -> None:
        """Take a microbatch's gradients, and send those of the inputs back."""
        outputs, gradients = self._roots(at, loss)
        run_backward(outputs, gradients)
        self._send_back(at, [one.grad for one in self._inputs.get(at, [])])
        self._inputs.pop(at, None)

    def backward_inputs(self, at: int, loss: Tensor | None) -> None:
        """Take the gradients of a microbatch's inputs alone, and send them back."""
        outputs, gradients = self._roots(at, loss)
        self._outputs[at], self._starts[at] = outputs, gradients
        inputs = self._inputs.get(at, [])
        found = grad(outputs, inputs, gradients, retain_graph=True, allow_unused=True) if inputs else []
        self._send_back(at, found)

    def backward_weights(self, at: int) -> None:
        """Take the gradients of the weights, after those of the inputs."""
        parameters = [one for one in self.submodule.parameters() if one.requires_grad]
        run_backward(self._outputs.pop(at), self._starts.pop(at), inputs=parameters)
        self._inputs.pop(at, None)

    def _roots(self, at: int, loss: Tensor | None) -> tuple[Sequence[Tensor], Tensors | None]:
        if self.is_last:
            assert loss is not None
            return (loss,), None
        received = self.messages.receive(self.stage_index + 1, self.stage_index, at)
        pairs = [pair for pair in zip(self._outputs.pop(at), received, strict=True) if pair[0].requires_grad]
        return [one for one, _ in pairs], tuple([gradient for _, gradient in pairs])

    def _send_back(self, at: int, gradients: Sequence[Tensor | None]) -> None:
        """Send gradients to the stage before, zeros where nothing depends on an input."""
        if self.is_first:
            return
        pairs = zip(self._inputs[at], gradients, strict=True)
        filled = [one.detach().new_zeros(tuple(one.shape)) if of is None else of.detach() for one, of in pairs]
        self.messages.expect(self.stage_index, self.stage_index - 1, filled)
        self.messages.send(self.stage_index, self.stage_index - 1, at, tuple(filled))


def _examples(tensors: Tensor | Sequence[Tensor] | None) -> Sequence[Tensor] | None:
    return (tensors,) if isinstance(tensors, Tensor) else tensors


def _has_gradient(tensor: Tensor) -> bool:
    """Whether the stage after sends a gradient of a tensor back."""
    return tensor.dtype.kind in (Kind.FLOAT, Kind.COMPLEX)
