"""What is counted: each program prepares itself, and gives the function that is counted.

Captures are run by a backend that makes no native code: what LLVM does is counted by `tools/count_instructions`. Calls
whose overhead is counted are native ones.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
import rushlight.distributed as dist
from rushlight.bench.bytecodes import as_users
from rushlight.bench.programs.numpy_ops import unbind_split_flip_cat
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import Replicate, distribute_tensor
from rushlight.fx.experimental.proxy_tensor import make_fx

Work = Callable[[], object]
CALLS = 20  # of a call whose overhead is counted
PARAMETERS = 150


class Program(NamedTuple):
    """What is counted: `prepare(size)` gives the work. It is run once at the least size, which loads what it needs."""

    about: str
    prepare: Callable[[int], Work]
    size: int
    least: int = 1


def captured(make: Callable[[int], Any], inputs: Callable[[int], tuple[Any, ...]], **options: Any) -> Any:
    """A capture of what `make` gives, from the beginning."""

    def prepare(size: int) -> Work:
        function, operands = make(size), inputs(size)

        def work() -> object:
            rl.compiler.reset()
            return rl.compile(function, backend="reference", **options)(*operands)

        return work

    return prepare


def rows(*shape: int, **options: Any) -> Callable[[int], tuple[Any, ...]]:
    """One input of ones."""
    return lambda size: (rl.ones(*shape, **options),)


def pair(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    """Two inputs of ones."""
    return lambda size: (rl.ones(*shape), rl.ones(*shape))


def repeated(call: Callable[[Any], object], x: Any, count: int) -> Work:
    """So many calls on one input."""

    def work() -> None:
        for _ in range(count):
            call(x)

    return work


def overhead(mode: str, dynamic: bool) -> Callable[[int], Work]:
    """Calls of a compiled `x + 1` on two elements, natively, in a mode of gradients."""

    def prepare(size: int) -> Work:
        x = rl.ones(2, requires_grad=mode in ("forward", "backward"))
        within = {"no_grad": rl.no_grad, "inference": rl.inference_mode}.get(mode, contextlib.nullcontext)
        call = rl.compile(counted().plus_one, dynamic=dynamic)
        start = rl.ones(2)

        def calls() -> None:
            with within():
                for _ in range(size):
                    call(x)

        def passes() -> None:
            for _ in range(size):
                call(x).backward(start)

        work = passes if mode == "backward" else calls
        for _ in range(10):
            work()
        return work

    return prepare


def prologue(size: int) -> Work:
    """Calls whose graph is run by a function of Python: what is left is the wrapper."""
    x = rl.ones(2)
    call = rl.compile(counted().plus_one, backend=lambda module, inputs: lambda *operands: (operands[-1],))
    call(x)
    return repeated(call, x, size)


def guards(size: int) -> Work:
    """Calls of a module with many parameters, whose guards are checked."""
    module = counted().Many(PARAMETERS).requires_grad_(False)
    call, x = rl.compile(module), rl.ones(10)
    call(x)
    return repeated(call, x, size)


def floats(size: int) -> Work:
    """A function of a number, which changes from call to call."""
    x = rl.ones(4)

    def work() -> None:
        rl.compiler.reset()
        call = rl.compile(counted().scaled, backend="reference")
        for step in range(size):
            call(x, step + 0.5)

    return work


def hints(size: int) -> Work:
    """A function whose input's size changes from call to call."""
    inputs = [rl.ones(step + 2, 4) for step in range(size)]

    def work() -> None:
        rl.compiler.reset()
        call = rl.compile(counted().plus_one, backend="reference")
        for one in inputs:
            call(one)

    return work


def joints(size: int) -> Work:
    """The graph of a chain of products with its gradients."""
    operands = tuple(rl.ones(size, size) for _ in range(3))
    return lambda: make_fx(counted().joint)(*operands)


def partitions(size: int) -> Work:
    """The same, in a forward and a backward part."""
    module = make_fx(counted().joint)(*[rl.ones(size, size) for _ in range(3)])
    return lambda: rl.compiler.partition.split(module, 1)


def divided(size: int) -> Work:
    """Sums of divided tensors in a world that is not there."""
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(rl.ones(4, 4), mesh, [Replicate()])

    def work() -> object:
        total = x
        for _ in range(size):
            total = total + x
        return total

    return work


def disabled(size: int) -> Work:
    """Calls of a function that is left out of compilation."""
    return repeated(rl.compiler.disable(counted().plus_one), rl.ones(2), size)


def unbound(size: int) -> Work:
    """The program with many sizes that values tell."""
    function = as_users("pytorch_sizes").unbind_split_flip_cat
    counts = np.random.default_rng(1).multinomial(16, [1 / 4] * 4, size=size)
    x = np.arange(16)
    assert unbind_split_flip_cat(x, counts).shape == x.shape
    operands = rl.from_numpy(x), rl.from_numpy(counts)

    def work() -> object:
        rl.compiler.reset()
        return rl.compile(function, backend="reference")(*operands)

    return work


@functools.cache
def counted() -> Any:
    """The module of programs, as a user's."""
    return as_users("counted")


def of(name: str) -> Callable[[int], Any]:
    """A program of that module for a size."""
    return lambda size: getattr(counted(), name)(size)


OVERHEAD: Mapping[str, Program] = {
    **{
        f"runtime_overhead_{mode}{'_dynamic' if dynamic else ''}": Program(
            "calls of a compiled x + 1 on two elements", overhead(mode, dynamic), CALLS
        )
        for mode in ("no_grad", "inference", "forward", "backward")
        for dynamic in (False, True)
    },
    "runtime_overhead_prologue": Program("the wrapper of such calls alone", prologue, CALLS),
}
PROGRAMS: Mapping[str, Program] = {
    "deep_nested_module": Program("modules in modules", captured(of("Deeper"), rows(1, 10)), 40),
    **OVERHEAD,
    "add_loop": Program("sums in a loop", captured(of("adds"), pair(4)), 100),
    "add_loop_dynamic": Program("the same for open sizes", captured(of("adds"), pair(4), dynamic=True), 100),
    "mm_loop": Program("products in a loop", captured(of("products"), pair(4, 4)), 50),
    "joint_graph": Program("a graph with its gradients", joints, 4, 2),
    "partitioner": Program("its forward and its backward part", partitions, 4, 2),
    "list_of_linears": Program("layers in a list", captured(of("Layers"), rows(2, 10)), 20),
    "inlined_calls": Program("functions in functions", captured(of("calls"), rows(4)), 20),
    "autograd_function": Program(
        "functions with derivatives of their own", captured(of("own_functions"), rows(4, requires_grad=True)), 20
    ),
    "float_args": Program("numbers that change", floats, 8),
    "update_hint": Program("sizes that change", hints, 8),
    "sum_of_sizes": Program(
        "sums of symbols",
        captured(of("sums_of_sizes"), lambda n: tuple(rl.ones(k + 2) for k in range(n)), dynamic=True),
        30,
    ),
    "sum_floordiv": Program("sums of divided symbols", captured(of("floor_divisions"), rows(60), dynamic=True), 20),
    "unbind_split_flip_cat": Program("sizes that values tell", unbound, 6),
    "dtensor_add": Program("sums of divided tensors", divided, CALLS),
    "module_guards": Program(f"guards of {PARAMETERS} parameters", guards, CALLS),
    "disable_overhead": Program("calls that are not compiled", disabled, CALLS),
}
IMPORT = "import_time"
