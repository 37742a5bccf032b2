"""numpy as a contestant: the programs that others are checked against, in float32."""

from __future__ import annotations

import numpy as np

from rushlight.bench.checking import flat, numpy_work
from rushlight.bench.programs.numpy_ops import UNFAIR
from rushlight.bench.records import Array, Case, Inputs, Work
from rushlight.bench.serving import Absent


class Numpy:
    """numpy has no threads of its own; its matrix library uses one for each processor."""

    version = np.__version__

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """See `Host`."""
        if case.dtype == "bfloat16":
            raise Absent("numpy has no bfloat16")
        if case.program in UNFAIR:
            raise Absent(UNFAIR[case.program])
        return numpy_work(case, inputs)

    def arrays(self, result: object) -> list[Array]:
        """See `Host`."""
        return flat(result)


def make_host(framework: str, mode: str, threads: int) -> Numpy:
    """The host."""
    return Numpy()
