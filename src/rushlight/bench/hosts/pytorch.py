"""Rushlight and torch as contestants: one text for both, in PyTorch's API.

`eager` calls functions as they are. `compiled` compiles them: Rushlight takes whole steps with their back-propagation
and optimizer; torch.compile takes what is between. Both are told of weights that are constant. `traced` makes graphs
of functions and no native code: Rushlight's run in numpy, torch.export's do not run.
"""

from __future__ import annotations

import functools
from typing import Any

import rushlight as rl
from rushlight.bench.programs import pytorch_eager, pytorch_layers, pytorch_models, pytorch_ops, pytorch_sizes
from rushlight.bench.programs.pytorch_ops import Function, Modes
from rushlight.bench.records import Array, Case, Inputs, Work
from rushlight.bench.serving import Absent

FUNCTIONS = {**pytorch_ops.FUNCTIONS, **pytorch_eager.FUNCTIONS, **pytorch_layers.FUNCTIONS, **pytorch_sizes.FUNCTIONS}


def as_is(function: Function) -> Function:
    """The function itself."""
    return function


def make_modes(framework: str, mode: str) -> Modes:
    """The functions that a mode compiles."""
    if mode == "eager":
        return Modes(as_is, as_is, as_is, as_is, as_is)
    if mode == "max-autotune":
        tuned = functools.partial(rl.compile, mode=mode)
        return Modes(tuned, tuned, tuned, as_is, tuned)
    if mode == "traced":
        return Modes(*[traced(framework)] * 5)
    if framework == "rushlight":
        frozen = functools.partial(rl.compile, freeze=True)
        return Modes(rl.compile, frozen, rl.compile, as_is, frozen)
    frozen = functools.partial(rl.compile, options={"freezing": True})
    return Modes(rl.compile, frozen, as_is, rl.compile, functools.partial(frozen, dynamic=True))


def traced(framework: str) -> Function:
    """Return the function that traces functions. It has traced one before, so that its modules are loaded."""
    trace = functools.partial(rl.compile, backend="reference") if framework == "rushlight" else exported
    trace(lambda x: x + 1)(rl.ones(2))
    return trace


def exported(function: Function) -> Function:
    """torch.export of a function, at each call."""
    program = rl.nn.Module()
    program.forward = function
    peer: Any = rl
    return lambda *operands: peer.export.export(program, operands, strict=False)


class PyTorchApi:
    """A framework with PyTorch's API."""

    def __init__(self, modes: Modes) -> None:
        self.version: str = rl.__version__
        self.modes = modes

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """See `Host`."""
        tensors = {name: tensor_of(value, case.dtype) for name, value in inputs.items()}
        if case.program in pytorch_models.MODELS:
            return pytorch_models.MODELS[case.program](self.modes, tensors, **case.options)
        if case.program not in FUNCTIONS:
            raise Absent("not written in PyTorch's API")
        function = FUNCTIONS[case.program](self.modes)
        operands = tuple(tensors.values())
        return lambda: function(*operands)

    def arrays(self, result: object) -> list[Array]:
        """See `Host`."""
        if isinstance(result, list | tuple):
            return [array for one in result for array in self.arrays(one)]
        assert isinstance(result, rl.Tensor)
        tensor = result.detach()
        return [(tensor.to(rl.float32) if tensor.is_floating_point() else tensor).numpy().copy()]


def tensor_of(value: Array, dtype: str) -> rl.Tensor:
    """A tensor in memory of the framework's own; float32 values become bfloat16 where that is measured."""
    tensor = rl.from_numpy(value).clone()
    return tensor.to(rl.bfloat16) if dtype == "bfloat16" and tensor.is_floating_point() else tensor


def make_host(framework: str, mode: str, threads: int) -> PyTorchApi:
    """The host."""
    rl.set_num_threads(threads)
    return PyTorchApi(make_modes(framework, mode))
