"""tinygrad as a contestant, on its CPU device, which needs clang."""

from __future__ import annotations

from importlib import metadata

from rushlight.bench.checking import flat
from rushlight.bench.peers import TinygradTensor, tinygrad
from rushlight.bench.programs.tinygrad_ops import FUNCTIONS
from rushlight.bench.records import Array, Case, Inputs, Work
from rushlight.bench.serving import Absent

DEVICE = "CPU"


class Tinygrad:
    """Each program is one TinyJit, whose results are waited for."""

    def __init__(self) -> None:
        self.version = metadata.version("tinygrad")

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """See `Host`."""
        if case.program not in FUNCTIONS:
            raise Absent("not written for tinygrad")
        function = FUNCTIONS[case.program]
        tensors = [tensor_of(value, case.dtype) for value in inputs.values()]

        def program(*operands: TinygradTensor) -> tuple[TinygradTensor, ...]:
            results = function(*operands)
            return tuple([one.realize() for one in (results if isinstance(results, tuple) else (results,))])

        jitted, device = tinygrad.TinyJit(program), tinygrad.Device[DEVICE]

        def call() -> object:
            results = jitted(*tensors)
            device.synchronize()
            return results

        return call

    def arrays(self, result: object) -> list[Array]:
        """See `Host`."""
        assert isinstance(result, list | tuple)
        return flat([one.float().numpy() if one.is_floating_point() else one.numpy() for one in result])


def tensor_of(value: Array, dtype: str) -> TinygradTensor:
    """A tensor on the device; float32 values become bfloat16 where that is measured."""
    tensor = tinygrad.Tensor(value, device=DEVICE)
    return (tensor.cast("bfloat16") if dtype == "bfloat16" else tensor).contiguous().realize()


def make_host(framework: str, mode: str, threads: int) -> Tinygrad:
    """The host."""
    tinygrad.Device[DEVICE]  # an error here is the reason why nothing can be measured
    return Tinygrad()
