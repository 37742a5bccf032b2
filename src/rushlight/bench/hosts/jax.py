"""JAX as a contestant. Its calls return before they have computed: each is waited for."""

from __future__ import annotations

from rushlight.bench.checking import flat
from rushlight.bench.peers import JaxArray, jax
from rushlight.bench.programs import jax_models, jax_ops
from rushlight.bench.records import Array, Case, Inputs, Work
from rushlight.bench.serving import Absent


class Jax:
    """JAX uses one thread for each of this process's processors."""

    def __init__(self) -> None:
        self.version: str = jax.__version__

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """See `Host`."""
        if case.program in jax_models.MODELS:
            return waited(jax_models.MODELS[case.program](device_arrays(inputs, case.dtype), **case.options))
        if case.program not in jax_ops.FUNCTIONS:
            raise Absent("not written for JAX")
        function = jax.jit(jax_ops.FUNCTIONS[case.program])
        operands = tuple(device_arrays(inputs, case.dtype).values())
        return waited(lambda: function(*operands))

    def arrays(self, result: object) -> list[Array]:
        """See `Host`."""
        return flat(result)


def waited(work: Work) -> Work:
    """The call, until its results are there."""
    wait = jax.block_until_ready
    return lambda: wait(work())


def device_arrays(inputs: Inputs, dtype: str) -> dict[str, JaxArray]:
    """JAX's arrays; float32 values become bfloat16 where that is measured."""
    arrays = {name: jax.device_put(value) for name, value in inputs.items()}
    if dtype == "bfloat16":
        arrays = {name: value.astype(jax.numpy.bfloat16) for name, value in arrays.items()}
    return jax.block_until_ready(arrays)


def make_host(framework: str, mode: str, threads: int) -> Jax:
    """The host."""
    return Jax()
